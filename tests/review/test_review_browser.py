"""The page of the review server in a real browser: list, grid, selection, evidence, several reviewers."""

import json

import numpy as np
import pytest
from PIL import Image
from review_samples import make_folder, open_folder
from selenium.webdriver.common.action_chains import ActionChains
from serving import KEYS, ServedPage, serving

from hitnet.audit import open_audit
from hitnet.decisions.corrections import audited_images
from hitnet.decisions.rules import Decisions, settled
from hitnet.decisions.steps import read_steps

pytestmark = pytest.mark.browser
NASTY = '<img src=x onerror="document.title=`run`">'


@pytest.fixture
def page(folder, browser):
    with serving(folder) as address:
        opened = ServedPage(browser, address)
        yield opened
        assert opened.complaints() == []


@pytest.fixture
def audit(folder):
    return open_audit(folder)


def on_disk(folder):
    """What is decided, as {id: (decision, label)}, from the log."""
    audited = audited_images(open_audit(folder).table)
    return {c.id: (c.decision, c.label) for _, c in settled(Decisions(read_steps(folder)), audited).corrections}


def test_decisions_by_key_are_on_disk_when_the_page_says_so(page, folder, audit):
    ids, suggested = audit.table["id"].tolist(), audit.table["suggested"].tolist()
    assert page.current == ids[0]
    page.keys("2", "1", "4", "6")
    page.decided(4)
    assert page.current == ids[4]
    assert on_disk(folder) == {
        ids[0]: ("relabel", suggested[0]),
        ids[1]: ("keep", ""),
        ids[2]: ("drop", ""),
        ids[3]: ("neither", ""),
    }
    page.keys("u")
    page.decided(3)
    assert ids[3] not in on_disk(folder)


def test_a_reload_shows_what_was_decided(page, browser):
    page.keys("4", "1")
    page.decided(2)
    browser.refresh()
    page.decided(2)
    page.wait("document.querySelectorAll('.row.drop').length === 1")


def test_a_decision_that_is_not_saved_is_not_shown_as_saved(folder, browser):
    with serving(folder) as address:
        page = ServedPage(browser, address)
    page.keys("4")
    page.wait("!document.querySelector('#banner').hidden")
    assert "Not saved" in page.text("#banner") or "does not answer" in page.text("#banner")
    assert page.text("#progress-count").startswith("0 of")
    assert page.js("document.querySelectorAll('.row.drop').length") == 0
    assert on_disk(folder) == {}


@pytest.fixture
def quick_polls(browser):
    """Pages that ask the server every tenth of a second instead of every three seconds."""
    hurry = "const later = setTimeout; window.setTimeout = (f, ms) => later(f, ms === 3000 ? 100 : ms)"
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": hurry})
    yield
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


@pytest.mark.usefixtures("quick_polls")
def test_what_is_not_saved_stays_on_the_page_until_something_is_saved(folder, browser):
    polls = "performance.getEntriesByType('resource').filter((each) => each.name.endsWith('/api/state')).length"
    with serving(folder) as address:
        page = ServedPage(browser, address)
        away = folder.rename(folder.with_name("away"))
        page.keys("4")
        page.wait("document.querySelector('#banner').textContent.startsWith('Not saved')")
        page.wait(f"{polls} > {page.js(polls) + 1}")
        assert page.js("!document.querySelector('#banner').hidden")
        away.rename(folder)
        page.keys("1")
        page.decided(1)
        page.wait("document.querySelector('#banner').hidden")


@pytest.mark.parametrize(("key", "dialog"), [("e", "#export"), ("h", "#history")])
def test_a_dialog_without_the_server_says_why_it_does_not_open(folder, browser, key, dialog):
    with serving(folder) as address:
        page = ServedPage(browser, address)
        page.keys("4")
        page.decided(1)
    page.keys(key)
    page.wait("document.querySelector('#toast').textContent.includes('Is `hitnet review` still running?')")
    assert not page.js(f"document.querySelector('{dialog}').open")


def test_an_export_that_the_browser_does_not_copy_is_selected(page):
    page.keys("4")
    page.decided(1)
    page.keys("e")
    page.wait("document.querySelector('#export').open")
    page.js("navigator.clipboard.writeText = () => Promise.reject(new Error('refused'))")
    page.js("document.execCommand = () => false")
    page.click("#export-copy")
    page.wait("document.querySelector('#toast').textContent.includes('press Ctrl+C')")
    selected = page.js("getSelection().toString()").replace("\r", "")
    assert selected == page.js("document.querySelector('#export-text').value")
    assert selected.count("\n") == 2


