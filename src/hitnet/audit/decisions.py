"""Decisions of people on the images of an audit: a log that only grows, `decisions.jsonl` in the audit folder.

Each line is one step: what a reviewer decided on one image or many, or which earlier step is undone. A line is on disk
before `append` returns, and lines of several processes never mix. A process that is killed leaves at most half a line,
which readers skip. Nothing is ever removed: what counts now follows from all steps.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from hitnet.audit.correction_files import Correction
from hitnet.errors import HitNetError
from hitnet.runtime.files import appending

log = logging.getLogger("hitnet")
NAME = "decisions.jsonl"
UNDECIDED = "none"  # takes a decision back
Key = str | int


class Change(NamedTuple):
    """What a step says of one image; `label` is the new class of a relabelled image and empty otherwise."""

    id: int
    path: str
    given: str
    decision: str
    label: str = ""

    @property
    def key(self) -> Key:
        """What identifies the image: its path, or its id where the set is not made of files."""
        return self.path or self.id


@dataclass(frozen=True)
class Step:
    """One line of the log.

    Attributes:
        reviewer: Who decided.
        changes: What was decided.
        undoes: The name of the step that this one undoes, instead of changes.
        time: When, in UTC, as ISO 8601.
        name: Identifies the step.
    """

    reviewer: str
    changes: tuple[Change, ...] = ()
    undoes: str | None = None
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    name: str = field(default_factory=lambda: secrets.token_hex(8))

    def to_line(self) -> bytes:
        about = {"step": self.name, "time": self.time, "reviewer": self.reviewer}
        what: dict[str, Any] = {"changes": self.changes} if self.undoes is None else {"undoes": self.undoes}
        return json.dumps(about | what, separators=(",", ":")).encode("ascii") + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Step:
        """Raises ValueError, TypeError or KeyError for a line that is no step."""
        entry = json.loads(line)
        changes = tuple(_change(*fields) for fields in entry.get("changes", ()))
        step = cls(entry["reviewer"], changes, entry.get("undoes"), entry["time"], entry["step"])
        if not all(isinstance(text, str) for text in (step.reviewer, step.undoes or "", step.time, step.name)):
            raise TypeError("not a step")
        return step


def _change(number: int, path: str, given: str, decision: str, label: str) -> Change:
    if not isinstance(number, int) or not all(isinstance(text, str) for text in (path, given, decision, label)):
        raise TypeError("not a change")
    return Change(number, path, given, decision, label)


class DecisionLog:
    """The file of steps. Several processes and threads may append and read at the same time."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0

    def append(self, step: Step) -> None:
        """Write a step; when this returns, it survives the end of the process and of the machine's power."""
        line = step.to_line().decode("ascii")
        try:
            if not self.path.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, "the folder is not there any more")
            with appending(self.path) as append:
                # A killed process may have left half a line: end it.
                append(line if _ends_whole(self.path) else "\n" + line)
        except OSError as error:
            raise HitNetError(f"Cannot write {self.path}: {error.strerror}. The decision is not saved.") from error

    def read(self) -> Iterator[Step]:
        """The steps that were written since the last call; half a line at the end waits for its other half."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                block = file.read()
        except FileNotFoundError:
            return
        except OSError as error:
            raise HitNetError(f"Cannot read {self.path}: {error.strerror}.") from error
        for line in block[: block.rfind(b"\n") + 1].splitlines(keepends=True):
            self.offset += len(line)
            try:
                if line.strip():
                    yield Step.from_line(line)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                log.warning("%s: a line that is no decision is skipped: %r", self.path, line[:80])


def _ends_whole(path: Path) -> bool:
    """Whether a file is empty or its last line is complete."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"", b"\n")


class Decision(NamedTuple):
    """What counts now: a reviewer's last decision on an image."""

    decision: str
    label: str
    given: str
    reviewer: str
    time: str
    step: str

    @property
    def outcome(self) -> tuple[str, str]:
        return self.decision, self.label

    @property
    def answer(self) -> str:
        """The label that the reviewer wants; what is no label stands in brackets."""
        return {"keep": self.given, "relabel": self.label}.get(self.decision, f"({self.decision})")


