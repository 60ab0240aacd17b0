"""Feature extractors and heads by name, and how those of other packages are added."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from hitnet.errors import HitNetError, unknown_name
from hitnet.models.features import BackboneFeatures, Features, PaperFeatures, ResNet9Features, SmallFeatures
from hitnet.models.heads import Head, HitOrMissHead, SoftmaxHead

T = TypeVar("T")
FEATURES: dict[str, type[Features]] = {"paper": PaperFeatures, "small": SmallFeatures, "resnet9": ResNet9Features}
HEADS: dict[str, type[Head]] = {"hit-or-miss": HitOrMissHead, "softmax": SoftmaxHead}


def register_features(name: str, features: type[Features]) -> None:
    """Add a feature extractor, so that `ModelConfig(features=name)` builds it.

    Runs of such a network open once the module that registers it is imported. A layer that draws random numbers in
    training has a method `draw(count)`, called before each batch of `count` images; `forward` only reads what it drew.

    Args:
        name: What it is called in configurations.
        features: A class derived from `hitnet.models.Features`, built with the shape (C, H, W) of an image.
    """
    if not (isinstance(features, type) and issubclass(features, Features)):
        raise HitNetError(f"register_features: {features!r} is not a class derived from hitnet.models.Features.")
    add_name("feature extractor", name, features, FEATURES)


def register_head(name: str, head: type[Head]) -> None:
    """Add a head, so that `ModelConfig(head=name)` builds it; it brings the loss that trains it.

    Args:
        name: What it is called in configurations.
        head: A class derived from `hitnet.models.Head`.
    """
    if not (isinstance(head, type) and issubclass(head, Head)):
        raise HitNetError(f"register_head: {head!r} is not a class derived from hitnet.models.Head.")
    missing = [part for part in ("loss", "make_loss") if getattr(head, part, None) is getattr(Head, part, None)]
    if missing:
        raise HitNetError(f"register_head: {head.__name__} lacks {' and '.join(missing)}. See hitnet.models.Head.")
    add_name("head", name, head, HEADS)


def add_name(kind: str, name: str, thing: T, known: dict[str, T]) -> None:
    """Add something under a new name; to add the same again changes nothing."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name):
        raise HitNetError(f"A {kind} is named in lower-case letters, digits, '-' and '.'; got {name!r}.")
    if known.get(name, thing) != thing or is_backbone(name):
        raise HitNetError(f"There is a {kind} named {name!r} already. Choose another name.")
    known[name] = thing


def not_registered(kind: str, name: str, known: Iterable[str]) -> HitNetError:
    """The error for a feature extractor or head that is not there."""
    error = unknown_name(kind, name, known)
    return HitNetError(f"{error} If another package has it, import the module that registers it first.")


def is_backbone(name: str) -> bool:
    """Whether a feature extractor is a pretrained backbone (see models.backbones)."""
    return name == "efficientnet-lite0" or name.partition(":")[0] == "timm"


def build_features(name: str, in_shape: tuple[int, int, int]) -> Features:
    """A feature extractor by name: a key of FEATURES, or a backbone (see `is_backbone`)."""
    if is_backbone(name):
        return BackboneFeatures(in_shape, name)
    return FEATURES[name](in_shape)
