"""The ledger: one line of JSON for each finished or failed run, analysis or picture, each with its own checksum.

Lines are only ever added, and none depends on another, so two ledgers are merged by taking the lines of both
(`merge=union` in .gitattributes). A line that was changed by hand, torn or badly merged is refused with its number;
so are two different lines for the same run. Old lines are read in today's words (translation.py).
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitnet import HitNetError
from hitnet.runtime import ANYTHING, appending, check_regular, expand, find_problem
from reproduction.translation import translated

RUN, SHORT, DIVERGED, ANALYSIS, PICTURE = KINDS = ("run", "short", "diverged", "analysis", "picture")
LINE = {"kind": str, "experiment": str, "label": str, "seeds": [int], "facts": {str: ANYTHING}, "check": str}
LARGEST = 1 << 30  # bytes
Key = tuple[str, str, str, tuple[int, ...]]


@dataclass(frozen=True)
class Entry:
    """One line.

    Attributes:
        kind: "run": a run of full length; "short": a shortened run, which no table counts; "diverged": a run of full
            length that failed; "analysis": an analysis of several runs together; "picture": a file that was drawn from
            a run's weights.
        label: Distinguishes entries of the same kind, experiment and seeds: how a run was shortened, which picture.
        facts: The rest, plain values.
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
        """The entry as JSON with its checksum, in the one form that all versions write."""
        body = {"kind": self.kind, "experiment": self.experiment, "label": self.label, "seeds": list(self.seeds)}
        whole = {**body, "facts": self.facts}
        return canonical({**whole, "check": checksum(whole)})


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def checksum(value: Any) -> str:
    return hashlib.blake2b(canonical(value).encode(), digest_size=8).hexdigest()


def parse_line(line: str) -> Entry:
    """Read an entry from its line.

    Raises:
        ValueError: The line is damaged, or of an unknown kind; the message says which.
    """
    try:
        values = json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(values, dict) or "check" not in values:
        raise ValueError("it is not an entry with a checksum")
    if checksum({key: value for key, value in values.items() if key != "check"}) != values["check"]:
        raise ValueError("its checksum does not match its content")
    if set(values) != set(LINE) or values["kind"] not in (*KINDS, "arm"):
        raise ValueError("it is of a kind that this version of hitnet does not know")
    if problem := find_problem(values, LINE, ""):
        raise ValueError(problem)
    if not values["seeds"]:
        raise ValueError("it names no seed")
    values = translated(values)
    return Entry(values["kind"], values["experiment"], tuple(values["seeds"]), values["facts"], values["label"])


class Ledger:
    """The entries of one file; a file that does not exist yet is an empty ledger."""

    def __init__(self, path: str | Path) -> None:
        self.path = expand(path)
        self.entries: dict[Key, Entry] = {}
        self.lines: dict[Key, int] = {}
        self.unended = False
        self.counted: dict[str, tuple[Any, Any]] = {}  # see `records.full_runs`
        self.read()

    def read(self) -> None:
        """Read the file again, from its first line.

        Raises:
            HitNetError: The file cannot be read, a line is damaged, or two lines contradict each other.
        """
        text = _read_text(self.path)
        self.entries.clear()
        self.lines.clear()
        self.counted.clear()
        self.unended = bool(text) and not text.endswith("\n")
        lines = text.split("\n")
        if self.unended and _is_torn(lines[-1]):
            raise HitNetError(
                f"{self.path}: its last line is torn, as a crash or a full disk leaves it. Remove it with "
                "`python -m reproduction --repair`, then repeat the command: the run is recorded again from its folder."
            )
        for number, line in enumerate(lines, start=1):
            if line.strip():
                self._keep(line, number)

    def _keep(self, line: str, number: int) -> None:
        try:
            entry = parse_line(line)
        except (ValueError, TypeError) as error:
            raise HitNetError(
                f"{self.path}, line {number} is damaged: {error}. Restore the line from the file's history, or "
                "remove it and repeat the command: the run is recorded again from its run folder."
            ) from error
        earlier = self.entries.get(entry.key)
        if earlier is not None and earlier != entry:  # some merges leave the same line twice, which is harmless
            raise HitNetError(
                f"{self.path}, lines {self.lines[entry.key]} and {number} both record {describe_entry(entry)}, "
                "differently. Keep one of the two."
            )
        self.entries[entry.key] = entry
        self.lines.setdefault(entry.key, number)

    def add(self, entry: Entry) -> None:
        """Append an entry.

        Raises:
            HitNetError: The ledger has an entry for the same run, or cannot be written.
        """
        if not self._append(entry):
            raise HitNetError(f"{self.path} already has {describe_entry(entry)}, in line {self.lines[entry.key]}.")

    def _append(self, entry: Entry) -> bool:
        """Append an entry; False if there is one for the same run already."""
        try:
            with appending(self.path) as append:
                self.read()  # another process may have written since; none does now
                if entry.key in self.entries:
                    return False
                append(("\n" if self.unended else "") + entry.to_line() + "\n")
        except OSError as error:
            raise HitNetError(f"Cannot write the ledger {self.path}: {error.strerror}. Choose another `ledger`.") from (
                error
            )
        self.read()
        return True

    def check_writable(self) -> None:
        """Raise HitNetError unless entries can be added; to be called before a long training."""
        nearest = next(path for path in [self.path, *self.path.absolute().parents] if path.exists())
        if nearest == self.path:
            reason = "it is not a file" if not nearest.is_file() else "it is not writable"
            writable = nearest.is_file() and os.access(nearest, os.W_OK)
        else:
            reason = f"{nearest} is not a folder" if not nearest.is_dir() else f"{nearest} is not writable"
            writable = nearest.is_dir() and os.access(nearest, os.W_OK)
        if not writable:
            raise HitNetError(f"Cannot write the ledger {self.path}: {reason}. Choose another `ledger`.")

    def add_if_new(self, entry: Entry) -> None:
        """Append an entry, unless another process has recorded the same run meanwhile."""
        self._append(entry)

    def select(self, kind: str, experiment: str | None = None) -> list[Entry]:
        """The entries of a kind, sorted by seeds; of one experiment, or of all."""
        chosen = [entry for entry in self.entries.values() if entry.kind == kind]
        if experiment is not None:
            chosen = [entry for entry in chosen if entry.experiment == experiment]
        return sorted(chosen, key=lambda entry: (entry.experiment, entry.label, entry.seeds))

    def get(self, kind: str, experiment: str, seeds: tuple[int, ...], label: str = "") -> Entry | None:
        return self.entries.get((kind, experiment, label, seeds))


def _read_text(path: Path) -> str:
    if not path.exists():
        return ""
    check_regular(path, largest=LARGEST)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HitNetError(f"The ledger {path} cannot be read: {error}") from error


def _is_torn(line: str) -> bool:
    """Whether a line without an end is only the beginning of an entry."""
    try:
        parse_line(line)
    except (ValueError, TypeError):
        return True
    return False


def repair(path: str | Path) -> str:
    """Remove a torn last line from a ledger.

    Returns:
        What was removed; empty if the last line was whole.
    """
    if not Path(path).exists():
        return ""
    with appending(path):  # no other process writes meanwhile
        text = _read_text(Path(path))
        kept, torn = text[: text.rfind("\n") + 1], text[text.rfind("\n") + 1 :]
        if not torn or not _is_torn(torn):
            return ""
        os.truncate(path, len(kept.encode()))
    return torn


def describe_entry(entry: Entry) -> str:
    seeds = ", ".join(map(str, entry.seeds))
    return f"{entry.kind} {entry.experiment}{' ' + entry.label if entry.label else ''} with seed {seeds}"
