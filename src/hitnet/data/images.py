"""Labelled images, in memory or, for sets that are larger than the memory, on disk.

Threads decode files a bounded number of images ahead of the training; the images come in the same order and with the
same pixels as from memory. A training may keep what it has decoded (see `reading.pixel_store`).
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor

from hitnet.data.reading import decode
from hitnet.data.reading.decode import Pixels as Pixels
from hitnet.data.reading.entries import Checksums, Entries, Entry, PackedStrings, Skipped
from hitnet.data.reading.pixel_store import PixelFile, PixelStore
from hitnet.data.reading.stored import AnyFile, UnreadableImageError, file_key
from hitnet.data.split import check_limit
from hitnet.errors import HitNetError, one_line
from hitnet.runtime.threads import AHEAD, in_threads, thread_count

LABELS = ("label", "labels", "class", "target", "category")  # names of a column of labels
NO_LABEL = "-1"  # as in datasets of Hugging Face, torchvision and scikit-learn
UNLABELLED = "it has no label (empty or -1)"
WHOLE_NUMBER = re.compile(r"(-?[0-9]+)\.0+")
AHEAD_BYTES = 64 * 2**20  # decoded images that may wait for their turn
T = TypeVar("T")


def label_name(label: object) -> str | None:
    """The class that a label names; None if there is none: nothing, not a number, an empty text, or -1.

    A whole number has no decimal point, also in text: pandas writes 2 as "2.0" if another cell of the column is empty.
    """
    if label is None or label != label:
        return None
    text = str(label).strip()
    name = WHOLE_NUMBER.sub(r"\1", text) if WHOLE_NUMBER.fullmatch(text) else text
    return None if name in ("", NO_LABEL) else name


@dataclass(frozen=True, repr=False)
class Images:
    """Labelled images in memory.

    Attributes:
        pixels: uint8 (N, C, H, W), C = 1 (grey) or 3 (RGB).
        labels: int64 (N,), indices into class_names.
        class_names: One name per class.
        name: What to call the set in tables.
        ids: int64 (N,), 0-based index in the set's original order.
        paths: The file of each image, for sets that are made of files.
        flip: Whether a mirrored image still belongs to its class (not so for digits).
        masks: uint8 (N, 1, H, W), where known: 0 on the background, anything else on the object.
    """

    pixels: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    name: str
    ids: Tensor
    paths: tuple[str, ...] | None = None
    flip: bool = False
    masks: Tensor | None = None
    checksums: ClassVar[None] = None  # those of files; see `Streamed`

    def __post_init__(self) -> None:
        p, y = self.pixels, self.labels
        if p.dtype != torch.uint8 or p.ndim != 4 or p.shape[1] not in (1, 3):
            raise HitNetError(f"{self.name}: images must be uint8 (N, 1 or 3, H, W); got {p.dtype} {tuple(p.shape)}.")
        if y.shape != (len(p),) or self.ids.shape != (len(p),):
            raise HitNetError(f"{self.name}: {len(p)} images but {len(y)} labels and {len(self.ids)} ids.")
        if self.paths is not None and len(self.paths) != len(p):
            raise HitNetError(f"{self.name}: {len(p)} images but {len(self.paths)} paths.")
        m, fitting = self.masks, (len(p), 1, *p.shape[2:])
        if m is not None and (m.dtype != torch.uint8 or m.shape != fitting):
            raise HitNetError(f"{self.name}: masks must be uint8 of shape {fitting}; got {m.dtype} {tuple(m.shape)}.")
        low, high = (int(y.min()), int(y.max())) if len(y) else (0, -1)
        if low < 0 or high >= self.num_classes:
            raise HitNetError(f"{self.name}: labels run from {low} to {high} but there are {self.num_classes} classes.")

    @classmethod
    def from_arrays(
        cls,
        pixels: np.ndarray | Tensor,
        labels: np.ndarray | Tensor | Sequence[int],
        *,
        class_names: Sequence[str] | None = None,
        name: str = "arrays",
        paths: Sequence[str] | None = None,
        flip: bool = False,
    ) -> Images:
        """Build a set from uint8 images (N, H, W), (N, H, W, C) or (N, C, H, W), and integer labels (N,)."""
        p, y = (  # torch takes no arrays that are read backwards, e.g. BGR as RGB
            torch.as_tensor(np.ascontiguousarray(each) if isinstance(each, np.ndarray) else each)
            for each in (pixels, labels)
        )
        if p.dtype != torch.uint8:
            raise HitNetError(f"{name}: images must be uint8 in 0..255; got {p.dtype}. Scale them to 0..255 and round.")
        if y.is_floating_point() or y.dtype == torch.bool:
            raise HitNetError(f"{name}: labels must be whole numbers; got {y.dtype}.")
        if p.ndim == 3:
            p = p[:, None]
        elif p.ndim == 4 and p.shape[1] not in (1, 3) and p.shape[-1] in (1, 3):
            p = p.permute(0, 3, 1, 2)
        y = y.long()
        count = int(y.max()) + 1 if len(y) else 0
        names = tuple(class_names) if class_names is not None else tuple(str(k) for k in range(count))
        files = tuple(paths) if paths is not None else None
        return cls(p.contiguous(), y, names, name, torch.arange(len(p)), files, flip)

    def __repr__(self) -> str:
        return f"<Images: {self.name}, {len(self):,} of shape {self.shape} in {self.num_classes} classes>"

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def fingerprint(self) -> str:
        """A short hash of pixels, labels and masks: the same for the same images under the same labels."""
        digest = hashlib.blake2b(digest_size=8)
        for tensor in (self.pixels, self.labels, self.masks):
            if tensor is not None:
                digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()

    @property
    def known_pixels(self) -> Tensor:
        """The pixels where they are in memory; else black ones that take none."""
        return self.pixels

    def on_device(self, device: torch.device, *, masks: bool = False) -> Tensor:
        """The pixels on a device; with `masks`, the masks follow as a last channel, where they are known."""
        if masks and self.masks is not None:
            return torch.cat([self.pixels, self.masks], dim=1).to(device)
        return self.pixels.to(device)

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image."""
        _, c, h, w = self.pixels.shape
        return c, h, w

    def select(self, index: Tensor | Sequence[int]) -> Images:
        """The images at `index`, in that order; their ids stay those of the original set."""
        i = torch.as_tensor(index, dtype=torch.long)
        paths = None if self.paths is None else tuple(self.paths[j] for j in i.tolist())
        masks = None if self.masks is None else self.masks[i]
        return replace(self, pixels=self.pixels[i], labels=self.labels[i], ids=self.ids[i], paths=paths, masks=masks)

    def in_memory(self) -> Images:
        return self

    def first(self, limit: int | None) -> Images:
        """The first `limit` images, or all of them."""
        check_limit(limit)
        return self if limit is None or limit >= len(self) else self.select(range(limit))

    def with_labels(self, labels: Tensor) -> Images:
        """The same images under other labels."""
        return replace(self, labels=labels.long())


