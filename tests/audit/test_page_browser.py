"""The review page in a real browser, by keyboard as a person would use it."""

import time

import pytest
import torch
from audit_samples import make_audit, make_summary
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
    assert len(row.find_elements("css selector", ".prototypes canvas")) == 2
    drawn = "[...arguments[0].getContext('2d').getImageData(0, 0, 12, 12).data].some((v, i) => i % 4 < 3 && v > 0)"
    assert review.js(drawn, row.find_element("css selector", ".picture canvas"))


@pytest.mark.parametrize(("models", "expected"), [(1, "1 model (hitnet-small)"), (8, "8 models (hitnet-small)")])
def test_the_head_has_the_audits_figures(open_review, models, expected):
    audit = make_audit()
    summary = make_summary(audit[0], audit[3]) | {"models": models, "expected_errors": 12.4}
    review = open_review(audit, summary=summary)
    assert review.text("#subtitle").split(" · ")[1:] == ["60 images", expected, "1 s"]
    assert "≈ 12" in review.text("#tiles")
    first = summary["classes"][0]
    lines = review.js("[...document.querySelectorAll('.health tr')].map((row) => row.textContent)")
    (line,) = (line for line in lines if line.startswith(first["name"]))
    assert line.endswith(f"{first['expected_errors']:.1f}{first['mean_score']:.2f}")


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
    time.sleep(0.2)
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
    assert review.shown == (wrong & (table["score"].round(4) <= 0.05)).sum()
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


@pytest.mark.parametrize("width", [1920, 1366, 1300, 1181, 1180, 1081, 1080, 900, 761, 760, 480, 380])
def test_nothing_is_cut_off_in_windows_of_any_width(open_review, browser, width):
    review = open_review(make_audit(names=["a", "b", "a rather long class name", "d", "e"]))
    cut = """[...document.querySelectorAll(".row")].slice(0, 2).flatMap((row) => {
        const edge = row.getBoundingClientRect(), facts = row.querySelector(".facts").getBoundingClientRect();
        return [...row.querySelectorAll(".facts > span, .file > span")].map((part) => part.getBoundingClientRect())
          .filter((part) => part.right > facts.right + 1 || part.top < edge.top || part.bottom > edge.bottom);
    }).length"""
    overflow = """[...document.querySelectorAll(".row")].slice(0, 2).flatMap((row) => {
        const edge = row.getBoundingClientRect();
        return [...row.querySelectorAll("button, canvas")].map((part) => part.getBoundingClientRect())
          .filter((part) => part.width && (part.right > edge.right || part.bottom > edge.bottom));
    }).length"""
    metrics = {"width": width, "height": 768, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        time.sleep(0.15)
        assert review.js(overflow) == 0
        assert review.js(cut) == 0
        assert review.js("document.documentElement.scrollWidth") <= width
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
