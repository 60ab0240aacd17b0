"""The certified count of a review: draws are kept, resumed and extended; decisions on them become a sentence."""

import json
import logging

import numpy as np
import pytest
from review_samples import client_of, make_folder, open_folder

from hitnet.errors import HitNetError
from hitnet.review import certified
from hitnet.review.certified import NAME, count_bounds
from hitnet.review.selection import Query


def drawn(board):
    return board.rows.ids[board.count.drawn].tolist()


@pytest.fixture(autouse=True)
def seed(monkeypatch):
    """The seed of draws: a range of 95 % misses the truth for a few of them."""
    monkeypatch.setattr(certified.secrets, "randbits", lambda bits: 7)


def judge(board, ids, decision="keep"):
    board.decide([(number, decision, "") for number in ids])


def test_a_draw_is_on_disk_and_comes_again(folder):
    board = open_folder(folder).board
    assert board.state()["counted"] is None
    board.draw(20)
    kept = json.loads((folder / NAME).read_text())
    assert kept["images"] == drawn(board)
    assert len(set(kept["images"])) == 20
    assert drawn(open_folder(folder, "ben").board) == kept["images"]
    board.draw(20)
    assert json.loads((folder / NAME).read_text()) == kept


def test_more_images_continue_the_same_draw(folder):
    board = open_folder(folder).board
    board.draw(15)
    first = drawn(board)
    judge(board, first)
    board.draw(40)
    assert drawn(board)[:15] == first
    assert board.state()["counted"]["left"] == 25
    board.draw(10_000)
    assert sorted(drawn(board)) == sorted(board.rows.ids.tolist())


def test_drawn_images_without_a_decision_are_shown_in_the_order_of_the_draw(folder):
    board = open_folder(folder).board
    board.draw(20)
    order = drawn(board)
    judge(board, [order[3]])
    shown = board.rows.ids[board.select(Query(state="drawn")).order].tolist()
    assert shown == order[:3] + order[4:]


def test_only_decisions_without_a_gap_count(folder):
    board = open_folder(folder).board
    board.draw(30)
    judge(board, drawn(board)[1:])
    assert board.state()["counted"] == {"drawn": 30, "left": 1, "sentence": None}
    judge(board, drawn(board)[:1])
    assert ": 0.0 to " in board.state()["counted"]["sentence"]


def test_a_count_of_all_images_is_certain(folder):
    board = open_folder(folder).board
    board.draw(60)
    judge(board, drawn(board)[:54])
    judge(board, drawn(board)[54:57], "drop")
    judge(board, drawn(board)[57:], "neither")
    assert board.state()["counted"]["sentence"] == (
        "About 10.0 % of the labels were wrong: 10.0 to 10.0 % (95 % sure). After your corrections, at most 5.0 % are."
    )


def test_the_sentence_is_what_the_bounds_say(folder):
    board = open_folder(folder).board
    board.draw(30)
    judge(board, drawn(board)[:5], "neither")
    judge(board, drawn(board)[5:10], "unsure")
    judge(board, drawn(board)[10:])
    wrong, unsure = (np.arange(30) < 5).astype(float), ((np.arange(30) >= 5) & (np.arange(30) < 10)).astype(float)
    low, high = count_bounds(board.count._draws, wrong, wrong + unsure, images=60)
    assert f"{100 * low / 60:.1f} to {100 * high / 60:.1f} % (95 % sure)." in board.state()["counted"]["sentence"]


def test_what_people_decided_before_is_known_and_not_drawn(folder):
    board = open_folder(folder).board
    ids = board.rows.ids.tolist()
    judge(board, ids[:10], "drop")
    judge(board, ids[10:20])
    board.draw(1000)
    assert sorted(drawn(board)) == sorted(ids[20:])
    judge(board, drawn(board))
    assert board.state()["counted"]["sentence"].startswith("About 16.7 % of the labels were wrong: 16.7 to 16.7 %")
    board.decide([(ids[0], "none", ""), (ids[1], "unsure", "")])  # no longer known: from 0 to 2 more
    assert "13.3 to 16.7 %" in board.state()["counted"]["sentence"]


def test_reviewers_who_disagree_leave_it_open(folder):
    anna, ben = open_folder(folder, "anna").board, open_folder(folder, "ben").board
    anna.draw(60)
    judge(anna, drawn(anna))
    ben.catch_up()
    assert drawn(ben) == drawn(anna)
    judge(ben, drawn(anna)[:6], "drop")
    anna.catch_up()
    assert "0.0 to 10.0 %" in anna.state()["counted"]["sentence"]


def test_when_all_is_decided_there_is_nothing_to_draw(folder):
    board = open_folder(folder).board
    judge(board, board.rows.ids.tolist())
    with pytest.raises(HitNetError, match="nothing left to draw"):
        board.draw(10)
    with pytest.raises(HitNetError, match="from 1 on"):
        board.draw(0)


@pytest.mark.parametrize("damage", ["{", "[]", "other audit", "other images", "unknown image", "no seed", "link"])
def test_a_file_that_does_not_fit_is_told_and_replaced(folder, tmp_path, caplog, damage):
    open_folder(folder).board.draw(10)
    path = folder / NAME
    kept = json.loads(path.read_text())
    if damage == "link":
        path.rename(tmp_path / "elsewhere.json")
        path.symlink_to(tmp_path / "elsewhere.json")
    else:
        changed = {
            "other audit": kept | {"audit": "0" * 16},
            "other images": kept | {"images": kept["images"][::-1]},
            "unknown image": kept | {"known": [10**9]},
            "no seed": kept | {"seed": -1},
        }
        path.write_text(json.dumps(changed[damage]) if damage in changed else damage)
    with caplog.at_level(logging.WARNING, logger="hitnet"):
        board = open_folder(folder).board
    assert "The count begins again." in caplog.text
    assert board.state()["counted"] is None
    board.draw(10)
    assert board.state()["counted"]["drawn"] == 10


def test_requests_of_the_page(client, folder):
    assert client.get("/api/state").json()["counted"] is None
    answer = client.post("/api/count", json={"images": 12}).json()
    assert answer["counted"] == {"drawn": 12, "left": 12, "sentence": None}
    rows = client.get("/api/rows", params={"state": "drawn"}).json()
    assert rows["columns"]["id"] == json.loads((folder / NAME).read_text())["images"]
    for body in ({}, {"images": "3"}, {"images": 1.5}, {"images": -1}, {"images": True}):
        assert client.post("/api/count", json=body).status_code == 400


def test_an_audit_with_a_count_opens_on_it(tmp_path):
    from hitnet.audit import open_audit
    from hitnet.review.server import open_review

    review = open_review(open_audit(make_folder(tmp_path)), reviewer="anna", count=25)
    assert '"counting":true' in client_of(review).get("/").text
    assert len(drawn(review.board)) == 25
