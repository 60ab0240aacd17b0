"""Images that are modified before they are augmented: a difference is added to the pixels of each.

A difference depends on the image and on noise that is drawn for it, so that those of several batches can be made at
once, wherever their pixels come from: a GPU's step is launched as one captured graph, beside which dozens of launches
for each batch would count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

import torch
from torch import Tensor

from hitnet.training.device import sent, training_precision
from hitnet.training.feed import Feed

TOGETHER = 2**20  # pixels whose differences are made at once; those of one batch may be more


class Modify(Protocol):
    """Modifies the images of one set, in every epoch anew.

    share  part of each batch that is modified: its first images
    """

    share: float

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Noise for `count` images, each drawn on its own: (count, n), on the CPU."""

    def differences(self, index: Tensor, noise: Tensor) -> Tensor:
        """What is added to the images at `index` (B,) of the set: (B, C, H, W), for pixels from 0 to 255.

        All on the device, which nothing here waits for.
        """


Prepare = Callable[[Feed], Modify]  # finds out in advance what is to be known of each image of a set


def dealt(values: Tensor, places: Sequence[Tensor], device: torch.device) -> tuple[Tensor, ...]:
    """Rows of what was drawn for an epoch, on the device: for each batch those at its places in the epoch."""
    return sent(values[torch.cat(list(places))], device).split([len(one) for one in places])


def modified_places(share: float, batches: Sequence[Tensor], parts: Sequence[Tensor]) -> list[Tensor]:
    """The places of an epoch whose images are modified: of each batch the first, where they are in a process's part."""
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
    """What is added to the images of an epoch's batches from its `first` one on, made for so many batches `together`.

    order, noise  the image at each place of the epoch, and what was drawn for it
    places        of each batch, those that are modified
    """
    # Groups are counted from the epoch's start also where it is resumed: what is decoded of an image depends in its
    # last bits on how many there are.
    begun = first - first % together
    groups = [places[start : start + together] for start in range(begun, len(places), together)]
    whole = [torch.cat(list(group)) for group in groups]
    indices, noises = dealt(order, whole, device), dealt(noise, whole, device)

    def made() -> Iterator[Tensor]:
        for group, index, drawn in zip(groups, indices, noises, strict=True):
            with training_precision(device, precision):
                found = modify.differences(index, drawn)
            yield from found.split([len(one) for one in group])

    return islice(made(), first - begun, None)


def add(pixels: Tensor, difference: Tensor) -> None:
    """Add a difference (B, C, H, W) to the first images and channels of uint8 pixels: in place, rounded and clipped."""
    picture = pixels[: difference.shape[0], : difference.shape[1]]
    picture.copy_((picture + difference).round_().clamp_(0, 255))
