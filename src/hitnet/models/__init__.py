"""Networks by name: all that the paper compares, and three of our own."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from hitnet.errors import HitNetError, check_entries, unknown_name
from hitnet.models.network import HitNet, ModelConfig, Network, Output, unit_images

__all__ = ["MODELS", "HitNet", "ModelConfig", "Network", "Output", "build", "config", "default_name", "unit_images"]


@dataclass(frozen=True)
class Named:
    """An entry of MODELS.

    Attributes:
        summary: One line for the list of models.
        options: The entries of ModelConfig that differ from the paper's HitNet.
    """

    summary: str
    options: dict[str, Any] = field(default_factory=dict)


MODELS: dict[str, Named] = {
    "hitnet": Named("The paper's HitNet: two 9x9 convolutions of 256 channels, Hit-or-Miss layer, dense decoder"),
    "n1": Named(
        "Baseline of the paper: the same convolutions, softmax and cross-entropy, no decoder",
        {"head": "softmax", "decoder": "none"},
    ),
    "n2": Named("CapsNet-like network of the paper: squash, margin loss, same decoder", {"head": "squash"}),
    "n2b": Named("HitNet's capsules with the centrifugal margin loss, same decoder", {"head": "centrifugal"}),
    "hitnet-squash": Named(
        "HitNet with squash for sigmoid: capsules hit the centre of the unit ball", {"head": "hit-or-miss-squash"}
    ),
    "capsnet": Named(
        "CapsNet of Sabour et al. (2017) with dynamic routing in three iterations",
        {"features": "primary-capsules", "head": "routing"},
    ),
    "hitnet-conv": Named(
        "HitNet with a convolutional decoder, for better pictures; the default for grey images on a GPU",
        {"decoder": "conv", "reconstruction_weight": 1.5},
    ),
    "hitnet-small": Named(
        "Hit-or-Miss on three small strided convolutions; the default without a GPU",
        {"features": "small", "decoder": "standardised"},
    ),
    "hitnet-resnet9": Named(
        "Hit-or-Miss on a residual network of nine layers; the default for colour images on a GPU",
        {"features": "resnet9", "decoder": "standardised"},
    ),
}


def config(name: str, in_shape: tuple[int, int, int], num_classes: int, **overrides: Any) -> ModelConfig:
    """The configuration of a named network.

    Args:
        name: A key of MODELS.
        in_shape: (C, H, W) of an image.
        num_classes: K.
        **overrides: Entries of ModelConfig to replace, e.g. capsule_dim=32.
    """
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    check_entries("model option", overrides, (f.name for f in fields(ModelConfig)))
    try:
        return ModelConfig(in_shape, num_classes, **{**MODELS[name].options, **overrides})
    except TypeError as error:
        raise HitNetError(f"Model {name!r}: {error}") from None


def build(name: str, in_shape: tuple[int, int, int], num_classes: int, **overrides: Any) -> Network:
    """Build a named network for images of any shape (C, H, W) and any number of classes; see `config`."""
    return Network(config(name, in_shape, num_classes, **overrides))


def default_name(in_shape: tuple[int, int, int], device: str) -> str:
    """The name of the network to train by default."""
    if device == "cpu":
        return "hitnet-small"
    return "hitnet-resnet9" if in_shape[0] == 3 else "hitnet-conv"
