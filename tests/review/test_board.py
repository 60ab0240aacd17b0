"""Filters, orders and decisions on the server side, against the same in plain loops."""

import random
from datetime import datetime
from unittest import mock

import numpy as np
import pytest
from review_samples import make_folder, open_folder

from hitnet.audit.rows import FLAG_NAMES
from hitnet.decisions.steps import Step
from hitnet.errors import HitNetError
from hitnet.review.board import StaleError
from hitnet.review.selection import SORTS, STATES, Query, read_query


def naive(board, query):
    """Ids that a query asks for, by a loop over the table."""
    table = board.rows.table
    names, flags = board.rows.class_names, FLAG_NAMES
    rows = {"file": sorted(range(len(table)), key=lambda i: table["path"][i].lower())}.get(query.sort)
    ids = []
    for i in rows or range(len(table)):
        line = table.iloc[i]
        given, suggested = names.index(line["given"]), names.index(line["suggested"])
        decided = board.current(i)
        own = decided.get(board.reviewer) or next(reversed(decided.values()), None)
        states = {
            None: True,
            "undecided": not decided,
            "decided": bool(decided),
            "by others": bool(decided) and board.reviewer not in decided,
            "disputed": len({d.outcome for d in decided.values()}) > 1,
        }
        holds = [
            query.given is None or given == query.given,
            query.suggested is None or suggested == query.suggested,
            query.either is None or query.either in (given, suggested),
            not query.flags or flags.index(line["flag"]) in query.flags,
            query.lowest is None or line["score"] >= query.lowest,
            query.highest is None or line["score"] <= query.highest,
            states.get(query.state, own is not None and own.change.decision == query.state),
            query.text in line["path"].lower() or query.text.removeprefix("#") == str(line["id"]),
        ]
        if all(holds):
            ids.append(int(line["id"]))
    return ids


def decide_some(folder):
    """Two reviewers decide on some images, on some of them differently."""
    anna, ben = open_folder(folder, "anna").board, open_folder(folder, "ben").board
    ids = anna.rows.ids.tolist()
    given = [anna.rows.class_names[k] for k in anna.rows.given]
    other = next(name for name in anna.rows.class_names if name != given[4])
    anna.decide([(ids[0], "keep", ""), (ids[1], "drop", ""), (ids[2], "unsure", ""), (ids[3], "neither", "")])
    anna.decide([(ids[4], "relabel", other)])
    ben.decide([(ids[1], "keep", ""), (ids[9], "drop", "")])
    anna.catch_up()
    return anna


QUERIES = [
    Query(),
    Query(given=1),
    Query(suggested=2),
    Query(given=1, suggested=2),
    Query(either=3),
    Query(flags=(0, 1)),
    Query(lowest=0.2, highest=0.8),
    Query(text="image-1"),
    Query(text="#17"),
    Query(text="class 2/"),
    Query(sort="file"),
    Query(sort="file", either=2, flags=(0,)),
    *(Query(state=state) for state in STATES),
]


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_filters_give_what_a_loop_gives(folder, query):
    board = decide_some(folder)
    order = board.select(query).order
    assert board.rows.ids[order].tolist() == naive(board, query)
    if query.state is None or query.state in ("undecided", "decided", "disputed", "by others", "keep"):
        assert len(order) > 0


def test_windows_of_a_query_join_to_the_whole(review):
    board, query = review.board, Query(either=1)
    whole = naive(board, query)
    windows = [board.window(query, offset=i, limit=4, near=None) for i in range(0, len(whole), 4)]
    assert [number for window in windows for number in window["columns"]["id"]] == whole
    assert {window["total"] for window in windows} == {len(whole)}


def test_an_image_is_found_in_any_order(review):
    board = review.board
    for sort in SORTS:
        for grouped in (False, True):
            query = Query(sort=sort, grouped=grouped)
            order = board.rows.ids[board.select(query).order].tolist()
            window = board.window(query, offset=None, limit=10, near=17)
            assert window["position"] == order.index(17)
            assert 17 in window["columns"]["id"]


