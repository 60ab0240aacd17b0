"""Augmentation of a batch: shifts as in the paper; mirroring, cutout, linear maps and inversion for other images.

All random numbers of an epoch are drawn in advance (`draw`), so that the epoch can be repeated exactly on any device.
`augment` draws nothing.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.training.recipes import Fill, Recipe


def draw(recipe: Recipe, count: int, size: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Draw random numbers for `count` images of `size` (H, W): int32 (count, 5), (count, 10) or (count, 12).

    Columns: dy, dx, mirrored, row and column of the cutout's centre; with any linear map or invert also inverted
    and the entries of the map, in thousandths of `warp`; with rotate or scale also these, in thousandths of both.
    """
    limits = [(-recipe.shift, recipe.shift)] * 2 + [(0, 1), (0, size[0] - 1), (0, size[1] - 1)]
    if recipe.warp or recipe.invert or recipe.rotate or recipe.scale:
        limits += [(0, 1)] + [(-1000, 1000)] * 4
    if recipe.rotate or recipe.scale:
        limits += [(-1000, 1000)] * 2
    draws = torch.empty(count, len(limits), dtype=torch.int32)  # kept for a whole epoch
    for column, (low, high) in zip(draws.unbind(dim=1), limits, strict=True):
        column.copy_(torch.randint(low, high + 1, (count,), generator=generator))
    return draws


def augment(recipe: Recipe, pixels: Tensor, draws: Tensor, *, channels: int | None = None) -> Tensor:
    """Augment pixels (B, C, H, W) from 0 to 255 as a recipe and their rows of `draw` say.

    Places that no pixel moves to become 0, or as `shift_fill` says. The first `channels` are the picture (None: all);
    the others (masks) are moved but not inverted.
    """
    if recipe.invert:
        pixels = invert(pixels, draws[:, 5], channels=pixels.shape[1] if channels is None else channels)
    if recipe.warp:
        pixels = warp(pixels, draws[:, 6:10] * (recipe.warp / 1000))
    if recipe.rotate or recipe.scale:
        angle, larger = draws[:, 10] * (math.radians(recipe.rotate) / 1000), draws[:, 11] * (recipe.scale / 1000)
        pixels = warp(pixels, turned(angle, 1 + larger))
    if recipe.shift:
        pixels = shift(pixels, draws[:, 0], draws[:, 1], most=recipe.shift, fill=recipe.shift_fill)
    if recipe.flip:
        pixels = torch.where(draws[:, 2, None, None, None].bool(), pixels.flip(-1), pixels)
    if recipe.cutout:
        pixels = cutout(pixels, draws[:, 3], draws[:, 4], side=recipe.cutout)
    return pixels


def shift(pixels: Tensor, dy: Tensor, dx: Tensor, *, most: int, fill: Fill = "zeros") -> Tensor:
    """Move each image (B, C, H, W) down by dy and right by dx (B,), negative for up and left.

    No image moves by more than `most`: each result is a window of the image with a border of `most` pixels. The border
    is filled with zeros, or with the nearest pixel of the image.
    """
    batch, _, height, width = pixels.shape
    if fill == "zeros":
        bordered = F.pad(pixels, (most, most, most, most))
    else:  # F.pad would do this too, but not for whole numbers
        rows, columns = (
            torch.arange(-most, size + most, device=pixels.device).clamp_(0, size - 1) for size in (height, width)
        )
        bordered = pixels[:, :, rows[:, None], columns]
    windows = bordered.unfold(2, height, 1).unfold(3, width, 1)
    return windows.permute(0, 2, 3, 1, 4, 5)[torch.arange(batch, device=pixels.device), most - dy, most - dx]


def invert(pixels: Tensor, chosen: Tensor, *, channels: int) -> Tensor:
    """Invert the first `channels` channels of the chosen (B,) images (B, C, H, W); leave the others as they are."""
    picture = torch.where(chosen.bool()[:, None, None, None], 255 - pixels[:, :channels], pixels[:, :channels])
    return torch.cat([picture, pixels[:, channels:]], dim=1)


def warp(pixels: Tensor, entries: Tensor) -> Tensor:
    """Apply a linear map to each image (B, C, H, W): the new pixel at p, counted from the middle, was at p + M p.

    `entries` (B, 4) are those of each M, row by row, acting on (x, y). Values between pixels are interpolated.
    """
    height, width = pixels.shape[-2:]
    y = (torch.arange(height, device=pixels.device) - (height - 1) / 2)[:, None]
    x = (torch.arange(width, device=pixels.device) - (width - 1) / 2)[None, :]
    xx, xy, yx, yy = entries[:, :, None, None].unbind(dim=1)
    # grid_sample counts from -1 at the left and upper edges to 1 at the right and lower edges.
    grid = torch.stack([(x + xx * x + xy * y) * (2 / width), (y + yx * x + yy * y) * (2 / height)], dim=-1)
    moved = F.grid_sample(pixels.float(), grid, align_corners=False)
    return moved if pixels.is_floating_point() else moved.round().to(pixels.dtype)


def turned(angle: Tensor, size: Tensor) -> Tensor:
    """The entries (B, 4) for `warp` that turn images by an angle (B,) and make them `size` (B,) times as large.

    Angles are in radians, clockwise as the image is seen.
    """
    cosine, sine = angle.cos() / size, angle.sin() / size
    return torch.stack([cosine - 1, sine, -sine, cosine - 1], dim=1)


def cutout(pixels: Tensor, row: Tensor, column: Tensor, *, side: int) -> Tensor:
    """Set a square of `side` pixels around (row, column) to 0, cut off at the border."""
    height, width = pixels.shape[-2:]
    low = side // 2

    def covered(size: int, centre: Tensor) -> Tensor:
        offset = torch.arange(size, device=pixels.device) - (centre[:, None] - low)
        return (offset >= 0) & (offset < side)

    hole = covered(height, row)[:, :, None] & covered(width, column)[:, None, :]
    return pixels * (~hole)[:, None].to(pixels.dtype)
