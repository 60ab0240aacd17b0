"""Thumbnails: small WebP files, in the best quality in which all of them fit into a budget of bytes."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

# (longest side in pixels, WebP quality), best first. Photographs are readable from about 100 pixels.
LADDER = ((160, 80), (112, 80), (80, 80), (64, 85), (64, 65), (48, 60), (32, 50))
SAMPLE = 64  # images from which the size of all is estimated
SEPARATORS = 16  # bytes around each thumbnail in the page


def make_thumbnails(images: Tensor, rows: Sequence[int], *, budget: int) -> list[str]:
    """The thumbnails of rows of images, uint8 (N, C, H, W), in base64: the best that fit into `budget` bytes.

    If even the coarsest are too large, only the first rows are included.
    """
    longest = max(images.shape[-2:])
    steps = sorted({(min(side, longest), quality) for side, quality in LADDER}, reverse=True)
    some = rows[:: max(1, len(rows) // SAMPLE)]
    for side, quality in steps[:-1]:
        size = size_of([encode(images[row], side, quality) for row in some])
        if size * len(rows) <= 0.95 * budget * len(some):
            made = _first(images, rows, side, quality, budget)
            if len(made) == len(rows):
                return made
    return _first(images, rows, *steps[-1], budget)


def size_of(thumbnails: Sequence[str]) -> int:
    """Bytes of thumbnails in the page."""
    return sum(len(each) + SEPARATORS for each in thumbnails)


def _first(images: Tensor, rows: Sequence[int], side: int, quality: int, budget: int) -> list[str]:
    """The thumbnails of the first rows, as many as fit."""
    made: list[str] = []
    for row in rows:
        made.append(encode(images[row], side, quality))
        budget -= size_of(made[-1:])
        if budget < 0:
            return made[:-1]
    return made


def encode(image: Tensor, side: int, quality: int) -> str:
    """An image (C, H, W) as WebP in base64, with a longest side of at most `side`. Small images keep their size."""
    height, width = image.shape[-2:]
    scale = side / max(height, width, side)
    if scale < 1:
        size = (max(1, round(height * scale)), max(1, round(width * scale)))
        resized = functional.interpolate(image[None].float(), size, mode="bilinear", antialias=True)[0]
        image = resized.round().clamp(0, 255).to(torch.uint8)
    rgb = image.cpu().expand(3, -1, -1).permute(1, 2, 0).contiguous()
    file = io.BytesIO()
    Image.fromarray(rgb.numpy()).save(file, "webp", quality=quality)
    return base64.b64encode(file.getvalue()).decode("ascii")
