"""Steps of a review, one per line: a log that only grows, `decisions.jsonl` in the audit folder.

Each line is one step: what a reviewer decided on one image or many, or which earlier step is undone. What counts now
follows from all steps. Lines of several processes never mix; one that is killed leaves at most half a line, which
readers skip. The page report.html exports the same lines.
"""

import errno
import json
import os
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

from hitnet.errors import HitNetError, log
from hitnet.runtime.files import appending, check_regular

NAME = "decisions.jsonl"
LARGEST = 1 << 30  # bytes
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
    """One line of the log: what a reviewer decided when (UTC, ISO 8601), and what identifies the step."""

    reviewer: str
    changes: tuple[Change, ...] = ()
    undoes: str | None = None  # the name of the step that this one undoes, instead of changes
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    name: str = field(default_factory=lambda: secrets.token_hex(8))

    def to_line(self) -> str:
        about = {"step": self.name, "time": self.time, "reviewer": self.reviewer}
        what: dict[str, Any] = {"changes": self.changes} if self.undoes is None else {"undoes": self.undoes}
        return json.dumps(about | what, separators=(",", ":")) + "\n"

    @classmethod
    def from_line(cls, line: str | bytes) -> Self | None:
        """The step of a line; None for a line that is no step."""
        try:
            entry = json.loads(line)
            changes = tuple(Change(*fields) for fields in entry.get("changes", ()))
            step = cls(entry["reviewer"], changes, entry.get("undoes"), entry["time"], entry["step"])
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        texts = [step.reviewer, step.undoes or "", step.time, step.name]
        texts += [text for change in changes for text in change[1:]]
        sound = all(isinstance(text, str) for text in texts) and all(type(change.id) is int for change in changes)
        return step if sound else None


class StepLog:
    """The file of steps. Several processes and threads may append and read at the same time."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset = path, 0
        self._identity: tuple[int, int] | None = None

    def append(self, step: Step) -> None:
        """Write a step; when this returns, it survives the end of the process and of the machine's power."""
        try:
            if not self.path.parent.is_dir():
                raise FileNotFoundError(errno.ENOENT, "the folder is not there any more")
            if os.path.lexists(self.path):
                check_regular(self.path, largest=LARGEST, links=False)
            with appending(self.path) as append:
                # A killed process may have left half a line: end it.
                append(step.to_line() if _ends_whole(self.path) else "\n" + step.to_line())
        except OSError as error:
            raise HitNetError(f"Cannot write {self.path}: {error.strerror}. The decision is not saved.") from error

    def read(self) -> list[Step]:
        """The steps that were written since the last call; half a line at the end waits for its other half."""
        if not os.path.lexists(self.path):
            return []
        check_regular(self.path, largest=LARGEST, links=False)
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                self._identity = status.st_dev, status.st_ino
                file.seek(self.offset)
                block = file.read()
        except OSError as error:
            raise HitNetError(f"Cannot read {self.path}: {error.strerror}.") from error
        block = block[: block.rfind(b"\n") + 1]
        self.offset += len(block)
        steps = []
        for line in filter(bytes.strip, block.splitlines()):
            step = Step.from_line(line)
            if step is not None:
                steps.append(step)
            else:
                log.warning("%s: a line that is no decision is skipped: %r", self.path, line[:80])
        return steps

    def is_replaced(self) -> bool:
        """Whether what was read so far is no longer there: the file was removed, replaced or cut."""
        if not self.offset:
            return False
        try:
            status = self.path.stat()
        except OSError:
            return True
        return (status.st_dev, status.st_ino) != self._identity or status.st_size < self.offset


def read_steps(folder: Path) -> list[Step]:
    """The steps in an audit folder."""
    return StepLog(folder / NAME).read()


def _ends_whole(path: Path) -> bool:
    """Whether a file is empty or its last line is complete."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read(1) in (b"", b"\n")
