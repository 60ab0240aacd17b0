"""The review page in a real browser, by keyboard as a person would use it."""

from dataclasses import replace

import pytest
import torch
from audit_samples import make_audit, make_summary, with_neighbours
from browser_keys import ARROW_DOWN, ARROW_RIGHT, ARROW_UP, END, ENTER, ESCAPE, HOME

pytestmark = pytest.mark.browser


def test_shows_the_worst_image_first_with_all_that_is_known_of_it(open_review):
    audit = make_audit()
    review = open_review(audit, prototypes=torch.zeros(5, 1, 12, 12, dtype=torch.uint8))
    first = audit[0].iloc[0]
    row = review.element(".row")
    assert review.current == first["id"]
    for text in (first["given"], first["suggested"], first["flag"], first["rule"], first["path"]):
        assert text in row.text
    assert len(row.find_elements("css selector", ".chart .line")) == 5
    assert len(row.find_elements("css selector", ".prototypes img")) == 2
    review.wait("document.querySelector('.row .picture img').naturalWidth === 12")


def test_most_similar_images_are_evidence_beside_the_prototypes(open_review):
    table, *rest = with_neighbours(make_audit())
    table.loc[1, ["like_given", "like_suggested"]] = -1
    review = open_review((table, *rest), limit=6)
    first = table.iloc[0]
    captions = "[...document.querySelectorAll(arguments[0])].map((caption) => caption.innerText.replace('\\n', ' '))"
    expected = [f"most like it, labelled {first[role]}" for role in ("given", "suggested")]
    row = f"[data-id='{first['id']}'] .neighbours"
    assert review.js(captions, f"{row} figcaption") == expected
    drawn = """[...document.querySelectorAll(arguments[0])].map((image) => {
        const canvas = document.createElement("canvas");
        canvas.getContext("2d").drawImage(image, 0, 0);
        return [image.alt, [...canvas.getContext("2d").getImageData(0, 0, 12, 12).data].filter((_, i) => i % 4 === 0)];
    })"""
    review.wait(f'[...document.querySelectorAll("{row} img")].every((image) => image.naturalWidth)')
    likes = [first["like_given"], first["like_suggested"]]
    for like, caption, (label, pixels) in zip(likes, expected, review.js(drawn, f"{row} img"), strict=True):
        assert label == f"Image {like}, {caption}"
        image = rest[1][int(table.index[table["id"] == like][0])].flatten().float()
        assert torch.corrcoef(torch.stack([image, torch.tensor(pixels).float()]))[0, 1] > 0.8
    assert review.all(f"[data-id='{table['id'][1]}'] .neighbours figure") == []
    review.keys(ENTER)
    assert review.js(captions, "#zoom .neighbours figcaption") == expected
    review.keys("j")
    assert review.all("#zoom .neighbours figure") == []


def test_a_label_that_is_also_suggested_has_one_similar_image(open_review):
    audit = with_neighbours(make_audit(30, 5, suspects=0))
    review = open_review(audit)
    assert len(review.all(f"[data-id='{audit[0]['id'][0]}'] .neighbours figure")) == 1


@pytest.mark.parametrize(("kind", "label"), [("typical", "Typical image"), (None, "Prototype")])
def test_prototypes_are_called_what_they_are(open_review, kind, label):
    audit = with_neighbours(make_audit())
    summary = make_summary(audit[0], audit[3], **({"prototypes": kind} if kind else {}))
    review = open_review(audit, summary=summary, prototypes=torch.zeros(5, 1, 12, 12, dtype=torch.uint8))
    given = audit[0]["given"][0]
    assert review.text(".row .prototypes figcaption").split("\n") == [kind or "prototype", given]
    assert review.element(".row .prototypes img").get_attribute("alt") == f"{label} of {given}"
    review.keys("?")
    terms = [term for term in review.text("#help .meanings").split("\n") if term in ("typical", "prototypes")]
    assert terms == ["typical" if kind else "prototypes"]
    assert "most like it" in review.text("#help .meanings")


