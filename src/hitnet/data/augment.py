"""Augmentation of a batch: shifts as in the paper, and mirroring and cutout for photographs.

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
    """shift: up to so many pixels in each direction, zero-padded (paper: 2); cutout: side of a square set to 0."""

    shift: int = 2
    flip: bool = False
    cutout: int = 0

    def __post_init__(self) -> None:
        if self.shift < 0 or self.cutout < 0:
            raise HitNetError(f"shift and cutout must not be negative; got {self.shift} and {self.cutout}.")

    def draw(self, count: int, size: tuple[int, int], generator: torch.Generator) -> Tensor:
        """Random numbers for `count` images of `size` (H, W), each drawn on its own: int32 (count, 5).

        Columns: dy, dx, mirrored, row and column of the cutout's centre.
        """
        limits = ((-self.shift, self.shift), (-self.shift, self.shift), (0, 1), (0, size[0] - 1), (0, size[1] - 1))
        draws = torch.empty(count, len(limits), dtype=torch.int32)  # an epoch's stay in memory, however many images
        for column, (low, high) in zip(draws.unbind(dim=1), limits, strict=True):
            column.copy_(torch.randint(low, high + 1, (count,), generator=generator))
        return draws

    def apply(self, pixels: Tensor, draws: Tensor) -> Tensor:
        """Images (B, C, H, W) of any type and their draws (B, 5) → augmented images."""
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


def cutout(pixels: Tensor, row: Tensor, column: Tensor, *, side: int) -> Tensor:
    """Set a square of `side` pixels around (row, column) to 0, cut off at the border."""
    height, width = pixels.shape[-2:]
    low = side // 2

    def covered(size: int, centre: Tensor) -> Tensor:
        offset = torch.arange(size, device=pixels.device) - (centre[:, None] - low)
        return (offset >= 0) & (offset < side)

    hole = covered(height, row)[:, :, None] & covered(width, column)[:, None, :]
    return pixels * (~hole)[:, None].to(pixels.dtype)
