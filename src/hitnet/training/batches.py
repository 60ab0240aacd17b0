"""The batches of an epoch: the order of the images, what is drawn for each of them, and how they are modified.

All of it follows from the seed and the number of the epoch. An epoch can therefore be resumed at any batch, and each of
several processes finds its own part of every batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from hitnet.runtime.ranks import SINGLE, Ranks
from hitnet.training.augmentation import Augmentation
from hitnet.training.feed import Feed, dealt
from hitnet.training.hybrid_batches import HybridAugmentation, add, modified_places
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
        count = len(self.feed)
        generator = torch.Generator().manual_seed(epoch_seed(self.seed, epoch))
        order = torch.randperm(count, generator=generator)
        draws = self.augmentation.draw(count, self.feed.size, generator)
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
