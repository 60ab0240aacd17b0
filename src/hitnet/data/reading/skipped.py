"""What a set leaves out: files, folders and rows that give no image, and how they are reported."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hitnet.errors import HitNetError, one_line

log = logging.getLogger("hitnet")
SHOWN = 10


@dataclass(frozen=True)
class Skipped:
    """Something that was left out of a set, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{one_line(self.path)}: {self.reason}"


def log_skipped(name: str, skipped: Sequence[Skipped], ignored: Mapping[str, int]) -> None:
    """Log what a set leaves out."""
    if ignored:
        log.info("%s: ignored: %s", name, list_ignored(ignored))
    if skipped:
        shown = "\n".join(f"  {item}" for item in skipped[:SHOWN])
        more = f"\n  and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
        log.warning("%s: left out %d:\n%s%s", name, len(skipped), shown, more)


def stop_if_strict(name: str, skipped: Sequence[Skipped], *, strict: bool) -> None:
    """Raise HitNetError if anything is left out of a set that is opened with the option `strict`."""
    if strict and skipped:
        raise HitNetError(f"{name}: {skipped[0]}. Fix or remove it, or drop `strict`.")


def describe_skipped(skipped: Sequence[Skipped], ignored: Mapping[str, int]) -> str:
    """For an error: how many are left out, the first of them, and what is ignored; empty if there is nothing."""
    first = f"Left out: {len(skipped)}, the first {skipped[0]}." if skipped else ""
    return " ".join(filter(None, [first, f"Ignored: {list_ignored(ignored)}." if ignored else ""]))


def list_ignored(ignored: Mapping[str, int]) -> str:
    """For example "5 .txt, 1 without suffix"; only the most common of many suffixes."""
    kinds = sorted(ignored, key=lambda kind: (-ignored[kind], kind))
    words = [f"{ignored[kind]} {kind}" for kind in kinds[:SHOWN]]
    if more := sum(ignored[kind] for kind in kinds[SHOWN:]):
        words.append(f"{more} of other types")
    return ", ".join(words)