def test_the_grid_is_grouped_and_keeps_the_place(page, audit):
    page.keys("j", "j", "j")
    place = page.current
    page.as_grid()
    assert page.current == place
    pairs = audit.table.set_index("id")
    headings = page.js("[...document.querySelectorAll('.heading h2')].map((h) => h.innerText.replaceAll('\\n', ' '))")
    assert any(f"{pairs['given'][place]} → {pairs['suggested'][place]}" in text for text in headings)
    page.keys("right")
    other = page.current
    assert other != place
    page.keys("g")
    page.wait("document.querySelector('.row.current')")
    assert page.current == other


def test_select_by_click_shift_and_keyboard(page, folder):
    page.as_grid()
    page.keys("\ue011")  # Home
    cards = page.cards()
    page.click(f".card[data-id='{cards[1]}']")
    assert page.selected() == [cards[1]]
    ActionChains(page.browser).key_down(KEYS["shift"]).click(
        page.browser.find_element("css selector", f".card[data-id='{cards[3]}']")
    ).key_up(KEYS["shift"]).perform()
    assert page.selected() == sorted(cards[1:4])
    page.click(f".card[data-id='{cards[2]}']")
    assert page.selected() == sorted([cards[1], cards[3]])
    assert page.text("#selection-count") == "2 selected"
    page.keys("escape")
    assert page.selected() == []
    page.keys("\ue011", " ")
    page.keys("right", "right", shift=True)
    assert page.selected() == sorted(cards[:3])
    page.keys("4")
    page.decided(3)
    assert on_disk(folder) == {number: ("drop", "") for number in cards[:3]}
    assert page.selected() == []
    page.keys("u")  # all three at once
    page.decided(0)


def test_all_of_a_large_group_is_selected(tmp_path, browser):
    folder = make_folder(tmp_path, 900)
    with serving(folder) as address:
        page = ServedPage(browser, address)
        page.as_grid()
        page.keys("\ue010")  # End: images without another suggestion stand last
        page.wait("document.querySelector('.card.current')")
        given = open_audit(folder).table.set_index("id")["given"][page.current]
        page.keys("a")
        table = open_audit(folder).table
        group = table[(table["given"] == given) & (table["score"] >= 0.5)]["id"].tolist()
        assert len(group) > 150  # more than one request brings
        page.wait(f"document.querySelector('#selection-count').textContent === '{len(group)} selected'")
        page.keys("4")
        page.decided(len(group))
        assert on_disk(folder) == dict.fromkeys(group, ("drop", ""))
        assert page.complaints() == []


def test_many_decisions_are_counted_in_full(tmp_path, browser):
    folder = make_folder(tmp_path, 500)
    corrections = tmp_path / "corrections.csv"
    table = open_audit(folder).table[["id", "path", "given"]].assign(decision="keep", label="")
    table.to_csv(corrections, index=False)
    with serving(folder) as address:
        page = ServedPage(browser, address)
        page.click("#open-import")
        browser.find_element("css selector", "#import-file").send_keys(str(corrections))
        page.wait("document.querySelector('#toast').textContent === '500 decisions imported.'")
        page.keys("u")
        page.wait("document.querySelector('#toast').textContent === 'Undone: 500 decisions'")


def test_accept_all_suggestions_here(page, folder, audit):
    page.as_grid()
    page.keys("\ue011")
    first = page.cards()[0]
    pair = audit.table.set_index("id").loc[first]
    table = audit.table
    same = (table["given"] == pair["given"]) & (table["suggested"] == pair["suggested"]) & (table["score"] < 0.5)
    group, wrong = table[same]["id"].tolist(), float((1 - table[same]["score"]).sum())
    title = page.js("document.querySelector('.heading .accept').title")
    assert title.startswith(f"Relabel {len(group)} as {pair['suggested']}; about {round(wrong, 1):g} ")
    page.keys("1")  # this one is right
    page.decided(1)
    page.click(".heading .accept")
    page.decided(len(group))
    expected = {number: ("relabel", pair["suggested"]) for number in group} | {first: ("keep", "")}
    assert on_disk(folder) == expected
    page.wait("document.querySelector('.heading .accept').disabled")
    page.keys("u")
    page.decided(1)


