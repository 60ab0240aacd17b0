"""Pictures of the audited set as they are sent to the page: thumbnails, which are kept, and larger ones to zoom into.

A picture is asked for by the number of its image; the opened data finds and decodes it, as it does for the judges.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import NamedTuple

from PIL import Image

from hitnet.audit.rows import Rows
from hitnet.data import Data

SIDE = 320  # pixels of a thumbnail's longest side: sharp in the grid and in the list on most screens
LARGE_SIDE = 4096  # pixels of the longest side of a picture to zoom into
EXACT = 512 * 512  # pixels up to which that is sent without loss
KEPT = 2000  # thumbnails in memory, of about 10 kB each


class Picture(NamedTuple):
    """A picture as it is sent."""

    content: bytes
    kind: str


class Pictures:
    """Pictures of the audited split of the data, by row; thumbnails that were asked for last are kept."""

    def __init__(self, data: Data, rows: Rows, split: str) -> None:
        self.read, self.rows = data.pictures(split), rows
        self.thumbnail = lru_cache(KEPT)(lambda row: _encoded(self._picture(row, SIDE), "webp", quality=82))

    def original(self, row: int) -> Picture:
        """The picture at its own size, where that is not too large to send."""
        picture = self._picture(row, LARGE_SIDE)
        if picture.width * picture.height <= EXACT:
            return _encoded(picture, "png")
        return _encoded(picture, "jpeg", quality=92)

    def _picture(self, row: int, longest_side: int) -> Image.Image:
        return self.read(int(self.rows.ids[row]), self.rows.paths[row], longest_side)


def _encoded(picture: Image.Image, kind: str, **options: int) -> Picture:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return Picture(file.getvalue(), f"image/{kind}")