def test_groups_hold_one_pair_each_and_all_images(review):
    board = review.board
    board.decide([(int(board.rows.ids[0]), "keep", "")])
    selection = board.select(Query(grouped=True))
    assert sorted(selection.order.tolist()) == list(range(60))
    covered = 0
    for group in selection.groups:
        rows = selection.order[group.start : group.start + group.count]
        assert set(board.rows.given[rows].tolist()) == {group.given}
        wrong = [board.rows.score[row] < 0.5 for row in rows.tolist()]
        assert all(wrong) if group.given != group.suggested else not any(wrong)
        assert group.given == group.suggested or set(board.rows.suggested[rows].tolist()) == {group.suggested}
        undecided = [row for row in rows.tolist() if board.states.decision[row] == 0]
        assert group.wrong == pytest.approx(sum(1 - board.rows.score[row] for row in undecided))
        assert np.all(np.diff(rows) > 0)  # the table's order within
        assert group.undecided == int((board.states.decision[rows] == 0).sum())
        covered += group.count
    assert covered == 60
    different = [group.given != group.suggested for group in selection.groups]
    assert different == sorted(different, reverse=True)
    board.undo()
    fixed = [group.wrong for group in board.select(Query(grouped=True)).groups if group.given != group.suggested]
    assert fixed == sorted(fixed, reverse=True)


def test_an_image_that_is_probably_right_is_in_no_group_of_errors(review):
    """An ambiguous image has another suggestion, although its label is probably right."""
    rows = review.board.rows
    ambiguous = (rows.score >= 0.5) & (rows.suggested != rows.given)
    assert ambiguous.any()
    selection = review.board.select(Query(grouped=True))
    groups = [group for group in selection.groups if group.given == group.suggested]
    inside = np.concatenate([selection.order[group.start : group.start + group.count] for group in groups])
    assert set(np.flatnonzero(ambiguous)) <= set(inside.tolist())


def test_the_first_image_to_show_is_one_that_the_reviewer_has_not_decided_on(review):
    board = review.board
    ids = board.rows.ids.tolist()
    board.decide([(number, "keep", "") for number in ids[:40]])
    window = board.window(Query(), offset=None, limit=10, near=None)
    assert window["position"] == 40
    assert ids[40] in window["columns"]["id"]
    other = next(k for k in range(5) if k != board.rows.given[0])
    window = board.window(Query(given=other), offset=None, limit=10, near=ids[0])  # which is not among them
    assert window["position"] == int((board.rows.given[:40] == other).sum())


def test_decisions_survive_the_server(folder):
    board = decide_some(folder)
    again = open_folder(folder, "anna").board
    assert again.states.decision.tolist() == board.states.decision.tolist()
    assert again.state()["counts"] == board.state()["counts"] == {
        "keep": 1, "relabel": 1, "drop": 2, "neither": 1, "unsure": 1, "disputed": 1,
    }  # fmt: skip


def test_two_servers_see_each_other(folder):
    anna, ben = open_folder(folder, "anna").board, open_folder(folder, "ben").board
    number = int(anna.rows.ids[0])
    anna.decide([(number, "drop", "")])
    window = ben.window(Query(state="by others"), offset=0, limit=9, near=None)
    assert window["columns"]["id"] == [number]
    assert window["records"][0]["reviewer"] == "anna"
    ben.decide([(number, "keep", "")])
    anna.catch_up()
    record = anna.record(0)
    assert (record["decision"], record["disputed"]) == ("drop", True)
    assert [other[:2] for other in record["others"]] == [["ben", "keep"]]
    ben.decide([(number, "drop", "")])
    anna.catch_up()
    assert not anna.record(0)["disputed"]