@pytest.mark.parametrize(
    ("pairs", "differ", "sentence"),
    [
        (1, 0, "1 pair of near-duplicate images, with the same label: see duplicates.csv."),
        (1, 1, "1 pair of near-duplicate images, with different labels: see duplicates.csv."),
        (1200, 7, "1,200 pairs of near-duplicate images; 7 of them with different labels: see duplicates.csv."),
        (0, 0, ""),
    ],
)
def test_the_head_names_near_duplicates(open_review, pairs, differ, sentence):
    audit = make_audit()
    duplicates = {"pairs": pairs, "labels_differ": differ}
    review = open_review(audit, summary=make_summary(audit[0], audit[3], duplicates=duplicates))
    assert review.element("#duplicates").is_displayed() == bool(sentence)
    assert review.text("#duplicates") == sentence


@pytest.mark.parametrize(("models", "expected"), [(1, "1 model (hitnet-small)"), (8, "8 models (hitnet-small)")])
def test_the_head_has_the_audits_figures(open_review, models, expected):
    audit = make_audit()
    summary = replace(make_summary(audit[0], audit[3]), models=models, expected_errors=12.4)
    review = open_review(audit, summary=summary)
    assert review.text("#subtitle").split(" · ")[1:] == ["60 images", expected, "1 s"]
    assert "≈ 12" in review.text("#tiles")
    first = summary.classes[0]
    lines = review.js("[...document.querySelectorAll('.health tr')].map((row) => row.textContent)")
    (line,) = (line for line in lines if line.startswith(first.name))
    assert line.endswith(f"{first.expected_errors:.1f}{first.mean_score:.2f}")


def test_keys_decide_and_move_on(open_review):
    table = make_audit()[0]
    review = open_review(make_audit())
    review.keys("1", "2", "4", "5")
    ids, suggested = table["id"].tolist(), table["suggested"].tolist()
    assert review.current == ids[4]
    assert review.exported() == {
        ids[0]: ("keep", ""),
        ids[1]: ("relabel", suggested[1]),
        ids[2]: ("drop", ""),
        ids[3]: ("unsure", ""),
    }
    assert review.text("#progress-count") == "4 of 60 decided"
    assert "1 relabelled" in review.text("#progress-detail")


def test_the_head_tells_how_many_wrong_labels_are_left(open_review):
    audit = make_audit()
    review = open_review(audit)
    assert review.js("document.querySelector('#review-state').hidden")
    review.keys("2")
    expected = round(float((1 - audit[0]["score"][1:]).sum()))
    left = f"about {expected} are left among {len(audit[0]) - 1} images not yet decided"
    review.wait(f"document.querySelector('#review-state').textContent === '1 wrong label found, {left}'")
    assert review.text(".tile.expected dd") == f"≈ {expected + 1}"


def test_moving_by_keys(open_review):
    ids = make_audit()[0]["id"].tolist()
    review = open_review(make_audit())
    review.keys("j", ARROW_DOWN, "k")
    assert review.current == ids[1]
    review.keys(END)
    assert review.current == ids[-1]
    review.keys(HOME, ARROW_UP)
    assert review.current == ids[0]
    assert review.js("document.activeElement.classList.contains('current')")


def test_undo_goes_back_step_by_step(open_review):
    ids = make_audit()[0]["id"].tolist()
    review = open_review(make_audit())
    review.keys("1", "4")
    review.keys("k", "5")  # the second image again: dropped, then unsure
    assert review.exported()[ids[1]] == ("unsure", "")
    review.keys("u")
    assert review.current == ids[1]
    assert review.exported() == {ids[0]: ("keep", ""), ids[1]: ("drop", "")}
    review.keys("u", "u", "u")
    assert review.exported() == {}
    assert "Nothing to undo" in review.text("#toast")


def test_zero_takes_a_decision_off(open_review):
    review = open_review(make_audit())
    review.keys("1", "k", "0")
    assert review.exported() == {}
    review.keys("u")
    assert len(review.exported()) == 1


def test_another_class_is_chosen_by_keyboard(open_review):
    audit = make_audit(60, 12, suspects=20, names=[str(k) for k in range(12)])
    given = audit[0]["given"].tolist()
    chosen = next(str(k) for k in (1, 2) if str(k) not in (given[0], audit[0]["suggested"][0]))
    review = open_review(audit)
    review.keys("3", chosen)  # "1" is also part of "10" and "11": the exact name comes first
    review.keys(ENTER)
    review.keys("3", given[1], ENTER)  # the given class itself means keep
    review.keys("3", ESCAPE)
    ids = audit[0]["id"].tolist()
    assert review.exported() == {ids[0]: ("relabel", chosen), ids[1]: ("keep", "")}
    assert review.current == ids[2]


