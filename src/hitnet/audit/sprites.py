"""Sheets of thumbnails: many small images as a few WebP files, in the best quality that fits a budget of bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

COLUMNS = 16
SHEET = 256  # thumbnails per sheet

# WebP encodes blocks of 16 x 16 pixels: with cells of whole blocks, an image does not blur into its neighbour.
BLOCK = 16

# (longest side in pixels, WebP quality), best first. Photographs are readable from about 100 pixels.
LADDER = ((160, 80), (112, 80), (80, 80), (64, 85), (64, 65), (48, 60), (32, 50))

Thumbnails = Callable[[Sequence[int]], Tensor]


@dataclass(frozen=True)
class Sprites:
    """Thumbnails on sheets, row by row.

    Attributes:
        sheets: WebP files in base64.
        count: Number of thumbnails.
        width: Width of a thumbnail in pixels.
        height: Height of a thumbnail in pixels.
    """

    sheets: tuple[str, ...]
    count: int
    width: int
    height: int

    @property
    def size(self) -> int:
        """Bytes of the sheets in the page."""
        return sum(map(len, self.sheets))

    def layout(self) -> dict[str, int]:
        """The sizes that the page's script needs to find a thumbnail."""
        return {
            "width": self.width,
            "height": self.height,
            "cell_width": _whole_blocks(self.width),
            "cell_height": _whole_blocks(self.height),
            "columns": COLUMNS,
            "sheet": SHEET,
        }


def make_sprites(thumbnails: Thumbnails, count: int, *, budget: int) -> Sprites:
    """Make the best sheets of images 0..count-1 that fit into `budget` bytes.

    If even the coarsest sheets are too large, only the first images are included: see `Sprites.count`.

    Args:
        thumbnails: Returns the uint8 images (n, C, H, W) at n indices.
        count: Number of images.
        budget: Largest size in bytes.
    """
    sample = thumbnails(list(range(0, count, max(1, count // SHEET)))[:SHEET])
    longest = max(sample.shape[-2:])
    steps = sorted({(min(side, longest), quality) for side, quality in LADDER}, reverse=True)
    for side, quality in steps[:-1]:
        sheet, _, _ = _encode(sample, side, quality)
        if len(sheet) * count / max(1, len(sample)) <= 0.95 * budget:
            sprites = _fill(thumbnails, count, side, quality, budget)
            if sprites.count == count:
                return sprites
    return _fill(thumbnails, count, *steps[-1], budget)


def _fill(thumbnails: Thumbnails, count: int, side: int, quality: int, budget: int) -> Sprites:
    sheets: list[str] = []
    included = width = height = 0
    for start in range(0, count, SHEET):
        indices = range(start, min(start + SHEET, count))
        sheet, width, height = _encode(thumbnails(list(indices)), side, quality)
        budget -= len(sheet)
        if budget < 0:
            break
        sheets.append(sheet)
        included += len(indices)
    return Sprites(tuple(sheets), included, width, height)


def _encode(images: Tensor, side: int, quality: int) -> tuple[str, int, int]:
    """A sheet in base64, and the width and height of a thumbnail."""
    tiles = _shrink(images, side)
    n, height, width, _ = tiles.shape
    cell_height, cell_width = _whole_blocks(height), _whole_blocks(width)
    margins = ((0, 0), (0, cell_height - height), (0, cell_width - width), (0, 0))
    cells = np.pad(tiles, margins, mode="edge")
    rows = -(-n // COLUMNS)
    sheet = np.zeros((rows * COLUMNS, cell_height, cell_width, 3), np.uint8)
    sheet[:n] = cells
    sheet = sheet.reshape(rows, COLUMNS, cell_height, cell_width, 3).swapaxes(1, 2)
    picture = Image.fromarray(sheet.reshape(rows * cell_height, COLUMNS * cell_width, 3))
    file = io.BytesIO()
    picture.save(file, "webp", quality=quality)
    return base64.b64encode(file.getvalue()).decode("ascii"), width, height


def _shrink(images: Tensor, side: int) -> np.ndarray:
    """Shrink images to a longest side of at most `side`: RGB (n, H, W, 3). Small images keep their size."""
    height, width = images.shape[-2:]
    scale = side / max(height, width, side)
    if scale < 1:
        size = (max(1, round(height * scale)), max(1, round(width * scale)))
        resized = functional.interpolate(images.float(), size, mode="bilinear", antialias=True)
        images = resized.round().clamp(0, 255).to(torch.uint8)
    rgb = images.cpu().expand(-1, 3, -1, -1)
    return np.ascontiguousarray(rgb.permute(0, 2, 3, 1).numpy())


def _whole_blocks(length: int) -> int:
    return -(-length // BLOCK) * BLOCK
