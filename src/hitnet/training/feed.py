"""Where steps take their images from: one copy of a set on the device, however many networks train on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from hitnet.data.images import Images


class Feed:
    """A set of images as steps want it; `masks` puts the masks, where known, behind the images as a last channel."""

    def __init__(self, images: Images, device: torch.device, *, masks: bool = False) -> None:
        self.device = device
        self.labels = images.labels.to(device)
        self.size = (images.shape[1], images.shape[2])
        self.mirrored_ok = images.flip
        pixels = images.pixels
        if masks and images.masks is not None:
            pixels = torch.cat([pixels, images.masks], dim=1)
        self.pixels = pixels.to(device)

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, parts: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Pixels (B, C, H, W) and labels (B,) of the images at each part's indices, on the device."""
        for index in torch.cat(list(parts)).to(self.device).split([len(part) for part in parts]):
            yield self.pixels[index], self.labels[index]

    def in_order(self, batch_size: int = 1000) -> Iterator[tuple[Tensor, Tensor]]:
        """The whole set from its first image to its last."""
        return zip(self.pixels.split(batch_size), self.labels.split(batch_size), strict=True)
