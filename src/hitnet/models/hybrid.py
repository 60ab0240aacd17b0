"""Images to true-class capsules and back, and hybrid data augmentation (section 3.2).

A capsule is modified and decoded, and the details that decoding loses are added back:

    X_new = X_mod + X − X_rec, clipped to [0, 1]

X_rec is decoded from the true-class capsule, X_mod from the same capsule plus noise (see `Noise`). The spread of the
noise is given in units of m/√n.
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from hitnet.capsules import HIT_RADIUS, mask
from hitnet.errors import HitNetError
from hitnet.models.decoders import Decoder
from hitnet.models.network import Network

Noise = Literal["normal", "component"]
BATCH = 500  # images to encode or decode at once


def need_decoder(network: Network) -> Decoder:
    """The decoder of a network; raise HitNetError if it has none."""
    if network.decoder is None:
        raise HitNetError(
            "This network has no decoder and cannot make images. Train a network with a decoder, e.g. hitnet-small or "
            "hitnet-resnet9. On a backbone, `hitnet train --decoder conv` adds one."
        )
    return network.decoder


def encode_batch(network: Network, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
    """The true-class capsules (B, n) of images (B, C, H, W) in [0, 1], and extra components (B, e) if there are any.

    All tensors are on the network's device, and nothing waits for it.
    """
    output = network(images, reconstruct=False)
    return mask(output.capsules, labels).sum(dim=1), output.extra


def decode_batch(network: Network, capsules: Tensor, classes: Tensor, extra: Tensor | None) -> Tensor:
    """Decode capsules (B, n) of classes (B,) and extra components (B, e), if any: images (B, C, H, W) in [0, 1]."""
    # Every class gets the capsule: the decoder masks all classes but the one to decode.
    repeated = capsules[:, None].expand(-1, network.config.num_classes, -1)
    return need_decoder(network)(repeated, classes, extra)


class Hybrid(NamedTuple):
    """Hybrid augmentation of a batch, X_rec, X_mod and X_new: images (B, C, H, W) in [0, 1]."""

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
    """Augment images (B, C, H, W) in [0, 1] with labels (B,) by a change (B, n) of their true-class capsules.

    The network is in evaluation mode, on the device of the images, and nothing waits for it.
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
    """X_rec and X_mod: true-class capsules (B, n) without and with a change (B, n), decoded in one call."""
    both = torch.cat([capsules, capsules + change])
    extra_twice = None if extra is None else extra.repeat(2, 1)
    reconstruction, modified = decode_batch(network, both, labels.repeat(2), extra_twice).chunk(2)
    return reconstruction, modified


def combine(images: Tensor, reconstruction: Tensor, modified: Tensor) -> Tensor:
    """X_mod + X − X_rec, clipped to [0, 1]."""
    return (modified + images - reconstruction).clamp(0, 1)