class Decisions:
    """What all steps of a log come to. Steps may be added at any time."""

    def __init__(self, steps: Sequence[Step] | Iterator[Step] = ()) -> None:
        self.steps: dict[str, Step] = {}
        self.reviewers: set[str] = set()
        self._undos: dict[str, list[str]] = {}
        self._touching: dict[Key, list[tuple[str, Change]]] = {}
        for step in steps:
            self.add(step)

    def add(self, step: Step) -> set[Key]:
        """Take a step into account; returns the images that it concerns."""
        if step.name in self.steps:
            return set()
        if step.undoes is not None and step.undoes not in self.steps:  # steps undo earlier ones only
            return set()
        self.steps[step.name] = step
        self.reviewers.add(step.reviewer)
        if step.undoes is not None:
            self._undos.setdefault(step.undoes, []).append(step.name)
        for change in step.changes:
            self._touching.setdefault(change.key, []).append((step.name, change))
        return self.concerned(step)

    def concerned(self, step: Step) -> set[Key]:
        """The images that a step, or the step that it undoes, is about."""
        while step.undoes is not None and step.undoes in self.steps:
            step = self.steps[step.undoes]
        return {change.key for change in step.changes}

    def stands(self, name: str) -> bool:
        """Whether a step has not been undone, or its undoing has been undone."""
        standing: dict[str, bool] = {}
        waiting = [name]
        while waiting:  # not by recursion: an undoing can be undone any number of times
            undos = self._undos.get(waiting[-1], ())
            unknown = [undo for undo in undos if undo not in standing]
            if unknown:
                waiting += unknown
            else:
                standing[waiting.pop()] = not any(standing[undo] for undo in undos)
        return standing[name]

    def of(self, key: Key) -> dict[str, Decision]:
        """The decision of each reviewer on an image."""
        current: dict[str, Decision] = {}
        for name, change in self._touching.get(key, ()):
            if not self.stands(name):
                continue
            step = self.steps[name]
            current.pop(step.reviewer, None)  # so that the last decision stands last
            if change.decision != UNDECIDED:
                current[step.reviewer] = Decision(
                    change.decision, change.label, change.given, step.reviewer, step.time, name
                )
        return current

    def images(self) -> Iterator[Key]:
        """All images that a step concerns, also those whose decisions were undone."""
        return iter(self._touching)

    def last_step(self, reviewer: str) -> Step | None:
        """The reviewer's last step that still stands and is no undoing."""
        for name in reversed(self.steps):
            step = self.steps[name]
            if step.reviewer == reviewer and step.undoes is None and self.stands(name):
                return step
        return None


def settle(decisions: dict[str, Decision]) -> Decision | None:
    """The decision on which all reviewers of an image agree; None if there is none. Who is unsure agrees with all."""
    sure = [decision for decision in decisions.values() if decision.decision != "unsure"]
    if not sure:
        return next(reversed(decisions.values()), None)
    return sure[-1] if len({decision.outcome for decision in sure}) == 1 else None


def open_decisions(folder: Path) -> Decisions:
    """The decisions in an audit folder."""
    return Decisions(DecisionLog(folder / NAME).read())


class Settled(NamedTuple):
    """Decisions as corrections of an audit, and how many images reviewers disagree on."""

    corrections: list[Correction]
    disputed: int


def settled(decisions: Decisions, table: pd.DataFrame, *, reviewer: str | None = None) -> Settled:
    """What the decisions come to for an audit's table: those of one reviewer, or those that all agree on.

    Decisions on images that the table does not have, or has under another label, say nothing of it.
    """
    corrections: list[Correction] = []
    disputed = 0
    rows = zip(table["id"].tolist(), table["path"].fillna("").tolist(), table["given"].tolist(), strict=True)
    audited = {path or number: (number, path, given) for number, path, given in rows}
    for key in decisions.images():
        if key not in audited:
            continue
        number, path, given = audited[key]
        current = {name: decision for name, decision in decisions.of(key).items() if decision.given == given}
        decision = settle(current) if reviewer is None else current.get(reviewer)
        if decision is None:
            disputed += bool(current) and reviewer is None
            continue
        corrections.append(Correction(len(corrections) + 1, number, path, given, *decision.outcome, unit="decision"))
    return Settled(corrections, disputed)
