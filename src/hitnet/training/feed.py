"""The images of a training: one copy on the device for all networks, or files that are read during training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from hitnet.data import ImageSet
from hitnet.runtime.device import evaluation_batch, sent


class Feed:
    """A set of images for training steps; with `masks`, known masks follow the images as a last channel."""

    def __init__(self, images: ImageSet, device: torch.device, *, masks: bool = False) -> None:
        self.device = device
        self.labels = images.labels.to(device)
        self.shape = images.shape
        self.size = (images.shape[1], images.shape[2])
        self.flip = images.flip
        self.source = images.on_device(device, masks=masks)

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, parts: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Pixels (B, C, H, W) and labels (B,) of the images at each part's indices, on the device."""
        indices = dealt(torch.arange(len(self)), parts, self.device)
        if isinstance(self.source, Tensor):
            source = self.source
            return ((source[index], self.labels[index]) for index in indices)
        read = self.source.read(parts)
        return ((pixels.to(self.device), self.labels[index]) for pixels, index in zip(read, indices, strict=True))

    def in_order(self, batch_size: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """The whole set from its first image to its last."""
        batch_size = batch_size or evaluation_batch(self.shape)
        if isinstance(self.source, Tensor):
            return zip(self.source.split(batch_size), self.labels.split(batch_size), strict=True)
        return self.batches(torch.arange(len(self)).split(batch_size))


def dealt(values: Tensor, places: Sequence[Tensor], device: torch.device) -> tuple[Tensor, ...]:
    """Split the rows that were drawn for an epoch by batch, and send them to the device."""
    return sent(values[torch.cat(list(places))], device).split([len(batch) for batch in places])