def test_relabelling_what_is_probably_right_is_asked_for_first(page, folder, audit):
    table = audit.table
    right = table[(table["score"] >= 0.5) & (table["given"] != table["suggested"])]["id"].tolist()[:2]
    page.as_grid()
    page.js("document.querySelector('#score-min').value = 0.5")
    page.js("document.querySelector('#score-min').dispatchEvent(new Event('input'))")
    page.wait(f"document.querySelector(\"[data-id='{right[0]}']\")")
    for number in right:
        page.click(f".card[data-id='{number}']")
    page.keys("2")
    page.wait("document.querySelector('#ask').open")
    assert "are right and would become wrong" in page.text("#ask-text")
    page.click("#ask [data-close]")
    assert on_disk(folder) == {}
    page.keys("2")
    page.wait("document.querySelector('#ask').open")
    page.click("#ask-yes")
    page.decided(2)
    assert {decision for decision, _ in on_disk(folder).values()} == {"relabel"}


def test_a_large_screen_shows_many_groups_side_by_side(tmp_path, browser):
    folder = make_folder(tmp_path, 400, names=[f"class {k}" for k in range(12)])
    metrics = {"width": 1440, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        with serving(folder) as address:
            page = ServedPage(browser, address)
            page.as_grid()
            page.keys("\ue011")
            visible = """(() => { const edge = document.querySelector("#list").getBoundingClientRect();
                return [...document.querySelectorAll(".card")].map((card) => card.getBoundingClientRect())
                  .filter((card) => card.top >= edge.top - 1 && card.bottom <= edge.bottom + 1).length; })()"""
            page.wait(f"{visible} >= 24")
            tops = page.js("[...document.querySelectorAll('.heading')].map((h) => h.getBoundingClientRect().top)")
            assert len(set(tops)) < len(tops)  # side by side
            assert page.js("document.querySelectorAll('.card.current').length") == 1
            lines = []
            for _ in range(3):
                lines.append(page.js("document.querySelector('.card.current').getBoundingClientRect().top"))
                page.keys("down")
            assert lines == sorted(set(lines))  # each key goes one line down
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_dragging_selects_and_shows_what_will_be_selected(page):
    page.as_grid()
    page.keys("\ue011")
    cards = page.cards()
    first, second = (page.browser.find_element("css selector", f".card[data-id='{n}']") for n in cards[:2])
    assert first.rect["y"] == second.rect["y"]  # on the same line
    drag = ActionChains(page.browser).move_to_element_with_offset(first, -30, -30).click_and_hold()
    drag.move_to_element_with_offset(second, 10, 10).perform()
    touched = page.js("[...document.querySelectorAll('.card.touched')].map((card) => Number(card.dataset.id))")
    assert touched == cards[:2]
    ActionChains(page.browser).release().perform()
    assert page.selected() == sorted(cards[:2])
    assert page.js("document.querySelectorAll('.card.touched').length") == 0


def test_a_reload_keeps_order_filters_and_view_and_goes_on_with_what_is_undecided(page, browser):
    page.js("document.querySelector('#sort').value = 'file'")
    page.js("document.querySelector('#sort').dispatchEvent(new Event('change'))")
    page.click("[data-flag='0']")
    page.wait("document.querySelectorAll('#chips button').length === 1")
    page.keys("\ue011", "4", "1")
    page.decided(2)
    shown = page.text("#count")
    browser.refresh()
    page.decided(2)
    page.wait("document.querySelector('.row.current')")
    assert page.text("#count") == shown
    assert page.js("document.querySelector('#sort').value") == "file"
    assert page.js("document.querySelector('[data-flag=\"0\"]').getAttribute('aria-pressed')") == "true"
    assert not page.js("document.querySelector('.row.current').classList.contains('decided')")
    page.as_grid()
    browser.refresh()
    page.wait("document.querySelector('.card.current:not(.decided)')")


def test_escape_empties_the_search_and_its_filter(page):
    page.keys("/", "image-17.")
    page.wait("document.querySelector('#count b').textContent === '1'")
    page.keys("escape")
    page.wait("document.querySelector('#count b').textContent === '60'")
    assert page.js("document.querySelector('#search').value") == ""
    assert page.js("document.querySelectorAll('#chips button').length") == 0


def test_evidence_opens_another_image_and_leads_back(page, audit):
    first = int(audit.table["id"][0])
    page.keys("/", f"{audit.table['path'][0]}", "enter")  # a filter that hides all others
    page.wait("document.querySelector('#count b').textContent === '1'")
    page.keys("enter")
    page.wait("document.querySelector('#zoom .why .open img')")
    other = page.js("document.querySelectorAll('#zoom .why .open img')[6].getAttribute('src').split('/').pop()")
    assert page.js("document.querySelector('#zoom .why .open img').getBoundingClientRect().width") >= 96
    page.js("document.querySelectorAll('#zoom .why .open')[6].click()")
    page.wait(f"document.querySelector('#zoom .picture img').getAttribute('src') === '/image/{other}'")
    page.wait("document.querySelector('#zoom .back')")
    page.js("document.querySelector('#zoom .back').click()")
    page.wait(f"document.querySelector('#zoom .picture img').getAttribute('src') === '/image/{first}'")
    page.keys("escape")


def test_any_step_can_be_undone_and_brought_back(page, folder, audit):
    ids = audit.table["id"].tolist()
    page.keys("1", "4", "5")
    page.decided(3)
    page.keys("h")
    page.wait("document.querySelectorAll('#history-steps li').length === 3")
    pictures = page.js("[...document.querySelectorAll('.step-images img')].map((i) => i.getAttribute('src'))")
    assert pictures == [f"/thumb/{number}" for number in ids[2::-1]]
    page.js("document.querySelectorAll('#history-steps button')[1].click()")
    page.decided(2)
    assert on_disk(folder) == {ids[0]: ("keep", ""), ids[2]: ("unsure", "")}
    back = "[...document.querySelectorAll('#history-steps button')].find((b) => b.textContent === 'Bring back')"
    page.wait(back)
    page.js(f"{back}.click()")
    page.decided(3)
    assert on_disk(folder)[ids[1]] == ("drop", "")
    page.click("#history [data-close]")


def test_what_another_page_has_brought_back_is_not_undone_by_bringing_it_back_here(page, folder, audit):
    ids = audit.table["id"].tolist()
    page.keys("1", "4")
    page.decided(2)
    page.keys("u")
    page.decided(1)
    page.keys("h")
    page.wait("document.querySelectorAll('#history-steps li').length === 3")
    board = open_folder(folder).board
    board.undo(board.history()[0]["step"])
    back = "[...document.querySelectorAll('#history-steps button')].find((b) => b.textContent === 'Bring back')"
    page.js(f"{back}.click()")
    page.wait("document.querySelectorAll('#history-steps li').length === 5")
    assert on_disk(folder) == {ids[0]: ("keep", ""), ids[1]: ("drop", "")}
    page.click("#history [data-close]")


def test_filters_and_search_ask_the_server(page, audit):
    table = audit.table
    page.js("document.querySelector('#class-filter').value = 2")
    page.js("document.querySelector('#class-filter').dispatchEvent(new Event('change'))")
    count = int(((table["given"] == "class 2") | (table["suggested"] == "class 2")).sum())
    page.wait(f"document.querySelector('#count b').textContent === '{count}'")
    page.click("#chips button")
    page.keys("/", "image-17.")
    page.wait("document.querySelector('#count b').textContent === '1'")
    page.wait("document.querySelector('.row.current').dataset.id === '17'")


def test_the_large_view_shows_the_original_and_why(page, audit):
    first = audit.table.iloc[0]
    page.keys("enter")
    page.wait("document.querySelectorAll('#zoom .why').length >= 4")
    assert page.js("document.querySelector('#zoom .picture img').getAttribute('src')") == f"/image/{first['id']}"
    page.wait("document.querySelector('#zoom .picture img').naturalWidth === 20")
    titles = page.js("[...document.querySelectorAll('#zoom h3')].map((h) => h.innerText.replaceAll('\\n', ''))")
    assert f"Most like it, labelled {first['given']}" in titles
    assert f"Typical of {first['suggested']}" in titles
    images = "[...document.querySelectorAll('#zoom .why img')]"
    page.wait(f"{images}.length > 8 && {images}.every((i) => i.complete && i.naturalWidth > 0)")
    assert page.js(f"{images}.every((i) => i.alt.startsWith('Image '))")
    page.keys("4")
    page.decided(1)
    page.keys("escape")
    assert page.current == audit.table["id"][1]


def test_the_large_view_shows_a_picture_on_its_side_upright(page, audit, folder):
    """The camera lay on its side: what is white on the left of the file is white above on the page."""
    pixels = np.zeros((20, 30), np.uint8)
    pixels[:, :15] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(folder.parent / "photos" / audit.table["path"][0], "JPEG", exif=exif)
    page.keys("enter")
    image = "document.querySelector('#zoom .picture img')"
    page.wait(f"{image}.naturalWidth === 20 && {image}.naturalHeight === 30")
    drawn = """(() => {
        const canvas = document.createElement("canvas");
        const context = canvas.getContext("2d", { willReadFrequently: true });
        context.drawImage(%s, 0, 0);
        return [4, 25].map((y) => context.getImageData(10, y, 1, 1).data[0]);
    })()"""
    above, below = page.js(drawn % image)
    assert above > 200
    assert below < 50
    assert page.js(f"getComputedStyle({image}).objectFit") == "contain"  # no side is stretched


def test_two_reviewers_and_two_tabs(folder, browser, audit):
    first, second = audit.table["id"].tolist()[:2]
    with serving(folder, "anna") as anna, serving(folder, "ben") as ben:
        page = ServedPage(browser, anna)
        page.keys("4", "1")
        page.decided(2)
        browser.switch_to.new_window("tab")
        try:
            other = ServedPage(browser, ben)
            other.decided(2)
            other.wait(f"document.querySelector(\"[data-id='{first}']\").classList.contains('drop')")
            other.keys("1", "1")
            other.wait("document.querySelector('#review-state').textContent.includes('anna and ben agree on 1 of 2')")
            assert "1 disputed" in other.text("#progress-detail")
            other.click("[data-state='disputed']")
            other.wait("document.querySelector('#count b').textContent === '1'")
            other.wait(f"document.querySelector('.row.current').dataset.id === '{first}'")
            assert "anna: drop" in other.text(".row.current .who")
        finally:
            browser.close()
            browser.switch_to.window(browser.window_handles[0])
        page.wait("document.querySelector('#progress-detail').textContent.includes('1 disputed')")
    assert set(on_disk(folder)) == {second}


def test_the_page_tells_how_many_wrong_labels_are_left_from_the_first_decision_on(page, audit):
    assert page.js("document.querySelector('#review-state').hidden")
    page.keys("2")
    page.decided(1)
    expected = round(float((1 - audit.table["score"][1:]).sum()))
    left = f"about {expected} are left among 59 images not yet decided"
    assert page.text("#review-state") == f"1 wrong label found, {left}"
    assert page.text(".tile.expected dd") == f"≈ {expected + 1}"
    page.keys("u")
    page.decided(0)
    assert page.js("document.querySelector('#review-state').hidden")


def test_names_and_reviewers_never_run_as_script(tmp_path, browser):
    names = [NASTY, "</script><script>document.title='run'</script>", "javascript:alert(1)", "d", "e"]
    paths = [f"{i % 5}/{'x' * (i % 3)}&lt;{i}'.png" for i in range(60)]
    folder = make_folder(tmp_path, names=names, paths=paths)
    with serving(folder, NASTY) as address:
        page = ServedPage(browser, address)
        page.keys("1", "2")
        page.decided(2)
        for key in ("g", "h"):
            page.keys(key)
        page.wait("document.querySelectorAll('#history-steps li').length === 2")
        assert NASTY in page.text("#history-steps")
        page.click("#history [data-close]")
        page.keys("enter")
        page.wait("document.querySelectorAll('#zoom .why').length > 2")
        assert page.js("document.title") != "run"
        assert page.js("document.querySelectorAll('img[src=x]').length") == 0
        assert page.complaints() == []


def test_an_inline_script_does_not_run(page):
    """The policy holds even if markup got into the page by a mistake."""
    page.js("document.body.insertAdjacentHTML('beforeend', arguments[0])", NASTY)
    page.browser.execute_script(
        "const s = document.createElement('script'); s.textContent = 'document.title=`run`'; document.body.append(s);"
    )
    page.wait("document.querySelector('img[src=x]').complete")
    assert page.js("document.title") != "run"
    assert len([text for text in page.complaints() if "Content Security Policy" in text]) >= 2


def test_the_page_asks_nobody_else(page, browser):
    page.as_grid()
    page.keys("enter")
    page.wait("document.querySelectorAll('#zoom .why').length > 2")
    own = page.js("location.origin")
    requests = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"] for m in requests if m["method"] == "Network.requestWillBeSent"]
    urls = [each["request"]["url"] for each in sent if each["documentURL"].startswith(own)]  # of no other test's page
    assert sum(url.startswith(own) for url in urls) > 5
    assert all(url.startswith((own, "data:")) for url in urls)


def test_nothing_is_cut_off_in_the_grid(page, browser):
    outside = """[...document.querySelectorAll(".card, .heading button")].filter((part) => {
        const own = part.getBoundingClientRect(), edge = document.querySelector("#list").getBoundingClientRect();
        return own.left < edge.left - 1 || own.right > edge.right + 1;
    }).length"""
    overlap = """(() => {
        const parts = [...document.querySelectorAll(".card, .heading")].map((part) => part.getBoundingClientRect());
        return parts.flatMap((a, i) => parts.slice(i + 1).filter((b) => a.left < b.right - 1 && b.left < a.right - 1
          && a.top < b.bottom - 1 && b.top < a.bottom - 1)).length; })()"""
    try:
        for width in (1366, 900, 480):
            metrics = {"width": width, "height": 768, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            browser.refresh()
            page.wait("document.querySelector('.row.current, .card.current')")
            if not page.js("document.querySelector('.card.current')"):  # a reload keeps the view
                page.as_grid()
            page.wait("[...document.querySelectorAll('.card')].length > 2")
            assert page.js(outside) == 0
            assert page.js(overlap) == 0
            assert page.js("document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_long_names_leave_room_for_the_others(tmp_path, browser):
    long = "a class with a name that is far too long for any heading of the grid, and for any table in the large view"
    with serving(make_folder(tmp_path, names=[long, "b", f"{long}, too", "cap", "dress"])) as address:
        page = ServedPage(browser, address)
        page.keys("enter")
        page.wait("document.querySelector('.judges')")
        assert page.js("document.querySelector('#zoom').scrollWidth <= document.querySelector('#zoom').clientWidth")
        page.keys("escape")
        assert page.js("document.querySelector('#side').scrollWidth <= document.querySelector('#side').clientWidth")
        page.as_grid()
        page.wait("document.querySelector('.heading .given + .arrow')")
        cut = "[...document.querySelectorAll('.heading h2 .name')].filter((n) => n.scrollWidth > n.clientWidth)"
        assert all(text.startswith(long) for text in page.js(f"{cut}.map((name) => name.textContent)"))


def test_help_begins_with_the_keys(page, browser):
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 1024, "height": 500, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        page.keys("?")
        page.wait("document.querySelector('#help').open")
        assert page.js("document.querySelector('#help').scrollTop") == 0
        page.keys("escape")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_every_button_and_field_has_a_name(page):
    page.as_grid()
    unnamed = """[...document.querySelectorAll("button, input, select, textarea, [role=option], dialog")].filter(
        (part) => !(part.getAttribute("aria-label") || part.getAttribute("aria-labelledby") || part.textContent.trim()
          || part.closest("label"))).length"""
    assert page.js(unnamed) == 0
    assert page.js("document.querySelector('#rows').getAttribute('role')") == "listbox"


def test_a_count_shows_drawn_images_without_the_audits_opinion(page, folder):
    page.wait("document.querySelector('#count-start').textContent.startsWith('How many labels are wrong?')")
    page.as_grid()
    page.click("#count-start")
    page.wait("document.querySelector('.row.current') && document.body.classList.contains('blind')")
    drawn = json.loads((folder / "count.json").read_text())["images"]
    assert len(drawn) == 60  # all that there are
    page.wait(f"document.querySelector('.current').dataset.id === '{drawn[0]}'")
    for hidden in (".facts", ".reason", ".chart"):
        assert (
            page.js("getComputedStyle(document.querySelector(arguments[0])).visibility", f".current {hidden}")
            == "hidden"
        )
    assert page.text("#count-sentence") == ""
    page.keys("g", "2")  # neither the grid nor the suggestion: both tell what the audit thinks
    assert page.js("!document.querySelector('.card')")
    page.keys(*"111411141114")  # faster than the server answers: each key decides on another image
    page.decided(12)
    page.wait("document.querySelector('#count-sentence').textContent.startsWith('About ')")
    assert "After your corrections, at most" in page.text("#count-sentence")
    assert page.text("#count-start") == "Judge the 48 images left for the count"
    page.click(".chip")
    page.wait("!document.body.classList.contains('blind')")
    assert len(on_disk(folder)) == 12
