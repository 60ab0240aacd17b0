"""The ledger: lines, checksums, duplicates and merges."""

import errno
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from hitnet import HitNetError
from hitnet.runtime import appending
from patience import PATIENCE
from reproduction import Ledger
from reproduction import ledger as ledger_module
from reproduction.ledger import RUN, SHORT, Entry, canonical, checksum


def entry(seed, error=1, kind=RUN, label=""):
    return Entry(kind, "toy", (seed,), {"error": error}, label)


def test_entries_come_back_as_they_were(ledger):
    for seed in (3, 1, 2):
        ledger.add(entry(seed))
    again = Ledger(ledger.path)
    assert [line.seeds for line in again.select(RUN, "toy")] == [(1,), (2,), (3,)]
    assert again.get(RUN, "toy", (2,)) == entry(2)
    assert again.get(SHORT, "toy", (2,)) is None


def test_entries_are_told_apart_by_kind_and_experiment(ledger):
    ledger.add(entry(0, kind=SHORT, label="1 epochs"))
    ledger.add(Entry(RUN, "other", (0,), {}))
    ledger.add(entry(1))
    assert [(line.experiment, line.seeds) for line in ledger.select(RUN)] == [("other", (0,)), ("toy", (1,))]
    assert ledger.select(RUN, "toy") == [entry(1)]
    assert ledger.select(SHORT) == [entry(0, kind=SHORT, label="1 epochs")]
    with pytest.raises(HitNetError, match="1 epochs with seed 0, in line 1"):
        ledger.add(entry(0, kind=SHORT, label="1 epochs"))


def test_a_missing_file_is_an_empty_ledger(tmp_path):
    assert Ledger(tmp_path / "none.jsonl").entries == {}


def test_adding_only_appends(ledger):
    ledger.add(entry(5))
    before = ledger.path.read_bytes()
    ledger.add(entry(0))
    assert ledger.path.read_bytes().startswith(before)
    assert ledger.path.read_bytes().count(b"\n") == 2


def test_the_same_run_twice_is_refused(ledger):
    ledger.add(entry(0))
    before = ledger.path.read_bytes()
    with pytest.raises(HitNetError, match="toy with seed 0, in line 1"):
        ledger.add(entry(0, error=2))
    assert ledger.path.read_bytes() == before
    ledger.add(entry(0, kind=SHORT, label="1 epochs"))  # another key


def test_a_run_that_another_process_wrote_is_seen(ledger):
    other = Ledger(ledger.path)
    other.add(entry(0))
    with pytest.raises(HitNetError, match="already has"):
        ledger.add(entry(0))
    ledger.add_if_new(entry(0, error=2))
    assert ledger.get(RUN, "toy", (0,)) == entry(0)
    ledger.add_if_new(entry(1))
    assert len(Ledger(ledger.path).entries) == 2


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda line: line.replace('"error":1', '"error":0'), "checksum"),
        (lambda line: line[: len(line) // 2], "line 2 is damaged"),
        (lambda line: "<<<<<<< ours", "line 2 is damaged"),
        (lambda line: "{}", "not an entry with a checksum"),
        (lambda line: "7", "not an entry with a checksum"),
    ],
)
def test_damaged_lines_are_named(ledger, damage, says):
    for seed in range(3):
        ledger.add(entry(seed))
    lines = ledger.path.read_text().splitlines()
    lines[1] = damage(lines[1])
    ledger.path.write_text("\n".join(lines) + "\n")
    with pytest.raises(HitNetError, match=says) as error:
        Ledger(ledger.path)
    assert "line 2" in str(error.value)


@pytest.mark.parametrize("changes", [{"kind": "dream"}, {"mood": "good"}])
def test_whole_lines_of_another_version_are_named(ledger, changes):
    whole = {**json.loads(entry(0).to_line()), **changes}
    del whole["check"]
    ledger.path.write_text(canonical({**whole, "check": checksum(whole)}) + "\n")
    with pytest.raises(HitNetError, match=r"line 1 is damaged: .* kind"):
        ledger.read()


def test_lines_are_counted_anew_and_empty_ones_passed_over(ledger):
    ledger.path.write_text(f"{entry(0).to_line()}\n{entry(1).to_line()}\n")
    ledger.read()
    ledger.path.write_text(f"{entry(1).to_line()}\n \n\n{entry(0).to_line()}\n")
    with pytest.raises(HitNetError, match="toy with seed 0, in line 4"):
        ledger.add(entry(0))


def test_two_different_lines_for_a_run_are_refused_but_not_the_same_line_twice(ledger):
    ledger.path.write_text(f"{entry(0).to_line()}\n{entry(0).to_line()}\n")
    ledger.read()
    assert len(ledger.entries) == 1
    ledger.path.write_text(f"{entry(0).to_line()}\n{entry(1).to_line()}\n{entry(0, error=9).to_line()}\n")
    with pytest.raises(HitNetError, match=r"lines 1 and 3 .* seed 0"):
        ledger.read()


def test_a_last_line_without_its_end_is_not_glued_to_the_next(ledger):
    ledger.path.write_text(entry(0).to_line())
    ledger.read()
    ledger.add(entry(1))
    assert len(Ledger(ledger.path).entries) == 2


