"""The log of decisions: on disk before anyone says so, whole after any interruption, the same for all who read it."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from hitnet.decisions import steps as module
from hitnet.decisions.corrections import audited_images
from hitnet.decisions.rules import Decisions, settle, settled
from hitnet.decisions.steps import Change, Step, StepLog
from hitnet.errors import HitNetError
from patience import PATIENCE


def step(number, decision, label="", *, reviewer="anna", **options):
    return Step(reviewer, (Change(number, f"{number}.png", "cat", decision, label),), **options)


def written(path):
    return StepLog(path).read()


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "decisions.jsonl"
    odd = Step("žofie", (Change(3, 'a "b"\n\udcff.png', "ca\nt", "relabel", "<b>"), Change(4, "", "cat", "keep")))
    undoing = Step("ben", undoes=odd.name)
    for each in (odd, undoing):
        StepLog(path).append(each)
    assert written(path) == [odd, undoing]
    assert path.read_bytes().count(b"\n") == 2


def test_a_step_is_on_disk_when_append_returns(tmp_path, monkeypatch):
    path = tmp_path / "decisions.jsonl"
    synced = []
    original = os.fsync

    def fsync(handle):
        original(handle)
        synced.append((os.fstat(handle).st_ino, path.read_bytes().count(b"\n")))

    monkeypatch.setattr(module.os, "fsync", fsync)
    StepLog(path).append(step(1, "keep"))
    assert (path.stat().st_ino, 1) in synced  # after the line was written
    assert tmp_path.stat().st_ino in [inode for inode, _ in synced]  # the new file's name too


def test_half_a_line_is_skipped_and_the_next_step_is_whole(tmp_path):
    path = tmp_path / "decisions.jsonl"
    first, second = step(1, "keep"), step(2, "drop")
    StepLog(path).append(first)
    with path.open("ab") as file:
        file.write(step(9, "drop").to_line()[:30].encode())
    assert written(path) == [first]
    StepLog(path).append(second)
    assert written(path) == [first, second]


@pytest.mark.parametrize(
    "line", ["{}", "[]", "null", '{"step":"a","time":"t","reviewer":"r","changes":[["1","","","",""]]}']
)
def test_a_line_that_is_no_step_is_skipped(tmp_path, line):
    path = tmp_path / "decisions.jsonl"
    path.write_text(line + "\n")
    StepLog(path).append(step(1, "keep"))
    assert [each.changes[0].id for each in written(path)] == [1]


def test_a_reader_gets_only_what_is_new_and_waits_for_half_lines(tmp_path):
    path = tmp_path / "decisions.jsonl"
    log = StepLog(path)
    assert log.read() == []
    log.append(step(1, "keep"))
    assert [each.changes[0].id for each in log.read()] == [1]
    line = step(2, "keep").to_line().encode()
    with path.open("ab") as file:
        file.write(line[:20])
    assert log.read() == []
    with path.open("ab") as file:
        file.write(line[20:])
    assert [each.changes[0].id for each in log.read()] == [2]


WRITER = """
import sys
from pathlib import Path
from hitnet.decisions.steps import Change, Step, StepLog
path, reviewer, count, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
log = StepLog(path)
for i in range(count):
    log.append(Step(reviewer, tuple(Change(i, "p" * 200, "cat", "keep") for _ in range(size))))
    print(i, flush=True)
