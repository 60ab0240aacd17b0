"""Decode capsules to images, and prototypes: the network's reference image of each class, from the central capsule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from hitnet.errors import HitNetError, check_entries
from hitnet.models.hybrid import BATCH, decode_batch, need_decoder
from hitnet.models.network import Network
from hitnet.runtime.device import pick_device
from hitnet.training.runs import Run, open_run

RunLike = Run | str | Path


@dataclass(frozen=True)
class Prototypes:
    """One prototype per class."""

    images: Tensor  # (K, C, H, W), floats in [0, 1] on the CPU
    class_names: tuple[str, ...]  # (K,)


def prototypes(
    run: RunLike, *, classes: Sequence[str] | None = None, device: str | torch.device = "auto"
) -> Prototypes:
    """The prototypes of all classes of a run, or of those that are named."""
    trained = open_decoder(run, device=device)
    chosen = class_indices(trained.class_names, classes)
    images = class_prototypes(trained.model, torch.tensor(chosen))
    return Prototypes(images.cpu(), tuple(trained.class_names[k] for k in chosen))


def class_prototypes(network: Network, classes: Tensor) -> Tensor:
    """Decode the central capsule of each class (B,) to an image: (B, C, H, W)."""
    centre = need_centre(network)
    return decode(network, torch.full((len(classes), network.config.capsule_dim), centre), classes)


def open_decoder(run: RunLike, *, device: str | torch.device = "auto") -> Run:
    """A trained run with a decoder, its network in evaluation mode on `device`."""
    trained = open_run(run)
    need_decoder(trained.model)
    trained.model.to(pick_device(device)).eval()
    return trained


def need_centre(network: Network) -> float:
    """Value of the central capsule's components; raise HitNetError if the central capsule stands for no class."""
    decoder = need_decoder(network)
    if network.head.loss != "centripetal":
        raise HitNetError(
            "This network drives the capsule of the true class away from the centre, so its central capsule stands "
            "for no class. Train a network whose name starts with hitnet, or generate from capsules fitted to data."
        )
    if network.head.centre == 0 and not decoder.standardised:
        raise HitNetError(
            "This network's central capsule is 0, which its decoder cannot distinguish from a masked capsule: all "
            "classes would look the same. Train it with decoder 'standardised' or 'conv'."
        )
    return network.head.centre


def class_indices(class_names: Sequence[str], chosen: Sequence[str] | None) -> list[int]:
    """Indices of the chosen classes, in that order and without repeats; all classes for None."""
    if chosen is None:
        return list(range(len(class_names)))
    if isinstance(chosen, str) or not all(isinstance(name, str) for name in chosen):
        raise HitNetError(f"classes must be a list of class names; got {chosen!r}.")
    check_entries("class", chosen, class_names)
    if not chosen:
        raise HitNetError("classes must name at least one class; got an empty list.")
    return [class_names.index(name) for name in dict.fromkeys(chosen)]


@torch.no_grad()
def decode(network: Network, capsules: Tensor, classes: Tensor, extra: Tensor | None = None) -> Tensor:
    """Decode capsules (B, n) of classes (B,) to images (B, C, H, W) in [0, 1], in batches, on the network's device.

    Extra components (B, e) are for a network that has them. None means their mean, 0.
    """
    need_decoder(network)
    config = network.config
    if capsules.shape != (len(classes), config.capsule_dim):
        raise HitNetError(
            f"decode takes one capsule of {config.capsule_dim} components for each of {len(classes)} classes; "
            f"got shape {tuple(capsules.shape)}."
        )
    device = next(network.parameters()).device
    if extra is None and config.extra_dim:
        extra = torch.zeros(len(classes), config.extra_dim)
    images = [torch.empty(0, *config.in_shape, device=device)]
    for start in range(0, len(classes), BATCH):
        part = slice(start, start + BATCH)
        extra_part = None if extra is None else extra[part].to(device, torch.float32)
        capsules_part = capsules[part].to(device, torch.float32)
        images.append(decode_batch(network, capsules_part, classes[part].to(device), extra_part))
    return torch.cat(images)


def to_pixels(images: Tensor) -> Tensor:
    """Convert images in [0, 1] to uint8 on the CPU."""
    return (images.clamp(0, 1) * 255).round().to("cpu", torch.uint8)
