"""Networks by name: the paper's and our own, and how to choose, build and add one."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import torch

from hitnet.errors import HitNetError, check_entries, unknown_name
from hitnet.models.network import ModelConfig, Network
from hitnet.models.registry import add_name, is_backbone


@dataclass(frozen=True)
class Named:
    """An entry of MODELS: a line for their list, and the entries of ModelConfig that differ from the paper's HitNet."""

    summary: str
    options: dict[str, Any] = field(default_factory=dict)
    for_colour: dict[str, Any] = field(default_factory=dict)  # more, for colour images and the network's own head


PRETRAINED = "hitnet-pretrained"
MODELS: dict[str, Named] = {
    "hitnet": Named("The paper's HitNet: two 9x9 convolutions of 256 channels, Hit-or-Miss layer, dense decoder"),
    "n1": Named(
        "Baseline of the paper: the same convolutions, softmax and cross-entropy, no decoder",
        {"head": "softmax", "decoder": "none"},
    ),
    "hitnet-conv": Named(
        "HitNet with a convolutional decoder, for better pictures; the default for grey images on a GPU",
        {"decoder": "conv", "reconstruction_weight": 1.5, "norm": "each"},
    ),
    "hitnet-small": Named(
        "Hit-or-Miss on three small strided convolutions; the default without a GPU",
        {"features": "small", "decoder": "standardised", "norm": "each"},
        for_colour={"norm": "shared"},
    ),
    "hitnet-resnet9": Named(
        "Hit-or-Miss on a residual network of nine layers; the default for colour images on a GPU",
        {"features": "resnet9", "decoder": "standardised", "norm": "each"},
    ),
    PRETRAINED: Named(
        "Hit-or-Miss on EfficientNet-Lite0 with ImageNet weights, or on another backbone; for photographs",
        {"features": "efficientnet-lite0", "decoder": "none", "norm": "each"},
    ),
}


def register_model(name: str, summary: str, **options: Any) -> None:
    """Add a network by name, so that `train` and all commands take it.

    `summary` is a line for the list of models; `options` are the entries of `ModelConfig` that differ from the paper's
    HitNet, e.g. features, head and decoder.
    """
    _check_changes(options)
    ModelConfig((1, 4096, 4096), 10, **options)  # raises for values that no network takes
    add_name("model", name, Named(summary, options), MODELS)


@dataclass(frozen=True)
class ModelChoice:
    """A network by name, with entries of its `ModelConfig` that differ; it is complete once the images are known.

    Attributes:
        name: A name of MODELS. None: what suits the images and the device.
        changes: Entries of the network's configuration that replace its own.
    """

    name: str | None
    changes: Mapping[str, Any] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.name, tuple(sorted(self.changes.items()))))

    def __post_init__(self) -> None:
        if self.name is not None and self.name not in MODELS:
            raise unknown_name("model", self.name, MODELS)
        _check_changes(self.changes)

    def named(self, in_shape: tuple[int, int, int], device: str) -> Self:
        """The same choice with a name, for images (C, H, W) and a type of device."""
        return self if self.name is not None else replace(self, name=default_name(in_shape, device))

    @property
    def pretrained(self) -> bool:
        """Whether the network stands on a pretrained backbone."""
        options = MODELS[self.name].options if self.name is not None else {}
        return is_backbone(str({**options, **self.changes}.get("features", "")))

    def config(self, in_shape: tuple[int, int, int], num_classes: int) -> ModelConfig:
        """The configuration for images (C, H, W) of any shape and any number of classes."""
        if self.name is None:
            raise HitNetError("This choice of a network has no name yet. Call `named` first.")
        named = MODELS[self.name]
        own = {**named.options, **(named.for_colour if in_shape[0] > 1 else {})}
        head = own.get("head", ModelConfig.head)
        if self.changes.get("head", head) != head:  # the network's batch-norm is that of its own head
            own.pop("norm", None)
        try:
            return ModelConfig(in_shape, num_classes, **{**own, **self.changes})
        except TypeError as error:
            raise HitNetError(f"Model {self.name!r}: {error}") from None


def _check_changes(changes: Mapping[str, Any]) -> None:
    check_entries("entry of a network's configuration", changes, (f.name for f in fields(ModelConfig)))


def choose_model(name: str | None = None, **changes: Any) -> ModelChoice:
    """A network by name, with single entries of its configuration replaced, e.g. capsule_dim=32.

    Args:
        name: A name of MODELS. None: what suits the images and the device.
        changes: Entries of `ModelConfig`; those given as None keep the network's own value.
    """
    _check_changes(changes)
    return ModelChoice(name, {key: value for key, value in changes.items() if value is not None})


def list_models(in_shape: tuple[int, int, int] = (1, 28, 28), num_classes: int = 10) -> list[dict[str, Any]]:
    """The networks that can be trained: name, number of parameters for images of `in_shape`, and what it is."""
    if in_shape[0] not in (1, 3) or not all(1 <= side <= 4096 for side in in_shape[1:]):
        raise HitNetError(f"An image's shape is (1 or 3, height, width) with sides of 1 to 4096; got {in_shape}.")
    with torch.device("meta"):  # to count parameters, none need lie in memory
        counts = {name: build(name, in_shape, num_classes).count_parameters() for name in MODELS}
    return [{"name": name, "parameters": counts[name], "summary": MODELS[name].summary} for name in MODELS]


def find_choice(model: str | ModelChoice | None) -> ModelChoice:
    """The choice that a name, a choice or nothing stands for."""
    return model if isinstance(model, ModelChoice) else ModelChoice(model)


def build(name: str, in_shape: tuple[int, int, int], num_classes: int, **changes: Any) -> Network:
    """A network by name, for images (C, H, W) of any shape and any number of classes."""
    return Network(choose_model(name, **changes).config(in_shape, num_classes))


def default_name(in_shape: tuple[int, int, int], device: str) -> str:
    """The name of the network to train by default."""
    if device == "cpu":
        return "hitnet-small"
    return "hitnet-resnet9" if in_shape[0] == 3 else "hitnet-conv"
