"""Modify images before they are augmented: a difference is added to the pixels of each image.

A difference depends only on the image and on noise that is drawn for it. The differences of several batches are
therefore computed at once: on a GPU, where a step is one captured graph, dozens of launches per batch would take a
noticeable part of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

import torch
from torch import Tensor

from hitnet.training.device import sent, training_precision
from hitnet.training.feed import Feed

TOGETHER = 2**20  # pixels whose differences are computed at once, but at least one batch


class Modify(Protocol):
    """Modifies the images of one set, differently in every epoch.

    Attributes:
        share: Part of each batch that is modified: its first images.
    """

    share: float

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw noise for `count` images: (count, n), on the CPU."""

    def differences(self, index: Tensor, noise: Tensor) -> Tensor:
        """What is added to the images at `index` (B,) of the set: (B, C, H, W), for pixels from 0 to 255.

        All tensors are on the device, and nothing here waits for it.
        """


Prepare = Callable[[Feed], Modify]  # computes in advance what a modification needs to know about each image


def dealt(values: Tensor, places: Sequence[Tensor], device: torch.device) -> tuple[Tensor, ...]:
    """Split the rows that were drawn for an epoch by batch, and send them to the device."""
    return sent(values[torch.cat(list(places))], device).split([len(batch) for batch in places])


def modified_places(share: float, batches: Sequence[Tensor], parts: Sequence[Tensor]) -> list[Tensor]:
    """The places in an epoch whose images this process modifies: the first of each batch, if in its part."""
    ends = [int(batch[0]) + max(1, round(share * len(batch))) for batch in batches]
    return [part[part < end] for part, end in zip(parts, ends, strict=True)]


def differences(
    modify: Modify,
    order: Tensor,
    noise: Tensor,
    places: Sequence[Tensor],
    *,
    first: int,
    together: int,
    device: torch.device,
    precision: str,
) -> Iterator[Tensor]:
    """What is added to the images of an epoch's batches.

    Args:
        modify: The modification.
        order: The image at each place of the epoch.
        noise: What was drawn for each place.
        places: The places of each batch that are modified.
        first: Start with this batch.
        together: Compute the differences of this many batches at once.
        device: Where to compute them.
        precision: The recipe's precision.
    """
    # Groups are counted from the start of the epoch even if it is resumed: the last bits of a decoded image depend on
    # how many images are decoded together.
    begun = first - first % together
    groups = [places[start : start + together] for start in range(begun, len(places), together)]
    whole = [torch.cat(list(group)) for group in groups]
    indices, noises = dealt(order, whole, device), dealt(noise, whole, device)

    def made() -> Iterator[Tensor]:
        for group, index, drawn in zip(groups, indices, noises, strict=True):
            with training_precision(device, precision):
                added = modify.differences(index, drawn)
            yield from added.split([len(batch) for batch in group])

    return islice(made(), first - begun, None)


def add(pixels: Tensor, difference: Tensor) -> None:
    """Add a difference (B, C, H, W) to the first images and channels of uint8 pixels, in place, rounded and clipped."""
    picture = pixels[: difference.shape[0], : difference.shape[1]]
    picture.copy_((picture + difference).round_().clamp_(0, 255))