def test_buttons_do_what_keys_do(open_review):
    ids = make_audit()[0]["id"].tolist()
    review = open_review(make_audit())
    review.click(f"[data-id='{ids[2]}'] .choice.drop")
    assert review.exported() == {ids[2]: ("drop", "")}
    assert review.current == ids[3]
    assert review.element(f"[data-id='{ids[2]}'] .choice.drop").get_attribute("aria-pressed") == "true"


def test_a_suggestion_that_is_the_given_label_cannot_be_taken(open_review):
    review = open_review(make_audit(30, 5, suspects=0))
    review.keys("2")
    assert review.exported() == {}
    assert "1 keeps it" in review.text("#toast")


def test_no_decision_on_an_image_out_of_sight(open_review):
    review = open_review(make_audit(500, 5, suspects=300))
    review.js("document.querySelector('#list').scrollTop = 20000")
    review.wait("!document.querySelector('.row.current')")
    review.keys("4")
    assert review.exported() == {}
    review.keys("4")
    assert len(review.exported()) == 1


def test_filters_combine_and_come_off(open_review):
    table = make_audit(400, 5, suspects=150)[0]
    review = open_review(make_audit(400, 5, suspects=150))
    everything = review.shown
    pair = table.iloc[0]
    cell = f".matrix [data-given='{pair['given'][-1]}'][data-suggested='{pair['suggested'][-1]}']"
    count = int(review.element(cell).text)
    review.click(cell)
    assert (
        review.shown == count == ((table["given"] == pair["given"]) & (table["suggested"] == pair["suggested"])).sum()
    )
    review.click("[data-flag='0']")
    wrong = table["flag"] == "wrong"
    wrong_pair = wrong & (table["given"] == pair["given"]) & (table["suggested"] == pair["suggested"])
    assert review.shown == wrong_pair.sum()
    assert review.chips == [f"{pair['given']} → {pair['suggested']} ×", "wrong ×", "clear all"]
    review.all("#chips button")[0].click()
    assert review.shown == wrong.sum()
    review.element("#score-max").send_keys("0.05")
    assert review.shown == (wrong & (table["score"] <= 0.05)).sum()
    review.all("#chips button")[-1].click()
    assert review.shown == everything
    assert review.chips == []


def test_class_filter_takes_given_and_suggested(open_review):
    table = make_audit()[0]
    review = open_review(make_audit())
    review.element("#class-filter").send_keys("class 3")
    assert review.shown == ((table["given"] == "class 3") | (table["suggested"] == "class 3")).sum()


def test_search_by_slash_finds_files_and_numbers(open_review):
    review = open_review(make_audit())
    review.keys("/", "IMAGE-17.", ENTER)
    assert review.shown == 1
    assert review.current == 17
    review.keys("1")  # back in the list: a key decides again
    assert review.exported() == {17: ("keep", "")}
    review.keys("/", "nothing like this")
    assert review.shown == 0
    review.click("#clear-filters")
    assert review.shown == 60


def test_filter_by_decision_follows_the_decisions(open_review):
    ids = make_audit()[0]["id"].tolist()
    review = open_review(make_audit())
    review.click("[data-state='undecided']")
    review.keys("1", "4")
    assert review.shown == 58
    assert review.current == ids[2]
    review.keys("u")
    assert review.shown == 59
    assert review.current == ids[1]
    review.click("[data-state='decided']")
    assert review.shown == 1


def test_matrix_is_one_tab_stop_with_arrows_inside(open_review):
    review = open_review(make_audit())
    assert len(review.all(".matrix [tabindex='0']")) == 1
    review.js("document.querySelector('.matrix [tabindex=\"0\"]').focus()")
    review.keys(ARROW_RIGHT)
    focused = "[document.activeElement.dataset.given, document.activeElement.dataset.suggested]"
    assert review.js(focused) == ["0", "2"]
    review.keys(ARROW_DOWN, ARROW_DOWN)
    assert review.js(focused) == ["3", "2"]  # the diagonal has nothing to choose and is skipped
    review.keys(ENTER)
    assert len(review.chips) == 1


