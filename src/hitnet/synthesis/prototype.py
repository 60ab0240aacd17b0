"""Prototypes: the network's reference image of each class, decoded from the central capsule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hitnet.models.network import Network
from hitnet.synthesis.decoding import RunLike, class_indices, decode, need_centre, open_decoder


@dataclass(frozen=True)
class Prototypes:
    """One prototype per class.

    Attributes:
        images: (K, C, H, W), floats in [0, 1] on the CPU.
        class_names: The K classes.
    """

    images: Tensor
    class_names: tuple[str, ...]


def prototypes(run: RunLike, *, classes: Sequence[str] | None = None, device: str = "auto") -> Prototypes:
    """The prototypes of all classes of a run, or of those that are named."""
    trained = open_decoder(run, device=device)
    chosen = class_indices(trained.class_names, classes)
    images = class_prototypes(trained.model, torch.tensor(chosen))
    return Prototypes(images.cpu(), tuple(trained.class_names[k] for k in chosen))


def class_prototypes(network: Network, classes: Tensor) -> Tensor:
    """Decode the central capsule of each class (B,) to an image: (B, C, H, W)."""
    centre = need_centre(network)
    return decode(network, torch.full((len(classes), network.config.capsule_dim), centre), classes)
