"""Encode images to true-class capsules and decode them back: batches on the device of a trained network."""

from __future__ import annotations

from torch import Tensor

from hitnet.capsules import mask
from hitnet.errors import HitNetError
from hitnet.models.decoders import Decoder
from hitnet.models.network import Network

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
    """Encode images without waiting for the device.

    Args:
        network: On the device of the images.
        images: (B, C, H, W) in [0, 1].
        labels: (B,).

    Returns:
        The true-class capsules (B, n), and the extra components (B, e) if the network has them.
    """
    output = network(images, reconstruct=False)
    return mask(output.capsules, labels).sum(dim=1), output.extra


def decode_batch(network: Network, capsules: Tensor, classes: Tensor, extra: Tensor | None) -> Tensor:
    """Decode capsules in one call of the decoder.

    Args:
        network: On the device of the capsules.
        capsules: (B, n).
        classes: (B,).
        extra: (B, e) if the network has extra components, else None.

    Returns:
        Images (B, C, H, W) in [0, 1].
    """
    # Every class gets the capsule: the decoder masks all classes but the one to decode.
    repeated = capsules[:, None].expand(-1, network.config.num_classes, -1)
    images: Tensor = need_decoder(network)(repeated, classes, extra)
    return images
