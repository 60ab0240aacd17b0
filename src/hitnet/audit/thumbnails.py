"""Small pictures inside a page: as good as the page has room for."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from contextlib import suppress

from PIL import Image
from torch import Tensor

from hitnet.audit.rows import Rows
from hitnet.data.reading.decode import shrunk
from hitnet.data.reading.pictures import PictureReader, pixel_picture
from hitnet.errors import HitNetError
from hitnet.runtime.threads import in_threads

# (longest side in pixels, WebP quality), best first. Photographs are readable from about 100 pixels.
LADDER = (
    *((320, 75), (224, 75), (160, 80), (112, 80), (80, 80)),
    *((64, 85), (64, 65), (48, 60), (32, 50)),
)
SAMPLE = 64  # pictures from which the size of all is estimated
SEPARATORS = 16  # bytes around each thumbnail in the page
AHEAD = 256  # thumbnails that threads make before they are asked for
Show = Callable[[int, int], Image.Image]  # the picture of a row, and the longest side that it may have


def show_pixels(images: Tensor) -> Show:
    """Pictures of uint8 images (N, C, H, W)."""
    return lambda row, side: pixel_picture(images[row].cpu(), side)


def show_files(read: PictureReader, rows: Rows, otherwise: Show) -> Show:
    """Pictures of the rows' files, which may be larger than the judged images; of those where a file is gone."""

    def show(row: int, side: int) -> Image.Image:
        with suppress(HitNetError):
            return read(int(rows.ids[row]), rows.paths[row], side)
        return otherwise(row, side)

    return show


def make_thumbnails(show: Show, rows: Sequence[int], *, budget: int) -> list[str]:
    """The thumbnails of rows in base64: the best that fit into `budget` bytes.

    If even the coarsest are too large, only the first rows are included.
    """
    some = [show(row, LADDER[0][0]) for row in rows[:: max(1, len(rows) // SAMPLE)]]
    longest = max((side for picture in some for side in picture.size), default=1)
    steps = sorted({(min(side, longest), quality) for side, quality in LADDER}, reverse=True)
    for side, quality in steps[:-1]:
        size = size_of([encode(picture.copy(), side, quality) for picture in some])
        if size * len(rows) <= 0.95 * budget * len(some):
            made = _first(show, rows, side, quality, budget)
            if len(made) == len(rows):
                return made
    return _first(show, rows, *steps[-1], budget)


def size_of(thumbnails: Sequence[str]) -> int:
    """Bytes of thumbnails in the page."""
    return sum(len(each) + SEPARATORS for each in thumbnails)


def _first(show: Show, rows: Sequence[int], side: int, quality: int, budget: int) -> list[str]:
    """The thumbnails of the first rows, as many as fit."""
    made: list[str] = []
    for thumbnail in in_threads(lambda row: encode(show(row, side), side, quality), rows, ahead=AHEAD):
        budget -= size_of([thumbnail])
        if budget < 0:
            break
        made.append(thumbnail)
    return made


def encode(picture: Image.Image, side: int, quality: int) -> str:
    """A picture as WebP in base64, with a longest side of at most `side`. Small pictures keep their size."""
    file = io.BytesIO()
    shrunk(picture, side).save(file, "webp", quality=quality)
    return base64.b64encode(file.getvalue()).decode("ascii")