def test_a_clock_that_jumps_changes_nothing(folder, monkeypatch):
    """The order of the log counts, not its times: years back, years ahead, and the same moment again."""
    times = iter(["2026-05-05", "1970-01-01", "2099-12-31", "1970-01-01", "1970-01-01"])
    clock = mock.Mock(now=lambda zone: datetime.fromisoformat(next(times)).replace(tzinfo=zone))
    monkeypatch.setattr("hitnet.decisions.steps.datetime", clock)
    board = open_folder(folder).board
    number = int(board.rows.ids[0])
    for decision in ("drop", "keep", "neither"):
        board.decide([(number, decision, "")])
    board.undo(None)
    board.decide([(number, "unsure", "")])
    for opened in (board, open_folder(folder).board):
        assert opened.record(0)["decision"] == "unsure"
        assert [len(opened.history()), *(line["stands"] for line in opened.history()[:3])] == [5, True, True, False]


def naive_labels(board):
    """Row by row: the class that all who are sure agree on, else the given one."""
    names, labels = list(board.rows.class_names), []
    for row, given in enumerate(board.rows.given.tolist()):
        sure = {naive_answer(d) for d in board.current(row).values() if d.change.decision != "unsure"}
        answer = sure.pop() if len(sure) == 1 else None
        labels.append(names.index(answer) if answer in names else given)
    return labels


def naive_answer(decision):
    change = decision.change
    if change.decision == "relabel":
        return change.label
    return change.given if change.decision == "keep" else f"({change.decision})"


@pytest.mark.parametrize("seed", range(3))
def test_any_sequence_of_decisions_and_undos_leaves_the_same_state_everywhere(folder, seed):
    draw = random.Random(seed)
    boards = [open_folder(folder, name).board for name in ("anna", "ben")]
    ids = boards[0].rows.ids.tolist()
    for _ in range(40):
        board = draw.choice(boards)
        steps = list(board.decisions.steps)
        if steps and draw.random() < 0.3:
            board.undo(draw.choice(steps))
        else:
            words = ["keep", "drop", "neither", "unsure", "none"]
            changes = [(number, draw.choice(words), "") for number in draw.sample(ids[:12], 3)]
            number = draw.choice(ids[12:20])
            other = (board.rows.given[board.rows.row_of(number)] + 1) % len(board.rows.class_names)
            board.decide([*changes, (number, "relabel", board.rows.class_names[other])])
    for board in boards:
        board.catch_up()
        assert board.labels.tolist() == naive_labels(board)
        for reviewer, answers in board._answers.items():
            decided = {row: board.current(row).get(reviewer) for row in range(60)}
            assert answers == {row: naive_answer(decision) for row, decision in decided.items() if decision}
        fresh = open_folder(folder, board.reviewer).board
        assert fresh.states.decision.tolist() == board.states.decision.tolist()
        assert fresh.states.disputed.tolist() == board.states.disputed.tolist()
        for row in range(60):
            board._update(board.rows.paths[row])
        assert fresh.states.decision.tolist() == board.states.decision.tolist()


def test_wrong_labels_left_are_those_expected_of_the_undecided_images(folder):
    board = open_folder(folder).board
    assert board.state()["left"] == (pytest.approx(float((1 - board.rows.table["score"]).sum())), 60)
    board = decide_some(folder)
    scores = [board.rows.table["score"][row] for row in range(60) if not board.current(row)]
    assert board.state()["left"] == (pytest.approx(sum(1 - score for score in scores)), 54)
    board.decide([(number, "keep", "") for number in board.rows.ids.tolist()])
    assert board.state()["left"] == (0, 0)


def test_undo_takes_back_the_own_last_step(folder):
    anna, ben = open_folder(folder, "anna").board, open_folder(folder, "ben").board
    first, second, third = anna.rows.ids[:3].tolist()
    anna.decide([(first, "drop", ""), (second, "drop", "")])
    ben.decide([(third, "drop", "")])
    step = anna.undo()
    assert sorted(anna.rows.ids[anna.concerned(step)].tolist()) == sorted([first, second])
    assert anna.states.decision[:3].tolist() == [0, 0, anna.states.decision[2]]
    assert anna.states.decision[2] > 0
    with pytest.raises(HitNetError, match="Nothing to undo"):
        anna.undo()
    anna.undo(step.name)
    assert (anna.states.decision[:2] > 0).all()


