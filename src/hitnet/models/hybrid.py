"""Hybrid data augmentation (section 3.2): modify and decode a capsule, and add back the details that decoding loses.

    X_new = X_mod + X − X_rec, clipped to [0, 1]

X_rec is decoded from the true-class capsule, X_mod from the same capsule plus noise (see `Noise`). The spread of the
noise is given in units of m/√n.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from hitnet.capsules import HIT_RADIUS
from hitnet.errors import HitNetError
from hitnet.models.coding import decode_batch, encode_batch, need_decoder
from hitnet.models.network import Network

Noise = Literal["normal", "component"]
NOISES: tuple[Noise, ...] = get_args(Noise)


class Hybrid(NamedTuple):
    """Hybrid augmentation of a batch; all images (B, C, H, W) in [0, 1].

    Attributes:
        reconstruction: X_rec.
        modified: X_mod.
        result: X_new.
    """

    reconstruction: Tensor
    modified: Tensor
    result: Tensor


def component_spread(network: Network) -> float:
    """m/√n, the standard deviation that the paper expects of a true-class capsule's components."""
    return HIT_RADIUS / math.sqrt(network.config.capsule_dim)


def capsule_noise(network: Network, normal: Tensor, strength: float) -> Tensor:
    """Noise for capsules: standard normal numbers (B, n) times `strength` · m/√n."""
    return strength * component_spread(network) * normal


def draw_noise(network: Network, count: int, generator: torch.Generator, kind: Noise, strength: float) -> Tensor:
    """Draw noise for `count` capsules: (count, n), on the CPU.

    "normal" changes all components; "component" changes one of each capsule, uniformly within ±2 · `strength` · m/√n.
    """
    n = network.config.capsule_dim
    if kind == "normal":
        return capsule_noise(network, torch.randn(count, n, generator=generator), strength)
    chosen = torch.randint(n, (count, 1), generator=generator)
    uniform = 4 * torch.rand(count, 1, generator=generator) - 2
    return capsule_noise(network, torch.zeros(count, n).scatter_(1, chosen, uniform), strength)


@torch.no_grad()
def hybrid(network: Network, images: Tensor, labels: Tensor, change: Tensor) -> Hybrid:
    """Augment images by a change of their true-class capsules, without waiting for the device.

    Args:
        network: In evaluation mode, on the device of the images.
        images: (B, C, H, W) in [0, 1].
        labels: (B,).
        change: (B, n), added to the capsules.
    """
    need_decoder(network)
    expected = (len(images), network.config.capsule_dim)
    if change.shape != expected:
        raise HitNetError(f"hybrid: change must have shape {expected}, one row per image; got {tuple(change.shape)}.")
    reconstruction, modified = before_and_after(network, labels, *encode_batch(network, images, labels), change)
    return Hybrid(reconstruction, modified, combine(images, reconstruction, modified))


def before_and_after(
    network: Network, labels: Tensor, capsules: Tensor, extra: Tensor | None, change: Tensor
) -> tuple[Tensor, Tensor]:
    """Decode true-class capsules without and with a change, in one call of the decoder.

    Args:
        network: On the device of the capsules.
        labels: (B,).
        capsules: (B, n).
        extra: (B, e) if the network has extra components, else None.
        change: (B, n), added to the capsules.

    Returns:
        X_rec and X_mod, each (B, C, H, W).
    """
    both = torch.cat([capsules, capsules + change])
    extra_twice = None if extra is None else extra.repeat(2, 1)
    reconstruction, modified = decode_batch(network, both, labels.repeat(2), extra_twice).chunk(2)
    return reconstruction, modified


def combine(images: Tensor, reconstruction: Tensor, modified: Tensor) -> Tensor:
    """X_mod + X − X_rec, clipped to [0, 1]."""
    return (modified + images - reconstruction).clamp(0, 1)
