"""One image file as a backbone sees it: the square middle, upright and in colour.

The shorter side is scaled to the backbone's size and the middle of the longer one is kept. On photographs of clothes,
that finds more wrong labels than the whole picture squeezed into a square, or centred on black.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hitnet.data.reading.decode import decode, header
from hitnet.data.reading.stored import AnyFile, UnreadableImageError, as_file
from hitnet.errors import HitNetError

LONGEST = 16  # times the shorter side: a picture that is thinner is scaled to this and centred on black


def shape_at(height: int, width: int, size: int) -> tuple[int, int]:
    """Height and width of a picture whose shorter side is scaled to `size`."""
    scale = size / min(height, width)
    longest = LONGEST * size
    return min(max(size, round(height * scale)), longest), min(max(size, round(width * scale)), longest)


def read(path: str | AnyFile, size: int) -> npt.NDArray[np.uint8]:
    """The middle of a picture, uint8 (3, size, size)."""
    try:
        head = header(as_file(path))
        height, width = shape_at(head.height, head.width, size)
        picture = decode(as_file(path), (3, height, width))
    except UnreadableImageError as error:
        raise HitNetError(f"{path}: {error}.") from error
    top, left = (height - size) // 2, (width - size) // 2
    return picture[:, top : top + size, left : left + size]