def test_many_classes_give_a_list_of_pairs(open_review):
    review = open_review(make_audit(800, 100, suspects=400))
    assert review.all(".matrix") == []
    first = review.element(".pair")
    count = int(first.find_element("css selector", "small").text)
    first.click()
    assert review.shown == count
    assert len(review.all(".row .chart")[0].find_elements("css selector", ".line")) == 10


def test_dark_mode_follows_the_system_and_the_button(open_review, browser):
    review = open_review(make_audit())
    background = "getComputedStyle(document.body).backgroundColor"
    light = review.js(background)
    feature = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": feature})
    try:
        dark = review.js(background)
        assert dark != light
        review.click("#theme")
        assert review.js(background) == light
        browser.refresh()
        assert review.js(background) == light
        review.click("#theme")
        assert review.js(background) == dark
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_large_view_shows_the_figures_and_takes_the_same_keys(open_review):
    audit = make_audit()
    review = open_review(audit)
    review.keys(ENTER)
    assert audit[0]["path"][0] in review.text("#zoom")
    review.keys("4")
    assert audit[0]["path"][1] in review.text("#zoom")
    review.keys("j", ESCAPE)
    assert review.current == audit[0]["id"][2]
    assert review.exported() == {audit[0]["id"][0]: ("drop", "")}


@pytest.mark.parametrize("shape", [(12, 12), (64, 48), (96, 160)])
def test_nothing_is_cut_off_in_windows_of_any_width(open_review, browser, shape):
    audit = make_audit(names=["a", "b", "a rather long class name", "d", "e"])
    options = {}
    if shape != (12, 12):  # photographs, with all the evidence that there can be
        audit = with_neighbours((*audit[:2], torch.full((60, 1, *shape), 99, dtype=torch.uint8), audit[3]))
        options["prototypes"] = audit[2][:5]
    review = open_review(audit, **options)
    cut = """[...document.querySelectorAll(".row")].slice(0, 2).flatMap((row) => {
        const edge = row.getBoundingClientRect(), facts = row.querySelector(".facts").getBoundingClientRect();
        return [...row.querySelectorAll(".facts > span, .file > span")].map((part) => part.getBoundingClientRect())
          .filter((part) => part.width)
          .filter((part) => part.right > facts.right + 1 || part.top < edge.top || part.bottom > edge.bottom);
    }).length"""
    overflow = """[...document.querySelectorAll(".row")].slice(0, 2).flatMap((row) => {
        const edge = row.getBoundingClientRect();
        const parts = [...row.querySelectorAll("button, img, figcaption, .line")];
        return parts.map((part) => part.getBoundingClientRect()).filter((part) => part.width && (
          part.right > edge.right || part.bottom > edge.bottom || part.top < edge.top));
    }).length"""
    outside = """[...document.querySelectorAll(".row figure > *")].filter((part) => {
        const own = part.getBoundingClientRect();
        const edge = part.closest(".prototypes, .neighbours").getBoundingClientRect();
        return own.width && (own.left < edge.left - 1 || own.right > edge.right + 1);
    }).length"""
    overlap = """[...document.querySelectorAll(".row")].slice(0, 2).flatMap((row) => {
        const parts = [...row.children].map((part) => part.getBoundingClientRect()).filter((part) => part.width);
        return parts.flatMap((a, i) => parts.slice(i + 1).filter((b) => a.left < b.right - 1 && b.left < a.right - 1
          && a.top < b.bottom - 1 && b.top < a.bottom - 1));
    }).length"""
    try:
        for width in (1920, 1441, 1366, 1300, 1181, 1180, 1081, 1080, 900, 861, 800, 761, 760, 480, 380):
            metrics = {"width": width, "height": 768, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            review.wait(f"window.innerWidth === {width}")
            review.wait_for_drawing()
            faults = [review.js(script) for script in (overflow, cut, outside, overlap)]
            assert faults == [0, 0, 0, 0], width
            assert review.js("document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
