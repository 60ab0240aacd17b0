"""Pictures of the audited set, and of nothing else: thumbnails and the original files.

A picture is asked for by the number of its image. Its file must lie in the folder of the audited data, or be one that
the data lists, and it must be a picture: no address leads to any other file.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps

from hitnet.audit.rows import Rows
from hitnet.data import Data
from hitnet.data.formats.image_files import FileData
from hitnet.data.reading.copying import leads_out
from hitnet.data.reading.remote import is_remote, join
from hitnet.data.reading.stored import AnyFile, Root
from hitnet.errors import HitNetError

SIDE = 320  # pixels of a thumbnail's longest side: sharp in the grid and in the list on most screens
KEPT_BYTES = 64 * 2**20  # thumbnails in memory
SHOWN_AS_THEY_ARE = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}


class NotReadyError(HitNetError):
    """A picture cannot be had yet, but soon."""


class Picture(NamedTuple):
    """A picture as it is sent."""

    content: bytes
    kind: str


class Pictures:
    """Pictures by row.

    Args:
        data: The audited data; its files are listed when the first picture is asked for.
        rows: The audit.
        split: The audited split.
    """

    def __init__(self, data: Data, rows: Rows, split: str) -> None:
        self.data, self.rows, self.split = data, rows, split
        self._kept: OrderedDict[int, Picture] = OrderedDict()
        self._size, self._lock, self._opening = 0, Lock(), Lock()

    def thumbnail(self, row: int) -> Picture:
        """A small picture; those that were asked for last are kept."""
        with self._lock:
            if row in self._kept:
                self._kept.move_to_end(row)
                return self._kept[row]
        kept = self._small(row)
        with self._lock:
            earlier = self._kept.pop(row, None)  # another thread may have made it meanwhile
            self._kept[row] = kept
            self._size += len(kept.content) - (0 if earlier is None else len(earlier.content))
            while self._size > KEPT_BYTES and len(self._kept) > 1:
                self._size -= len(self._kept.popitem(last=False)[1].content)
        return kept

    def original(self, row: int) -> Picture:
        """The file itself where browsers show its format, else the same picture as PNG."""
        with self._opened(row) as picture:
            if picture.format in SHOWN_AS_THEY_ARE:
                picture.load()  # only what can be decoded is sent
                return Picture(self._file(row).read_bytes(), SHOWN_AS_THEY_ARE[picture.format])
            return _encoded(_plain(ImageOps.exif_transpose(picture)), "png")

    def _small(self, row: int) -> Picture:
        with self._opened(row) as picture:
            picture.draft("RGB", (2 * SIDE, 2 * SIDE))  # JPEG files are decoded at about the size that is needed
            small = ImageOps.exif_transpose(picture)
            small.thumbnail((SIDE, SIDE), Image.Resampling.BILINEAR, reducing_gap=2.0)
            return _encoded(_plain(small), "webp", quality=82)

    @contextmanager
    def _opened(self, row: int) -> Iterator[Image.Image]:
        """The picture of a row; raises HitNetError if there is none, or if it cannot be decoded."""
        try:
            if not self._of_files:
                with self._from_memory(row) as picture:
                    yield picture
                return
            with self._file(row).open("rb") as file, Image.open(file) as picture:
                yield picture
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            if isinstance(error, HitNetError):
                raise
            raise HitNetError(f"Image {self.rows.ids[row]} cannot be shown: {error}") from error

    def _file(self, row: int) -> AnyFile:
        path = self.rows.paths[row]
        if self._lies_inside(path) or path in self._listed_files():
            return join(self._root, path)
        raise HitNetError(f"Image {self.rows.ids[row]} is not in {self.data.name} any more.")

    @property
    def _of_files(self) -> bool:
        return isinstance(self.data, FileData)

    @cached_property
    def _root(self) -> Root:
        """Where paths start."""
        return self.data.root if isinstance(self.data, FileData) else Path()

    def _lies_inside(self, path: str) -> bool:
        """Whether a path stays in the folder of the set, links included; then no list of all files is needed."""
        root = self._root
        if not isinstance(root, Path) or leads_out(path) or is_remote(path):
            return False
        return (root / path).resolve().is_relative_to(root.resolve())

    def _listed_files(self) -> frozenset[str]:
        """The paths of all files of the audited set."""
        with self._one_at_a_time("_listed"):
            return self._listed

    @cached_property
    def _listed(self) -> frozenset[str]:
        return frozenset(self.data.listing.entries.paths) if isinstance(self.data, FileData) else frozenset()

    @contextmanager
    def _one_at_a_time(self, what: str) -> Iterator[None]:
        """One thread computes what is slow; others wait for a second at most, and are then asked to come again.

        If they waited longer, pictures would take all connections of the browser, and nothing else would be answered.
        """
        if what in vars(self):
            yield
            return
        if not self._opening.acquire(timeout=1):
            raise NotReadyError("The files of the set are being listed.")
        try:
            yield
        finally:
            self._opening.release()

    def _from_memory(self, row: int) -> Image.Image:
        with self._one_at_a_time("_loaded"):
            images, places = self._loaded
        place = places.get(int(self.rows.ids[row]))
        if place is None:
            raise HitNetError(f"Image {self.rows.ids[row]} is not in {self.data.name} any more.")
        pixels = images[place].permute(1, 2, 0).numpy()
        return Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels))

    @cached_property
    def _loaded(self) -> tuple[torch.Tensor, dict[int, int]]:
        images = self.data.load(self.split)
        return images.pixels, {number: place for place, number in enumerate(images.ids.tolist())}

    def warm(self) -> None:
        """Load the images before the first picture is asked for, where they do not come from files."""
        if not self._of_files:
            with self._one_at_a_time("_loaded"):
                self._loaded  # noqa: B018


def _plain(picture: Image.Image) -> Image.Image:
    """Grey or RGB, transparent parts white."""
    if picture.mode in ("L", "RGB"):
        return picture
    if picture.mode.startswith(("I", "F")):  # more than 8 bits: what matters is that something can be seen
        values = np.asarray(picture, np.float64)
        spread = max(float(values.max() - values.min()), 1e-9)
        return Image.fromarray(((values - values.min()) * (255 / spread)).astype(np.uint8))
    with_alpha = picture.convert("RGBA")
    white = Image.new("RGBA", with_alpha.size, "white")
    return Image.alpha_composite(white, with_alpha).convert("RGB")


def _encoded(picture: Image.Image, kind: str, **options: int) -> Picture:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return Picture(file.getvalue(), f"image/{kind}")
