"""What all of synthesis shares: a run that has a decoder, its classes by name, capsules → images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from hitnet.errors import HitNetError, unknown_name
from hitnet.models.coding import BATCH, decode_batch, need_decoder
from hitnet.models.network import Network
from hitnet.training.device import pick_device
from hitnet.training.runs import Run, open_run

RunLike = Run | str | Path


def open_decoder(run: RunLike, *, device: str = "auto") -> Run:
    """A trained run with a decoder, its network in evaluation mode on `device`."""
    trained = run if isinstance(run, Run) else open_run(run)
    need_decoder(trained.model)
    trained.model.to(pick_device(device)).eval()
    return trained


def need_centre(network: Network) -> float:
    """The value of the central capsule's components, where that capsule stands for the class."""
    decoder = need_decoder(network)
    if network.head.loss != "centripetal":
        raise HitNetError(
            "This network drives the capsule of the true class away from the centre, so that its central capsule "
            "stands for no class. Train a network whose name starts with hitnet, or generate from capsules fitted "
            "to data."
        )
    if network.head.centre == 0 and not decoder.standardised:
        raise HitNetError(
            "This network's central capsule is 0, which its decoder cannot tell from a masked one: all classes "
            "would look the same. Train it with decoder 'standardised' or 'conv'."
        )
    return network.head.centre


def class_indices(class_names: Sequence[str], chosen: Sequence[str] | None) -> list[int]:
    """Indices of the classes that are named; all of them for None."""
    if chosen is None:
        return list(range(len(class_names)))
    if isinstance(chosen, str) or not all(isinstance(name, str) for name in chosen):
        raise HitNetError(f"Classes are chosen by a list of their names, which are text; got {chosen!r}.")
    index = {name: k for k, name in enumerate(class_names)}
    for name in chosen:
        if name not in index:
            raise unknown_name("class", name, class_names)
    if not chosen:
        raise HitNetError("Name at least one class.")
    return [index[name] for name in dict.fromkeys(chosen)]


@torch.no_grad()
def decode(network: Network, capsules: Tensor, classes: Tensor, extra: Tensor | None = None) -> Tensor:
    """Capsules (B, n) of the classes (B,) → images (B, C, H, W) in [0, 1], on the network's device.

    extra (B, e), for a network with extra components: None gives their mean, 0.
    """
    need_decoder(network)
    config = network.config
    if capsules.shape != (len(classes), config.capsule_dim):
        raise HitNetError(
            f"decode takes one capsule of {config.capsule_dim} components for each of {len(classes)} classes; "
            f"got shape {tuple(capsules.shape)}."
        )
    place = next(network.parameters()).device
    if extra is None and config.extra_dim:
        extra = torch.zeros(len(classes), config.extra_dim)
    pictures = []
    for start in range(0, len(classes), BATCH):
        part = slice(start, start + BATCH)
        besides = None if extra is None else extra[part].to(place, torch.float32)
        pictures.append(
            decode_batch(network, capsules[part].to(place, torch.float32), classes[part].to(place), besides)
        )
    return torch.cat(pictures) if pictures else torch.empty(0, *config.in_shape, device=place)


def to_pixels(images: Tensor) -> Tensor:
    """Images in [0, 1] as uint8 on the CPU."""
    return (images.clamp(0, 1) * 255).round().to("cpu", torch.uint8)
