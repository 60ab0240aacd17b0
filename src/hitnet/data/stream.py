"""Sets of image files that are larger than the memory: files are decoded just before they are wanted.

A few threads stay a bounded number of images ahead of the training, which therefore never waits where they are fast
enough. What comes is the same, in the same order, as if all images lay in memory.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hitnet.data.entries import Entries, Entry
from hitnet.data.images import Images
from hitnet.data.listing import AHEAD, Skipped, Survey, in_threads, pixels_of, read_survey, survey, thread_count
from hitnet.data.load import Size, Source, exact_size, find_listing, load, tell_left_out
from hitnet.data.split import check_limit, check_split
from hitnet.errors import HitNetError

log = logging.getLogger("hitnet")
AHEAD_BYTES = 64 * 2**20  # decoded images that may wait for their turn
Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Streamed:
    """Labelled images on disk: as `Images`, but for the pixels, which `read` decodes."""

    entries: Entries
    labels: Tensor
    class_names: tuple[str, ...]
    name: str
    shape: tuple[int, int, int]
    fingerprint: str  # of pixels and labels, as that of the same images in memory
    flip: bool = False

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    def read(self, parts: Sequence[Tensor]) -> Iterator[Tensor]:
        """uint8 (B, C, H, W) of the images at each part's indices."""
        entries = (self.entries[i] for part in parts for i in part.tolist())
        arrays = decoded(entries, self.shape)
        for part in parts:
            batch = np.empty((len(part), *self.shape), np.uint8)
            for place, found in enumerate(islice(arrays, len(part))):
                if isinstance(found, Skipped):
                    raise HitNetError(
                        f"{found.path}: {found.reason}; it could be read when the training began. Put it back and "
                        "go on with --resume."
                    )
                batch[place] = found
            yield torch.from_numpy(batch)


ImageSet = Images | Streamed


def decoded(entries: Iterable[Entry], shape: tuple[int, int, int]) -> Iterator[Pixels | Skipped]:
    """The pixels of files in their order, decoded by threads that stay AHEAD and AHEAD_BYTES ahead at most."""
    ahead = max(2 * thread_count(), min(AHEAD, AHEAD_BYTES // math.prod(shape)))
    return in_threads(lambda entry: pixels_of(entry, shape), entries, ahead=ahead)


def open_images(
    source: Source,
    splits: Sequence[str],
    *,
    stream: bool | None,
    room: Callable[[], int],
    limit: int | None = None,
    data_dir: str | Path | None = None,
    image_size: Size | None = None,
    strict: bool = False,
) -> list[ImageSet]:
    """The images of each split, as `load` gives them, or streamed: if `stream` says so or, where it is None, if they
    would take more than `room` bytes of memory.

    The limit is the first split's. Headers of files are looked at once for all splits.
    """
    for split in splits:
        check_split(split)
    check_limit(limit)
    listing, size = find_listing(source), exact_size(image_size)
    first, *others = splits
    if listing is None:
        if stream:
            raise HitNetError("Only a folder or a table of image files can be streamed; leave out --stream.")
        limits = [limit, *(None for _ in others)]
        return [
            load(source, split, limit=most, data_dir=data_dir, image_size=size, strict=strict)
            for split, most in zip(splits, limits, strict=True)
        ]
    found = survey(listing, first, limit=limit, image_size=size, strict=strict)
    surveys = [found, *(found.other(split) for split in others)]
    return [open_survey(one, stream=stream, room=room()) for one in surveys]


def open_survey(found: Survey, *, stream: bool | None, room: int) -> ImageSet:
    """The images that a survey chose, in memory or streamed, as `open_images` decides."""
    listing, split = found.listing, found.split
    size = len(found.chosen) * math.prod(found.shape)
    if stream is None and size > room:
        log.info(
            "%s: %d %s images would take %.1f GB of memory and are read from disk as training goes (--no-stream: keep "
            "them in memory).",
            listing.name,
            len(found.chosen),
            split,
            size / 1e9,
        )
        stream = True
    if stream:
        return open_stream(found)
    report = read_survey(found)
    tell_left_out(listing.name, report.skipped, report.ignored)
    return report.images


def open_stream(found: Survey) -> Streamed:
    """Read all files of a survey once: to know which can be decoded, and for the fingerprint."""
    digest = hashlib.blake2b(digest_size=8)
    kept, lost = np.ones(len(found.chosen), np.bool_), []
    for i, pixels in enumerate(decoded(found.chosen, found.shape)):
        if isinstance(pixels, Skipped):
            lost.append(pixels)
            kept[i] = False
        else:
            digest.update(pixels.tobytes())
    tell_left_out(found.listing.name, found.without(lost), found.listing.ignored)
    entries = found.chosen.take(kept) if lost else found.chosen
    labels = found.labels(entries)
    digest.update(labels.tobytes())
    return Streamed(
        entries, torch.from_numpy(labels), found.classes, found.listing.name, found.shape, digest.hexdigest()
    )
