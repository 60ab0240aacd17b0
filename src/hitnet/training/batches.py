"""The batches of an epoch: the order of the images, what is drawn for each of them, and how they are modified.

All of it follows from the seed and the number of the epoch. An epoch can therefore be resumed at any batch, and each of
several processes finds its own part of every batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from hitnet.runtime.ranks import SINGLE, Ranks
from hitnet.training.augmentation import Augmentation
from hitnet.training.feed import Feed
from hitnet.training.hybrid_batches import HybridAugmentation, add, dealt, epoch_differences, modified_places
from hitnet.training.randomness import epoch_seed
from hitnet.training.recipes import Recipe
from hitnet.training.step import Batch

TOGETHER = 2**20  # pixels whose differences are computed at once, but at least one batch


class Batches:
    """The batches of any epoch of one training. The augmentation is drawn here, and the training step applies it."""

    def __init__(
        self,
        feed: Feed,
        recipe: Recipe,
        augmentation: Augmentation,
        *,
        seed: int,
        modify: HybridAugmentation | None = None,
        ranks: Ranks = SINGLE,
    ) -> None:
        self.feed, self.recipe, self.augmentation = feed, recipe, augmentation
        self.seed, self.modify, self.ranks = seed, modify, ranks

    def __call__(self, epoch: int, first: int) -> Iterator[Batch]:
        """The batches of an epoch from number `first` on, or this process's part of them. No image comes twice."""
        count, device = len(self.feed), self.feed.device
        generator = torch.Generator().manual_seed(epoch_seed(self.seed, epoch))
        order = torch.randperm(count, generator=generator)
        draws = self.augmentation.draw(count, self.feed.size, generator)
        whole = torch.arange(self.recipe.images_per_epoch(count)).split(self.recipe.batch_size)
        parts = [self.ranks.part(places) for places in whole]
        differences = None
        if self.modify is not None:
            differences = epoch_differences(
                self.modify,
                order,
                self.modify.draw(count, generator),
                modified_places(self.modify.share, whole, parts),
                first=first,
                together=max(1, TOGETHER // (len(whole[0]) * math.prod(self.feed.shape))),
                device=device,
                precision=self.recipe.precision,
            )
        taken = self.feed.batches([order[places] for places in parts[first:]])
        return joined(taken, differences, dealt(draws, parts[first:], device))


def joined(
    taken: Iterator[tuple[Tensor, Tensor]], differences: Iterator[Tensor] | None, drawn: Sequence[Tensor]
) -> Iterator[Batch]:
    """Batches of images, labels and draws; differences, if any, are added to the images."""
    for draws in drawn:
        pixels, labels = next(taken)
        if differences is not None:
            add(pixels, next(differences))
        yield pixels, labels, draws
