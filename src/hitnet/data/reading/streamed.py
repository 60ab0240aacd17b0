"""Labelled images on disk, for sets that are larger than the memory: files are decoded just before they are needed.

A few threads decode a bounded number of images ahead of the training, so that it does not wait for them if they are
fast enough. The images come in the same order and with the same pixels as from memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hitnet.data.reading import decode
from hitnet.data.reading.entries import Entries, Entry, PackedStrings, Skipped
from hitnet.data.reading.stored import AnyFile, UnreadableImageError
from hitnet.errors import HitNetError
from hitnet.runtime.threads import AHEAD, in_threads, thread_count

AHEAD_BYTES = 64 * 2**20  # decoded images that may wait for their turn
Pixels = npt.NDArray[np.uint8]
T = TypeVar("T")


@dataclass(frozen=True)
class Streamed:
    """Labelled images on disk: like `Images`, but `read` decodes the pixels."""

    entries: Entries
    labels: Tensor  # int64 (N,), indices into class_names
    class_names: tuple[str, ...]
    name: str
    shape: tuple[int, int, int]  # (C, H, W) of one image
    fingerprint: str  # the same as that of these images in memory
    flip: bool = False
    crop: bool = False  # see `decode.fit`

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def ids(self) -> Tensor:
        return torch.from_numpy(self.entries.ids)

    @property
    def paths(self) -> PackedStrings:
        return self.entries.paths

    def on_device(self, device: torch.device, *, masks: bool = False) -> Streamed:
        """The set itself: the images stay on disk, and files have no masks."""
        return self

    def read(self, parts: Sequence[Tensor]) -> Iterator[Tensor]:
        """uint8 (B, C, H, W) of the images at each part's indices."""
        entries = (self.entries[i] for part in parts for i in part.tolist())
        arrays = decoded(entries, self.shape, crop=self.crop)
        for part in parts:
            batch = np.empty((len(part), *self.shape), np.uint8)
            for place, pixels in enumerate(islice(arrays, len(part))):
                if isinstance(pixels, Skipped):
                    raise HitNetError(
                        f"{pixels}; it could be read when the training began. Put it back and resume the training."
                    )
                batch[place] = pixels
            yield torch.from_numpy(batch)


def decoded(entries: Iterable[Entry], shape: tuple[int, int, int], *, crop: bool = False) -> Iterator[Pixels | Skipped]:
    """The pixels of files in their order, decoded by threads that stay at most AHEAD images and AHEAD_BYTES ahead."""
    ahead = max(2 * thread_count(), min(AHEAD, AHEAD_BYTES // math.prod(shape)))
    return in_threads(lambda entry: pixels_of(entry, shape, crop=crop), entries, ahead=ahead)


def pixels_of(entry: Entry, shape: tuple[int, int, int], *, crop: bool = False) -> Pixels | Skipped:
    """The picture as (C, H, W), or why it cannot be decoded."""
    return tried(entry, lambda file: decode.decode(file, shape, crop=crop))


def tried(entry: Entry, read: Callable[[AnyFile], T]) -> T | Skipped:
    """What `read` gives, or why it cannot."""
    try:
        return read(entry.file)
    except UnreadableImageError as error:
        return Skipped(entry.path, str(error))
