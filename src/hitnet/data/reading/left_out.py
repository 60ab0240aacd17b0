"""What a set leaves out: files, folders and rows that give no image, and how they are reported."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hitnet.data.reading.decode import SUFFIXES
from hitnet.errors import HitNetError, one_line

log = logging.getLogger("hitnet")
LIES_OUTSIDE = "it lies outside the class folders"
KINDS_SHOWN = 10
SHOWN = 10


@dataclass(frozen=True)
class Skipped:
    """Something that was left out of a set, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{one_line(self.path)}: {self.reason}"


def unread_type(suffix: str) -> str:
    """Why a picture of a type that is not read is left out."""
    return f"images of type {suffix} are not read; convert it to PNG or JPEG"


def no_images(root: object, skipped: Sequence[Skipped], ignored: Mapping[str, int]) -> HitNetError:
    """The error of a folder without images in class folders; it names what is there instead."""
    return HitNetError(
        f"{root} holds no image in a class folder. Expected ROOT/<class>/<image> or "
        f"ROOT/{{train,test}}/<class>/<image>, with images of type {' '.join(sorted(SUFFIXES))}. "
        f"{in_words(skipped, ignored)}".rstrip()
    )


def log_left_out(name: str, skipped: Sequence[Skipped], ignored: dict[str, int]) -> None:
    """Log what a set leaves out."""
    if ignored:
        log.info("%s: ignored: %s", name, ignored_in_words(ignored))
    if skipped:
        shown = "\n".join(f"  {item}" for item in skipped[:SHOWN])
        more = f"\n  and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
        log.warning("%s: left out %d:\n%s%s", name, len(skipped), shown, more)


def stop_if_strict(name: str, skipped: Sequence[Skipped], *, strict: bool) -> None:
    """Raise HitNetError if anything is left out of a set that is opened with the option `strict`."""
    if strict and skipped:
        raise HitNetError(f"{name}: {skipped[0]}. Mend or remove it, or leave out `strict`.")


def in_words(skipped: Sequence[Skipped], ignored: Mapping[str, int]) -> str:
    """For an error: how many are left out, the first of them, and what is ignored; empty if there is nothing to say."""
    first = f"Left out: {len(skipped)}, the first {skipped[0]}." if skipped else ""
    return " ".join(filter(None, [first, f"Ignored: {ignored_in_words(ignored)}." if ignored else ""]))


def ignored_in_words(ignored: Mapping[str, int]) -> str:
    """For example "5 .txt, 1 without suffix"; only the most common of many suffixes."""
    kinds = sorted(ignored, key=lambda kind: (-ignored[kind], kind))
    words = [f"{ignored[kind]} {kind}" for kind in kinds[:KINDS_SHOWN]]
    if more := sum(ignored[kind] for kind in kinds[KINDS_SHOWN:]):
        words.append(f"{more} of other types")
    return ", ".join(words)