def test_a_group_is_decided_whole_and_only_as_it_was_seen(review):
    board = review.board
    group = board.select(Query(grouped=True)).groups[0]
    query, pair = Query(), (group.given, group.suggested)
    kept = int(board.rows.ids[board.select(Query(grouped=True)).order[group.start]])
    board.decide([(kept, "keep", "")])
    with pytest.raises(StaleError, match="Nothing was decided"):
        board.decide_group(query, pair, "relabel", expected=group.count)
    with pytest.raises(StaleError, match="Nothing was decided"):
        board.decide_group(query, (0, 99), "relabel", expected=group.count)
    step = board.decide_group(query, pair, "relabel", expected=group.count - 1)
    assert {change.label for change in step.changes} == {board.rows.class_names[group.suggested]}
    assert kept not in {change.id for change in step.changes}  # it was decided on already
    assert len(step.changes) == group.count - 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((999, "keep", ""), "no image 999"),
        ((0, "burn", ""), "unknown decision 'burn'"),
        ((0, "relabel", "no class"), "'no class' is not a class"),
        ((0, "relabel", "class 0"), "relabels to the label it has"),
        ((0, "keep", "class 1"), "keep takes no label"),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused_whole(review, change, message):
    with pytest.raises(HitNetError, match=message):
        review.board.decide([(1, "keep", ""), change])
    assert review.board.decisions.steps == {}


def test_a_decision_on_a_label_that_has_changed_does_not_count(tmp_path):
    folder = make_folder(tmp_path)
    board = open_folder(folder).board
    board.decide([(int(board.rows.ids[0]), "keep", "")])
    log = folder / "decisions.jsonl"
    given = board.rows.class_names[board.rows.given[0]]
    log.write_text(log.read_text().replace(f'"{given}","keep"', '"another","keep"'))
    assert open_folder(folder).board.state()["counts"]["keep"] == 0


@pytest.mark.parametrize(
    "values", [{"given": "x"}, {"lowest": "?"}, {"flags": "1,b"}, {"sort": "chance"}, {"state": "asleep"}]
)
def test_a_query_that_is_none_is_refused(values):
    with pytest.raises(HitNetError):
        read_query(values)


def test_a_query_is_read_from_an_address():
    values = {"given": "1", "either": "", "flags": "0,2", "highest": "0.5", "text": "ABC", "grouped": "1"}
    assert read_query(values) == Query(given=1, flags=(0, 2), highest=0.5, text="abc", grouped=True)


def test_an_image_is_shown_while_its_decision_is_being_undone(review):
    board = review.board
    step = board.decide([(int(board.rows.ids[0]), "keep", "")])
    assert board.record(0)["decision"] == "keep"
    board.decisions.add(Step("anna", undoes=step.name))  # the states of the board follow later
    assert board.record(0) is None


@pytest.mark.parametrize("way", ["removed", "replaced", "cut"])
def test_a_log_that_is_replaced_while_it_is_served_counts_as_it_is(folder, way):
    board, path = open_folder(folder).board, folder / "decisions.jsonl"
    first, second, third = board.rows.ids[:3].tolist()
    board.decide([(first, "drop", "")])
    board.decide([(second, "drop", "")])
    if way == "cut":
        path.write_text(path.read_text().splitlines(keepends=True)[0])
    else:
        path.unlink()
    if way == "replaced":
        open_folder(folder, "ben").board.decide([(third, "keep", "")])
    board.decide([(second, "keep", "")])
    states = {"removed": [0, 1, 0], "replaced": [0, 1, 1], "cut": [3, 1, 0]}
    assert board.states.decision[:3].tolist() == states[way]
    assert open_folder(folder).board.states.decision[:3].tolist() == states[way]