def test_lines_are_written_as_ever():
    """Its own checksum, names in order, nothing that needs no space: ledgers of all versions compare line by line."""
    assert Entry(RUN, "toy", (0,), {"wrong": [2, 1], "name": "é"}, "x").to_line() == (
        '{"check":"ecdee1727185a61e","experiment":"toy","facts":{"name":"é","wrong":[2,1]},"kind":"run","label":"x",'
        '"seeds":[0]}'
    )
    with pytest.raises(ValueError, match="JSON compliant"):
        entry(0, error=float("nan")).to_line()


def test_lines_are_one_line_each():
    line = entry(0, error="two\nlines").to_line()
    assert "\n" not in line
    assert json.loads(line)["facts"]["error"] == "two\nlines"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is missing: apt-get install git")
def test_two_branches_merge_without_conflict(tmp_path):
    def git(*words):
        name = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True)

    attributes = Path(__file__).parents[2] / ".gitattributes"
    assert "merge=union" in attributes.read_text()
    path = tmp_path / "reproduction/ledger.jsonl"
    git("init", "-q", "-b", "main")
    shutil.copy(attributes, tmp_path)
    Ledger(path).add(entry(0))
    git("add", ".")
    git("commit", "-qm", "start")
    git("switch", "-qc", "other")
    Ledger(path).add(entry(1))
    git("commit", "-qam", "other")
    git("switch", "-q", "main")
    Ledger(path).add(entry(2))
    git("commit", "-qam", "ours")
    git("merge", "-q", "other", "-m", "merged")
    assert [line.seeds for line in Ledger(path).select(RUN)] == [(0,), (1,), (2,)]


def test_a_full_disk_leaves_no_half_line(ledger, monkeypatch):
    ledger.add(entry(0))
    before, write, room = ledger.path.read_bytes(), os.write, [30]

    def until_full(handle, content):
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(handle, content[: room.pop()])

    monkeypatch.setattr(os, "write", until_full)
    with pytest.raises(HitNetError, match=r"ledger .*No space left"):
        ledger.add(entry(1))
    monkeypatch.undo()
    assert ledger.path.read_bytes() == before
    ledger.add(entry(1))
    assert len(Ledger(ledger.path).entries) == 2


def test_a_write_that_takes_a_part_is_continued(ledger, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[:7]))
    ledger.add(entry(0))
    ledger.add(entry(1))
    assert len(Ledger(ledger.path).entries) == 2


def test_a_torn_last_line_is_told_and_repaired(ledger):
    ledger.add(entry(0))
    whole = ledger.path.read_bytes()
    line = entry(1).to_line()
    ledger.path.write_bytes(whole + line[:40].encode())
    with pytest.raises(HitNetError, match="reproduction --repair`"):
        Ledger(ledger.path)
    assert ledger_module.repair(ledger.path) == line[:40]
    assert ledger.path.read_bytes() == whole
    assert ledger_module.repair(ledger.path) == ""
    ledger.path.write_bytes(whole + line.encode())  # whole, only its end is missing
    assert ledger_module.repair(ledger.path) == ""
    assert len(Ledger(ledger.path).entries) == 2


@pytest.mark.parametrize(
    "odd",
    [{"experiment": 3}, {"seeds": ["a"]}, {"seeds": 1}, {"seeds": []}, {"facts": []}, {"label": None}, {"kind": "x"}],
)
def test_lines_of_odd_types_are_refused_even_with_a_sound_checksum(ledger, odd):
    values = {"kind": RUN, "experiment": "toy", "label": "", "seeds": [0], "facts": {}, **odd}
    ledger.path.write_text(canonical({**values, "check": checksum(values)}) + "\n")
    with pytest.raises(HitNetError, match=r"line 1 is damaged"):
        Ledger(ledger.path)


@pytest.mark.parametrize("line", ["[" * 100_000, "9" * 5000, '{"check": 1e999}'])
def test_lines_that_no_reader_survives_are_refused(ledger, line):
    ledger.path.write_text(line + "\n")
    with pytest.raises(HitNetError, match=r"line 1 is damaged"):
        Ledger(ledger.path)


def test_a_pipe_is_no_ledger(tmp_path):
    os.mkfifo(tmp_path / "ledger.jsonl")
    with pytest.raises(HitNetError, match="no regular file"):
        Ledger(tmp_path / "ledger.jsonl")


def test_a_line_that_is_just_being_written_is_not_repaired(ledger):
    ledger.add(entry(0))
    line, removed = entry(1).to_line() + "\n", []
    with appending(ledger.path) as append:
        append(line[:40])
        repairing = threading.Thread(target=lambda: removed.append(ledger_module.repair(ledger.path)))
        repairing.start()
        repairing.join(0.5)
        append(line[40:])
    repairing.join(PATIENCE)
    assert removed == [""]
    assert len(Ledger(ledger.path).entries) == 2


def test_a_run_that_another_process_records_is_not_recorded_twice(ledger):
    other = Ledger(ledger.path)
    ledger.add(entry(0))
    before = ledger.path.read_bytes()
    other.add_if_new(entry(0))
    assert ledger.path.read_bytes() == before
    other.add_if_new(entry(1))
    assert len(Ledger(ledger.path).entries) == 2
