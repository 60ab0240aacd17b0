"""A list of image files and their labels, and how it becomes images; folders and tables both end here."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from hitnet.data import decode
from hitnet.data.images import Images
from hitnet.data.split import even_draw, natural
from hitnet.errors import HitNetError

log = logging.getLogger("hitnet")
LONGEST_SIDE = 64
T = TypeVar("T")


@dataclass(frozen=True)
class Skipped:
    """Something that was left out of a set, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Report:
    """What reading a source gave.

    images   the set
    skipped  files, folders and rows that should have given images but did not
    ignored  how many files were passed over for being of no image type, by suffix
    """

    images: Images
    skipped: tuple[Skipped, ...] = ()
    ignored: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One image file: its place in the set's order, its path as shown and as opened, its class, its split."""

    id: int
    path: str
    file: Path
    label: str
    split: str


@dataclass(frozen=True)
class Listing:
    name: str
    entries: tuple[Entry, ...]
    skipped: tuple[Skipped, ...] = ()
    ignored: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Survey:
    """What the headers of a listing's files say: the classes, the images of one split and the shape to read them at."""

    listing: Listing
    split: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    chosen: tuple[Entry, ...]
    skipped: tuple[Skipped, ...]
    strict: bool

    def without(self, lost: Sequence[Skipped]) -> tuple[Skipped, ...]:
        """All that is left out once `lost` could not be decoded; an error if it is too much."""
        skipped = [*self.skipped, *lost]
        _stop_if_strict(self.listing, skipped, strict=self.strict)
        if len(lost) == len(self.chosen):
            none = f"{self.listing.name}: none of its {len(self.chosen)} {self.split} images can be read."
            raise HitNetError(f"{none} {_first(skipped)}")
        return tuple(skipped)

    def labels(self, entries: Sequence[Entry]) -> npt.NDArray[np.int64]:
        index = {label: k for k, label in enumerate(self.classes)}
        return np.array([index[entry.label] for entry in entries], np.int64)


def survey(
    listing: Listing,
    split: str,
    *,
    limit: int | None = None,
    image_size: tuple[int, int] | None = None,
    strict: bool = False,
) -> Survey:
    """Look at the headers of all files.

    Size, colour and classes come from the whole listing, so that every split has the same.
    """
    skipped = list(listing.skipped)
    with decode.quiet():
        headers = in_threads(_header, listing.entries)
    good = [(entry, h) for entry, h in zip(listing.entries, headers, strict=True) if isinstance(h, decode.Header)]
    skipped += [h for h in headers if isinstance(h, Skipped)]
    good_classes = {entry.label for entry, _ in good}
    lost = sorted({entry.label for entry in listing.entries} - good_classes, key=natural)
    skipped += [Skipped(label, "no image of this class can be read") for label in lost]
    _stop_if_strict(listing, skipped, strict=strict)
    names = tuple(sorted(good_classes, key=natural))
    _need_two_classes(listing, names, skipped)
    shape = _common_shape(listing.name, [h for _, h in good], image_size)
    chosen = [entry for entry, _ in good if split in ("all", entry.split)]
    if not chosen:
        found = ", ".join(sorted({entry.split for entry, _ in good}))
        raise HitNetError(f"{listing.name} has no {split} images; its splits: {found}.")
    drawn = tuple(chosen[i] for i in even_draw([entry.path for entry in chosen], limit))
    return Survey(listing, split, names, shape, drawn, tuple(skipped), strict)


def read_survey(found: Survey) -> Report:
    """Decode the images that a survey chose."""
    with decode.quiet():
        arrays = in_threads(lambda entry: pixels_of(entry, found.shape), found.chosen)
    skipped = found.without([a for a in arrays if isinstance(a, Skipped)])
    kept = [(entry, a) for entry, a in zip(found.chosen, arrays, strict=True) if not isinstance(a, Skipped)]
    entries = [entry for entry, _ in kept]
    images = Images.from_arrays(
        np.stack([pixels for _, pixels in kept]),
        found.labels(entries),
        class_names=found.classes,
        name=found.listing.name,
        paths=[entry.path for entry in entries],
    )
    images = replace(images, ids=torch.tensor([entry.id for entry in entries]))
    return Report(images, skipped, found.listing.ignored)


def thread_count() -> int:
    return min(16, (os.cpu_count() or 1) + 2)


def in_threads(work: Callable[[Entry], T], entries: Sequence[Entry]) -> list[T]:
    """Pillow lets go of the interpreter while it decodes, so threads are enough."""
    with ThreadPoolExecutor(thread_count()) as pool:
        return list(pool.map(work, entries))


def _header(entry: Entry) -> decode.Header | Skipped:
    try:
        return decode.header(entry.file)
    except decode.OddFileError as error:
        return Skipped(entry.path, str(error))


def pixels_of(entry: Entry, shape: tuple[int, int, int]) -> npt.NDArray[np.uint8] | Skipped:
    try:
        return decode.decode(entry.file, shape)
    except decode.OddFileError as error:
        return Skipped(entry.path, str(error))


def _common_shape(name: str, headers: list[decode.Header], image_size: tuple[int, int] | None) -> tuple[int, int, int]:
    channels = 1 if all(h.grey for h in headers) else 3
    sizes = Counter((h.height, h.width) for h in headers)
    # Of sizes that are equally common the largest wins, whatever the order of the files.
    common = max(sizes, key=lambda size: (sizes[size], size))
    scale = min(1.0, LONGEST_SIDE / max(common))
    height, width = image_size or (max(1, round(common[0] * scale)), max(1, round(common[1] * scale)))
    other = sum(count for size, count in sizes.items() if size != (height, width))
    if other:
        log.info(
            "%s: images are read at %d x %d (height x width); %d of %d have another size and are scaled "
            "to fit, centred on black. Set image_size for another.",
            name, height, width, other, len(headers),
        )  # fmt: skip
    return channels, height, width


def _need_two_classes(listing: Listing, names: tuple[str, ...], skipped: list[Skipped]) -> None:
    if not names:
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in sorted(listing.ignored.items()))
        seen = f" Files of other types: {kinds}." if kinds else ""
        raise HitNetError(f"{listing.name} holds no image that can be read.{seen} {_first(skipped)}".rstrip())
    if len(names) == 1:
        raise HitNetError(f"{listing.name} has one class only, {names[0]!r}; at least two are needed.")


def _stop_if_strict(listing: Listing, skipped: list[Skipped], *, strict: bool) -> None:
    if strict and skipped:
        raise HitNetError(f"{listing.name}: {skipped[0].path}: {skipped[0].reason}. Mend or remove it, or drop strict.")


def _first(skipped: list[Skipped]) -> str:
    return f"The first: {skipped[0].path}: {skipped[0].reason}." if skipped else ""
