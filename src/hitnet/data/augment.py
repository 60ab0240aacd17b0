"""Augmentation of a batch: shifts as in the paper; mirroring, cutout, warping and inversion for other pictures.

What is random is drawn for a whole epoch in advance (`draw`), so that an epoch can be repeated exactly on any
device; `apply` then works on the batch with no randomness of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.errors import HitNetError


@dataclass(frozen=True)
class Augmentation:
    """What is done to each image, with zeros where nothing of it comes to lie.

    shift   up to so many pixels in each direction (paper: 2)
    flip    half of the images are mirrored
    cutout  side of a square that is set to 0
    warp    a linear map about the middle of the image, whose matrix differs from the identity by up to this much in
            each of its four entries: rotation, scaling and shear at once
    invert  half of the images are turned into their negatives
    """

    shift: int = 2
    flip: bool = False
    cutout: int = 0
    warp: float = 0.0
    invert: bool = False

    def __post_init__(self) -> None:
        if self.shift < 0 or self.cutout < 0 or self.warp < 0:
            raise HitNetError(
                f"shift, cutout and warp must not be negative; got {self.shift}, {self.cutout} and {self.warp}."
            )

    def draw(self, count: int, size: tuple[int, int], generator: torch.Generator) -> Tensor:
        """Random numbers for `count` images of `size` (H, W), each drawn on its own: int32 (count, 5), or (count, 10).

        Columns: dy, dx, mirrored, row and column of the cutout's centre; with warp or invert also inverted and the
        entries of the linear map, in thousandths of `warp`.
        """
        limits = [(-self.shift, self.shift)] * 2 + [(0, 1), (0, size[0] - 1), (0, size[1] - 1)]
        if self.warp or self.invert:
            limits += [(0, 1)] + [(-1000, 1000)] * 4
        draws = torch.empty(count, len(limits), dtype=torch.int32)  # an epoch's stay in memory, however many images
        for column, (low, high) in zip(draws.unbind(dim=1), limits, strict=True):
            column.copy_(torch.randint(low, high + 1, (count,), generator=generator))
        return draws

    def apply(self, pixels: Tensor, draws: Tensor, *, channels: int | None = None) -> Tensor:
        """Images (B, C, H, W) with values from 0 to 255 and their draws → augmented images.

        channels  so many of them are the picture, if not all; those behind it (masks) are moved with it, not inverted
        """
        if self.invert:
            pixels = invert(pixels, draws[:, 5], channels=pixels.shape[1] if channels is None else channels)
        if self.warp:
            pixels = warp(pixels, draws[:, 6:10] * (self.warp / 1000))
        if self.shift:
            pixels = shift(pixels, draws[:, 0], draws[:, 1], most=self.shift)
        if self.flip:
            pixels = torch.where(draws[:, 2, None, None, None].bool(), pixels.flip(-1), pixels)
        if self.cutout:
            pixels = cutout(pixels, draws[:, 3], draws[:, 4], side=self.cutout)
        return pixels


def shift(pixels: Tensor, dy: Tensor, dx: Tensor, *, most: int) -> Tensor:
    """Move each image (B, C, H, W) down by dy and right by dx (B,), negative for up and left; zeros come in.

    No image is moved by more than `most`: each is a window of the image with so many zeros around it.
    """
    batch, _, height, width = pixels.shape
    windows = F.pad(pixels, (most, most, most, most)).unfold(2, height, 1).unfold(3, width, 1)
    return windows.permute(0, 2, 3, 1, 4, 5)[torch.arange(batch, device=pixels.device), most - dy, most - dx]


def invert(pixels: Tensor, chosen: Tensor, *, channels: int) -> Tensor:
    """The negatives of the chosen (B,) images (B, C, H, W), of their first `channels`; the others as they are."""
    picture = torch.where(chosen.bool()[:, None, None, None], 255 - pixels[:, :channels], pixels[:, :channels])
    return torch.cat([picture, pixels[:, channels:]], dim=1)


def warp(pixels: Tensor, entries: Tensor) -> Tensor:
    """Each image (B, C, H, W) by its own linear map: at p, seen from the middle, comes to lie what was at p + M p.

    entries (B, 4) are M's, row by row, acting on (x, y); values between pixels are interpolated.
    """
    height, width = pixels.shape[-2:]
    y = (torch.arange(height, device=pixels.device) - (height - 1) / 2)[:, None]
    x = (torch.arange(width, device=pixels.device) - (width - 1) / 2)[None, :]
    xx, xy, yx, yy = entries[:, :, None, None].unbind(dim=1)
    # grid_sample counts from -1 at the image's left and upper edge to 1 at its right and lower one.
    grid = torch.stack([(x + xx * x + xy * y) * (2 / width), (y + yx * x + yy * y) * (2 / height)], dim=-1)
    moved = F.grid_sample(pixels.float(), grid, align_corners=False)
    return moved if pixels.is_floating_point() else moved.round().to(pixels.dtype)


def cutout(pixels: Tensor, row: Tensor, column: Tensor, *, side: int) -> Tensor:
    """Set a square of `side` pixels around (row, column) to 0, cut off at the border."""
    height, width = pixels.shape[-2:]
    low = side // 2

    def covered(size: int, centre: Tensor) -> Tensor:
        offset = torch.arange(size, device=pixels.device) - (centre[:, None] - low)
        return (offset >= 0) & (offset < side)

    hole = covered(height, row)[:, :, None] & covered(width, column)[:, None, :]
    return pixels * (~hole)[:, None].to(pixels.dtype)
