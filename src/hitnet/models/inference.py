"""A trained network on images that it does not learn from: in batches, in evaluation mode, on its own device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from hitnet.models.network import Network, Output, unit_images
from hitnet.runtime.device import evaluation_batch, evaluation_precision, filled

PRETRAINED_BATCH = 64  # images per step of a backbone's training: a GPU takes seconds to prepare another size


@contextmanager
def evaluating(model: Network) -> Iterator[torch.device]:
    """Yield the network's device, with the network in evaluation mode and precision; restore its mode at the end."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        with evaluation_precision(device):
            yield device
    finally:
        model.train(was_training)


def class_distances(model: Network, pixels: Tensor) -> Tensor:
    """Distances (N, K) of uint8 images (N, C, H, W), computed in batches on the model's device."""
    return distances_and_misfits(model, pixels)[0]


@torch.inference_mode()
def distances_and_misfits(model: Network, pixels: Tensor) -> tuple[Tensor, Tensor | None]:
    """Distances (N, K) and misfits (N,) of uint8 images (N, C, H, W); see `Network.misfits`."""
    with evaluating(model) as device:
        known = PRETRAINED_BATCH if model.config.pretrained and device.type == "cuda" else None
        size = known or evaluation_batch(pixels.shape[1:], small_maps=model.config.pretrained)
        batches = (to_device(part, device) for part in pixels.split(size))
        if known:
            batches = (filled(batch, size) for batch in batches)
        outputs: list[Output] = [model(batch, reconstruct=False) for batch in batches]
    distances = torch.cat([output.distances.float() for output in outputs])[: len(pixels)]
    unlike = [output.misfit for output in outputs if output.misfit is not None]
    return distances, torch.cat(unlike)[: len(pixels)].float() if unlike else None


def to_device(pixels: Tensor, device: torch.device) -> Tensor:
    """uint8 images as floats in [0, 1] on a device, in the memory order that is fastest for convolutions."""
    return unit_images(pixels.to(device, non_blocking=True)).contiguous(memory_format=torch.channels_last)