"""


def writer(path, reviewer, count, size=1):
    command = [sys.executable, "-c", WRITER, str(path), reviewer, str(count), str(size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_lines_of_two_processes_do_not_mix(tmp_path):
    path = tmp_path / "decisions.jsonl"
    processes = [writer(path, name, 40, size=60) for name in ("anna", "ben")]
    for process in processes:
        process.communicate(timeout=PATIENCE)
    steps = written(path)
    for name in ("anna", "ben"):
        assert [each.changes[0].id for each in steps if each.reviewer == name] == list(range(40))


def test_what_was_said_to_be_saved_survives_kill_9(tmp_path):
    path = tmp_path / "decisions.jsonl"
    process = writer(path, "anna", 100_000, size=50)
    saved = [process.stdout.readline() for _ in range(20)]
    process.send_signal(signal.SIGKILL)
    saved += process.stdout.read().splitlines()
    process.wait()
    steps = written(path)
    assert [each.changes[0].id for each in steps][: len(saved)] == list(range(len(saved)))
    StepLog(path).append(step(7, "drop"))
    assert written(path)[-1].changes[0].decision == "drop"


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    with pytest.raises(HitNetError, match="Cannot write"):
        StepLog(tmp_path / "gone" / "decisions.jsonl").append(step(1, "keep"))


def test_the_last_decision_counts_and_steps_can_be_undone_in_any_order():
    first, second, other = step(1, "keep"), step(1, "relabel", "dog"), step(2, "drop")
    decisions = Decisions([first, second, other])
    assert decisions.of("1.png")["anna"].outcome == ("relabel", "dog")
    undo_first = Step("anna", undoes=first.name)
    assert decisions.add(undo_first) == {"1.png"}
    assert decisions.of("1.png")["anna"].outcome == ("relabel", "dog")
    undo_second = Step("anna", undoes=second.name)
    decisions.add(undo_second)
    assert decisions.of("1.png") == {}
    assert decisions.of("2.png")["anna"].change.decision == "drop"
    decisions.add(Step("anna", undoes=undo_first.name))  # brought back
    assert decisions.of("1.png")["anna"].outcome == ("keep", "")
    assert decisions.last_step("anna") == other


def test_a_decision_can_be_taken_back():
    decisions = Decisions([step(1, "drop"), step(1, "none")])
    assert decisions.of("1.png") == {}


def test_a_step_counts_once():
    once = step(1, "drop")
    decisions = Decisions([once, once])
    assert len(decisions.steps) == 1


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"anna": ("keep", ""), "ben": ("keep", "")}, ("keep", "")),
        ({"anna": ("keep", ""), "ben": ("relabel", "dog")}, None),
        ({"anna": ("relabel", "cow"), "ben": ("relabel", "dog")}, None),
        ({"anna": ("unsure", ""), "ben": ("relabel", "dog")}, ("relabel", "dog")),
        ({"anna": ("unsure", ""), "ben": ("unsure", "")}, ("unsure", "")),
        ({}, None),
    ],
)
def test_settled_is_what_all_who_are_sure_agree_on(said, expected):
    decisions = Decisions([step(1, *outcome, reviewer=name) for name, outcome in said.items()])
    decision = settle(decisions.of("1.png"))
    assert (decision and decision.outcome) == expected


def test_settled_decisions_fit_the_table_of_now():
    """By path, also if ids have moved; not on a label that the image no longer has, nor on images that are gone."""
    table = pd.DataFrame({"id": [5, 6, 7], "path": ["1.png", "2.png", "4.png"], "given": ["cat", "dog", "cat"]})
    steps = [step(1, "drop"), step(2, "keep"), step(3, "keep"), step(4, "keep"), step(4, "drop", reviewer="ben")]
    result = settled(Decisions(steps), audited_images(table))
    assert [(c.id, c.path, c.decision) for _, c in result.corrections] == [(5, "1.png", "drop")]
    assert result.disputed == 1
    only = settled(Decisions(steps), audited_images(table), reviewer="ben")
    assert [(c.id, c.decision) for _, c in only.corrections] == [(7, "drop")]
    assert only.disputed == 0


def test_images_without_a_path_go_by_their_id():
    change = Change(3, "", "cat", "drop")
    table = pd.DataFrame({"id": [3], "path": [""], "given": ["cat"]})
    assert [c.id for _, c in settled(Decisions([Step("anna", (change,))]), audited_images(table)).corrections] == [3]


def test_lines_are_json_that_others_can_read(tmp_path):
    path = tmp_path / "decisions.jsonl"
    before = time.time()
    StepLog(path).append(step(1, "relabel", "dog"))
    entry = json.loads(path.read_text())
    assert entry["reviewer"] == "anna"
    assert entry["changes"] == [[1, "1.png", "cat", "relabel", "dog"]]
    assert pd.Timestamp(entry["time"]).timestamp() >= before - 1


@pytest.mark.parametrize("undone", ["x", "later"])
def test_a_step_that_undoes_itself_or_a_later_one_is_ignored(undone):
    decisions = Decisions(
        [Step("anna", undoes=undone, name="x"), step(1, "keep"), Step("anna", undoes="x", name="later")]
    )
    assert decisions.of("1.png")["anna"].change.decision == "keep"
    assert len(decisions.steps) == 1


@pytest.mark.slow
def test_an_undoing_can_be_undone_any_number_of_times():
    steps = [step(1, "keep", name="0"), *(Step("anna", undoes=str(i), name=str(i + 1)) for i in range(1200))]
    decisions = Decisions(steps)
    assert decisions.of("1.png")["anna"].change.decision == "keep"
    decisions.add(Step("anna", undoes="1200", name="1201"))
    assert decisions.of("1.png") == {}


@pytest.mark.parametrize("kind", ["pipe", "endless", "another file", "folder"])
def test_only_a_regular_file_of_the_folder_itself_is_read_and_written(tmp_path, kind):
    path, other = tmp_path / "decisions.jsonl", tmp_path / "other"
    other.write_text("mine\n")
    make = {
        "pipe": lambda: os.mkfifo(path),
        "endless": lambda: path.symlink_to("/dev/zero"),
        "another file": lambda: path.symlink_to(other),
        "folder": lambda: path.mkdir(),
    }
    make[kind]()
    with pytest.raises(HitNetError, match=r"decisions\.jsonl is"):
        StepLog(path).read()
    with pytest.raises(HitNetError, match=r"decisions\.jsonl is"):
        StepLog(path).append(step(1, "keep"))
    assert other.read_text() == "mine\n"


def test_a_log_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "decisions.jsonl"
    StepLog(path).append(step(1, "keep"))
    monkeypatch.setattr(module, "LARGEST", 10)
    with pytest.raises(HitNetError, match="more than the 10 that are read"):
        StepLog(path).read()


def test_a_log_that_is_removed_replaced_or_cut_is_noticed(tmp_path):
    path, log = tmp_path / "decisions.jsonl", StepLog(tmp_path / "decisions.jsonl")
    assert not log.is_replaced()
    log.append(step(1, "keep"))
    log.append(step(2, "keep"))
    assert (len(log.read()), log.is_replaced()) == (2, False)
    StepLog(tmp_path / "new.jsonl").append(step(3, "drop"))
    (tmp_path / "new.jsonl").rename(path)
    assert log.is_replaced()
    path.unlink()
    assert log.is_replaced()