@dataclass(frozen=True)
class Streamed:
    """Labelled images on disk: like `Images`, but `read` decodes the pixels."""

    entries: Entries
    labels: Tensor  # int64 (N,), indices into class_names
    class_names: tuple[str, ...]
    name: str
    shape: tuple[int, int, int]  # (C, H, W) of one image
    fingerprint: str  # that of the whole set in memory; where only files were looked at, of their bytes and labels
    flip: bool = False
    crop: bool = False  # see `decode.fit`
    store: PixelStore | None = field(default=None, compare=False)  # what `read` has decoded before

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

    @property
    def checksums(self) -> Checksums | None:
        """Those of the files' bytes (N,), once a pass has read them."""
        return self.entries.checksums

    @property
    def known_pixels(self) -> Tensor:
        return torch.zeros(self.shape, dtype=torch.uint8).expand(len(self), -1, -1, -1)

    def on_device(self, device: torch.device, *, masks: bool = False) -> Streamed:
        """The set itself: the images stay on disk, and files have no masks."""
        return self

    def select(self, index: Tensor | Sequence[int]) -> Streamed:
        """The images at `index`, in that order."""
        i = torch.as_tensor(index, dtype=torch.long)
        return replace(self, entries=self.entries.take(i.numpy()), labels=self.labels[i], store=None)

    def stored_in(self, file: PixelFile) -> Streamed:
        """The same images, whose pixels are kept in a file once they are decoded."""
        return replace(self, store=file.store(len(self), self.shape))

    def in_memory(self) -> Images:
        """The same images with their pixels."""
        [pixels] = self.read([torch.arange(len(self))])
        return Images(pixels, self.labels, self.class_names, self.name, self.ids, tuple(self.paths), self.flip)

    def read(self, parts: Sequence[Tensor]) -> Iterator[Tensor]:
        """uint8 (B, C, H, W) of the images at each part's indices."""
        arrays = in_threads(self._pixels, chain.from_iterable(map(Tensor.tolist, parts)), ahead=ahead_of(self.shape))
        for part in parts:
            batch = np.empty((len(part), *self.shape), np.uint8)
            for place, pixels in enumerate(islice(arrays, len(part))):
                if isinstance(pixels, Skipped):
                    raise HitNetError(f"{pixels}; it could be read before. Put it back, and continue with `resume`.")
                batch[place] = pixels
            yield torch.from_numpy(batch)

    def _pixels(self, place: int) -> Pixels | Skipped:
        def read() -> Pixels | Skipped:
            return tried(self.entries[place], lambda file: self._decode(file, place))

        return read() if self.store is None else self.store.get(place, read)

    def _decode(self, file: AnyFile, place: int) -> Pixels:
        """The pixels of a file; its bytes must be those that an earlier pass has read, if any has."""
        if self.checksums is not None:
            file = decode.fetched(file)
            if file_key(file) != self.checksums[place].tobytes():
                raise HitNetError(
                    f"{self.name}: {one_line(self.paths[place])} has changed since it was first read. Put it back and "
                    "continue with `resume`, or start again."
                )
        return decode.decode(file, self.shape, crop=self.crop)


def ahead_of(shape: tuple[int, int, int]) -> int:
    """How many images threads may decode before they are asked for: at most AHEAD, and AHEAD_BYTES of pixels."""
    return max(2 * thread_count(), min(AHEAD, AHEAD_BYTES // math.prod(shape)))


def pixels_of(entry: Entry, shape: tuple[int, int, int], *, crop: bool = False) -> Pixels | Skipped:
    """The picture as (C, H, W), or why it cannot be decoded."""
    return tried(entry, lambda file: decode.decode(file, shape, crop=crop))


def tried(entry: Entry, read: Callable[[AnyFile], T]) -> T | Skipped:
    """What `read` gives, or why it cannot."""
    try:
        return read(entry.file)
    except UnreadableImageError as error:
        return Skipped(entry.path, str(error))
