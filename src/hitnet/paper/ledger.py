"""The ledger: one line of JSON for each finished or failed run, analysis or picture, each with a checksum of its own.

Lines are only ever added, and none depends on another, so that two ledgers are merged by taking the lines of both
(`merge=union` in .gitattributes). A line that was changed by hand, torn or merged badly is refused with its number;
so are two different lines for the same run.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitnet.errors import HitNetError

RUN, SHORT, DIVERGED, ANALYSIS, PICTURE = KINDS = ("run", "short", "diverged", "analysis", "picture")
Key = tuple[str, str, str, tuple[int, ...]]


@dataclass(frozen=True)
class Entry:
    """One line.

    kind   "run": a run of full length; "short": one that was shortened, which no table counts; "diverged": one that was
           to be of full length, and failed; "analysis": of several runs together; "picture": a file that was drawn
           from a run's weights
    label  what tells apart entries of the same kind, experiment and seeds: how a run was shortened, which picture
    facts  the rest, plain values
    """

    kind: str
    experiment: str
    seeds: tuple[int, ...]
    facts: dict[str, Any]
    label: str = ""

    @property
    def key(self) -> Key:
        return self.kind, self.experiment, self.label, self.seeds

    def to_line(self) -> str:
        body = {"kind": self.kind, "experiment": self.experiment, "label": self.label, "seeds": list(self.seeds)}
        whole = {**body, "facts": self.facts}
        return canonical({**whole, "check": checksum(whole)})


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def checksum(value: Any) -> str:
    return hashlib.blake2b(canonical(value).encode(), digest_size=8).hexdigest()


def parse(line: str) -> Entry:
    """An entry from its line; ValueError says what is wrong with it."""
    values = json.loads(line)
    if not isinstance(values, dict) or "check" not in values:
        raise ValueError("it is not an entry with a checksum")
    if checksum({key: value for key, value in values.items() if key != "check"}) != values["check"]:
        raise ValueError("its checksum does not fit what it says")
    if set(values) != {"kind", "experiment", "label", "seeds", "facts", "check"} or values["kind"] not in KINDS:
        raise ValueError("it is of a kind that this version of hitnet does not know")
    return Entry(values["kind"], values["experiment"], tuple(values["seeds"]), values["facts"], values["label"])


class Ledger:
    """The entries of one file; a file that does not exist yet is an empty ledger."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.entries: dict[Key, Entry] = {}
        self.lines: dict[Key, int] = {}
        self.unended = False
        self.read()

    def read(self) -> None:
        try:
            text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise HitNetError(f"The ledger {self.path} cannot be read: {error}") from error
        self.entries.clear()
        self.lines.clear()
        self.unended = bool(text) and not text.endswith("\n")
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                self._take(line, number)

    def _take(self, line: str, number: int) -> None:
        try:
            entry = parse(line)
        except (ValueError, TypeError) as error:
            raise HitNetError(
                f"{self.path}, line {number} is damaged: {error}. Take the line from the file's history, or remove "
                "it and record its run again from its run folder with the same command."
            ) from error
        there = self.entries.get(entry.key)
        if there is not None and there != entry:  # the very same line twice is left by some merges, and harmless
            raise HitNetError(
                f"{self.path}, lines {self.lines[entry.key]} and {number} both record {describe(entry)}, differently. "
                "Keep one of the two."
            )
        self.entries[entry.key] = entry
        self.lines.setdefault(entry.key, number)

    def add(self, entry: Entry) -> None:
        """Append an entry; one for the same run is refused."""
        self.read()  # another process may have written since
        if entry.key in self.entries:
            raise HitNetError(f"{self.path} already has {describe(entry)}, in line {self.lines[entry.key]}.")
        text = entry.to_line() + "\n"
        if self.unended:
            text = "\n" + text
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # One write at the end of the file: lines of several processes follow each other, whole.
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(handle, text.encode())
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise HitNetError(f"Cannot write the ledger {self.path}: {error.strerror}. Name another (--ledger).") from (
                error
            )
        self.read()

    def check_writable(self) -> None:
        """Find out before a long training whether its record can be kept."""
        nearest = next(path for path in [self.path, *self.path.absolute().parents] if path.exists())
        if nearest == self.path:
            why = "it is no file" if not nearest.is_file() else "it may not be written to"
            fine = nearest.is_file() and os.access(nearest, os.W_OK)
        else:
            why = f"{nearest} is no folder" if not nearest.is_dir() else f"{nearest} may not be written to"
            fine = nearest.is_dir() and os.access(nearest, os.W_OK)
        if not fine:
            raise HitNetError(f"Cannot write the ledger {self.path}: {why}. Name another (--ledger).")

    def add_if_new(self, entry: Entry) -> None:
        """Append an entry, unless another process has recorded the same run since."""
        self.read()
        if entry.key not in self.entries:
            self.add(entry)

    def of(self, kind: str, experiment: str | None = None) -> list[Entry]:
        """The entries of a kind, of one experiment or of all, by seeds."""
        found = [e for e in self.entries.values() if e.kind == kind and experiment in (None, e.experiment)]
        return sorted(found, key=lambda entry: (entry.experiment, entry.label, entry.seeds))

    def get(self, kind: str, experiment: str, seeds: tuple[int, ...], label: str = "") -> Entry | None:
        return self.entries.get((kind, experiment, label, seeds))


def describe(entry: Entry) -> str:
    seeds = ", ".join(map(str, entry.seeds))
    return f"{entry.kind} {entry.experiment}{' ' + entry.label if entry.label else ''} with seed {seeds}"
