"""Pictures of the audited set as they are sent to the page: thumbnails, which are kept, and larger ones to zoom into.

A picture is asked for by the number of its image; the opened data finds and decodes it, as it does for the judges.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from PIL import Image

from hitnet.audit.rows import Rows
from hitnet.data import Data

SIDE = 320  # pixels of a thumbnail's longest side: sharp in the grid and in the list on most screens
LARGE_SIDE = 4096  # pixels of the longest side of a picture to zoom into
EXACT = 512 * 512  # pixels up to which that is sent without loss
KEPT_BYTES = 64 * 2**20  # thumbnails in memory


class Picture(NamedTuple):
    """A picture as it is sent."""

    content: bytes
    kind: str


class Pictures:
    """Pictures of the audited split of the data, by row."""

    def __init__(self, data: Data, rows: Rows, split: str) -> None:
        self.read, self.rows = data.pictures(split), rows
        self._kept: OrderedDict[int, Picture] = OrderedDict()
        self._size, self._lock = 0, Lock()

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
        """The picture at its own size, where that is not too large to send."""
        picture = self._picture(row, LARGE_SIDE)
        if picture.width * picture.height <= EXACT:
            return _encoded(picture, "png")
        return _encoded(picture, "jpeg", quality=92)

    def _small(self, row: int) -> Picture:
        return _encoded(self._picture(row, SIDE), "webp", quality=82)

    def _picture(self, row: int, longest_side: int) -> Image.Image:
        return self.read(int(self.rows.ids[row]), self.rows.paths[row], longest_side)

    def warm(self) -> None:
        """Do what the first picture would otherwise wait for, such as loading images that are not in files."""
        self.thumbnail(0)


def _encoded(picture: Image.Image, kind: str, **options: int) -> Picture:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return Picture(file.getvalue(), f"image/{kind}")
