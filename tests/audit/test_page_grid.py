"""The grid and the history of report.html, which has no server: the same code, with decisions in the browser."""

import pytest
from audit_samples import make_audit
from browser_keys import ARROW_RIGHT, ESCAPE, HOME

pytestmark = pytest.mark.browser


def cards(review):
    return [int(number) for number in review.js("[...document.querySelectorAll('.card')].map((c) => c.dataset.id)")]


def test_switching_views_keeps_the_place(open_review):
    review = open_review(make_audit())
    review.keys("j", "j", "g")
    number = int(review.js("document.querySelector('.card.current').dataset.id"))
    assert number == make_audit()[0]["id"][2]
    review.keys("g")
    assert review.current == number


def test_a_group_is_decided_at_once_but_for_the_exceptions(open_review):
    table = make_audit()[0]
    review = open_review(make_audit())
    review.keys("g", HOME)
    first = cards(review)[0]
    pair = table.set_index("id").loc[first]
    same = (table["given"] == pair["given"]) & (table["suggested"] == pair["suggested"]) & (table["score"] < 0.5)
    group = table[same]["id"].tolist()
    review.keys("6")
    review.js("document.querySelector('.heading .accept').click()")
    expected = {number: ("relabel", pair["suggested"]) for number in group} | {first: ("neither", "")}
    assert review.exported() == expected
    review.keys("u")
    assert review.exported() == {first: ("neither", "")}


def test_selected_images_are_decided_together(open_review):
    review = open_review(make_audit())
    review.keys("g", HOME, " ", ARROW_RIGHT, " ")
    chosen = cards(review)[:2]
    assert review.text("#selection-count") == "2 selected"
    review.keys("4")
    assert review.exported() == {number: ("drop", "") for number in chosen}
    review.keys("a", ESCAPE)
    assert review.all(".card.selected") == []


def test_a_step_in_the_middle_is_undone_and_brought_back(open_review):
    ids = make_audit()[0]["id"].tolist()
    review = open_review(make_audit())
    review.keys("1", "4", "k", "5", "h")  # the second image: dropped, then unsure
    review.js("document.querySelectorAll('#history-steps button')[0].click()")  # the newest
    review.js("document.querySelectorAll('#history-steps button')[2].click()")  # the oldest
    review.click("#history [data-close]")
    assert review.exported() == {ids[1]: ("drop", "")}
    review.keys("h")
    review.js("document.querySelectorAll('#history-steps button')[2].click()")
    review.click("#history [data-close]")
    assert review.exported() == {ids[0]: ("keep", ""), ids[1]: ("drop", "")}
