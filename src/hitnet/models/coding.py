"""From images to the capsules that count and back, by a trained network: batches on its device."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hitnet.capsules import HIT_RADIUS, mask
from hitnet.errors import HitNetError
from hitnet.models.decoders import Decoder
from hitnet.models.network import Network

BATCH = 500  # images that are decoded or encoded at once


def need_decoder(network: Network) -> Decoder:
    if network.decoder is None:
        raise HitNetError(
            "This network has no decoder, so that it can make no images (n1 is such a network). "
            "Train one that has, e.g. hitnet, hitnet-small or hitnet-resnet9."
        )
    return network.decoder


def component_spread(network: Network) -> float:
    """m/√n, the spread that the paper expects of a component of the true class's capsule."""
    return HIT_RADIUS / math.sqrt(network.config.capsule_dim)


def encode_batch(network: Network, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
    """The capsules (B, n) of the true classes of images (B, C, H, W) in [0, 1], and the extra components (B, e) of a
    network that has them. Nothing here waits for the device."""
    output = network(images, reconstruct=False)
    return mask(output.capsules, labels).sum(dim=1), output.extra


def decode_batch(network: Network, capsules: Tensor, classes: Tensor, extra: Tensor | None) -> Tensor:
    """Capsules (B, n) of the classes (B,), and extra components (B, e) where the network has them → images
    (B, C, H, W) in [0, 1], in one call of its decoder."""
    # All classes get the capsule: the decoder masks those that do not count.
    everywhere = capsules[:, None].expand(-1, network.config.num_classes, -1)
    pictures: Tensor = need_decoder(network)(everywhere, classes, extra)
    return pictures


def before_and_after(
    network: Network, labels: Tensor, capsules: Tensor, extra: Tensor | None, change: Tensor
) -> tuple[Tensor, Tensor]:
    """X_rec and X_mod from true-class capsules (B, n) and a change of them, both in one call of the decoder."""
    both = torch.cat([capsules, capsules + change])
    besides = None if extra is None else extra.repeat(2, 1)
    reconstruction, modified = decode_batch(network, both, labels.repeat(2), besides).chunk(2)
    return reconstruction, modified
