"""The images of a training in batches: their order in each epoch, what is drawn for them, and how they are modified.

There is one copy of the images on the device for all networks, or they are files that are read during training. All
else follows from the seed and the number of the epoch. An epoch can therefore be resumed at any batch, and each of
several processes finds its own part of every batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from hitnet.data import ImageSet
from hitnet.runtime.device import evaluation_batch, sent
from hitnet.runtime.ranks import SINGLE, Ranks
from hitnet.training.augmentation import draw
from hitnet.training.randomness import epoch_seed
from hitnet.training.recipes import Recipe
from hitnet.training.step import Batch

if TYPE_CHECKING:
    from hitnet.training.hybrid_batches import HybridAugmentation

TOGETHER = 2**20  # pixels whose differences are computed at once, but at least one batch


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


class Batches:
    """The batches of any epoch of one training. The augmentation is drawn here, and the training step applies it."""

    def __init__(
        self,
        feed: Feed,
        recipe: Recipe,
        *,
        seed: int,
        modify: HybridAugmentation | None = None,
        ranks: Ranks = SINGLE,
    ) -> None:
        self.feed, self.recipe, self.seed, self.modify, self.ranks = feed, recipe, seed, modify, ranks

    def __call__(self, epoch: int, first: int) -> Iterator[Batch]:
        """The batches of an epoch from number `first` on, or this process's part of them. No image comes twice."""
        count = len(self.feed)
        generator = torch.Generator().manual_seed(epoch_seed(self.seed, epoch))
        order = torch.randperm(count, generator=generator)
        draws = draw(self.recipe, count, self.feed.size, generator)
        whole = torch.arange(self.recipe.images_per_epoch(count)).split(self.recipe.batch_size)
        parts = [self.ranks.part(places) for places in whole]
        differences = None
        if self.modify is not None:
            noise, places = self.modify.draw(count, generator), modified_places(self.modify.share, whole, parts)
            together = max(1, TOGETHER // (len(whole[0]) * math.prod(self.feed.shape)))
            differences = self.modify.epoch(
                order, noise, places, first=first, together=together, precision=self.recipe.precision
            )
        taken = self.feed.batches([order[places] for places in parts[first:]])
        dealt_draws = dealt(draws, parts[first:], self.feed.device)

        def joined() -> Iterator[Batch]:
            for (pixels, labels), own in zip(taken, dealt_draws, strict=True):
                if differences is not None:
                    add(pixels, next(differences))
                yield pixels, labels, own

        return joined()


def modified_places(share: float, batches: Sequence[Tensor], parts: Sequence[Tensor]) -> list[Tensor]:
    """The places in an epoch whose images this process modifies: the first of each batch, if in its part."""
    ends = [int(batch[0]) + max(1, round(share * len(batch))) for batch in batches]
    return [part[part < end] for part, end in zip(parts, ends, strict=True)]


def add(pixels: Tensor, difference: Tensor) -> None:
    """Add a difference (B, C, H, W) to the first images and channels of uint8 pixels, in place, rounded and clipped."""
    picture = pixels[: difference.shape[0], : difference.shape[1]]
    picture.copy_((picture + difference).round_().clamp_(0, 255))
