"""Heads, feature extractors and heads by name, and how those of other packages are added.

A head maps features (B, F) → capsules (B, K, n) → distances (B, K) → a predicted class.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from hitnet.capsules import CENTRE, NORMS, CapsuleLayer, HitOrMiss, Norm, distances
from hitnet.errors import HitNetError, unknown_name
from hitnet.losses import CentripetalLoss
from hitnet.models.features import Features, PaperFeatures, ResNet9Features, SmallFeatures

T = TypeVar("T")


class Head(nn.Module):
    """Base class of all heads. `register_head` adds one by name.

    It is built as Head(in_features, num_classes, capsule_dim), with `norm` if it has a choice of them, and maps
    features (B, in_features) to capsules (B, K, n).

    Attributes:
        loss: The name of the loss that trains it. With "centripetal", the true class's capsule hits the centre and the
            others miss it, so that hits are counted, and ghosts and prototypes exist. With "cross-entropy", there are
            no capsules to decode.
        loss_options: The entries of a recipe that its loss takes.
        norms: The kinds of batch-norm that it can have (see `CapsuleLayer`), the default first; empty: it has none.
        centre: Value of the central capsule's components; distances are measured from there.
        nearest_wins: Whether the class with the smallest distance wins, rather than that with the largest.
    """

    loss: ClassVar[str]
    loss_options: ClassVar[tuple[str, ...]] = ()
    norms: ClassVar[tuple[Norm, ...]] = ()
    centre: ClassVar[float] = 0.0
    nearest_wins: ClassVar[bool] = False

    @abstractmethod
    def make_loss(self, **options: Any) -> nn.Module:
        """The loss, called with `loss_input` and targets (B,); `options` are the recipe's `loss_options`.

        A loss that has an attribute `draws` and sets it is called with further random numbers `chances` (B, 1).
        """

    def loss_input(self, capsules: Tensor, distances: Tensor) -> Tensor:
        """What the loss takes, (B, K): the distances, unless a head has something else."""
        return distances

    def distances(self, capsules: Tensor) -> Tensor:
        """The prediction vector of the paper: capsules (B, K, n) → (B, K)."""
        return distances(capsules, self.centre)

    def predict(self, distances: Tensor) -> Tensor:
        """The winning class: distances (B, K) → (B,)."""
        return distances.argmin(dim=1) if self.nearest_wins else distances.argmax(dim=1)


class HitOrMissHead(HitOrMiss, Head):
    """HitNet: sigmoid capsules that hit the centre of their cube (centripetal loss)."""

    loss = "centripetal"
    loss_options = ("miss_weight", "ghosts", "ghost_rule", "ghost_probability")
    norms = NORMS
    centre = CENTRE
    nearest_wins = True

    def make_loss(self, **options: Any) -> nn.Module:
        return CentripetalLoss(capsule_dim=self.capsule_dim, **options)


class SoftmaxHead(CapsuleLayer, Head):
    """N1: linear → batch-norm → softmax. The capsules are the K logits, with one component each."""

    loss = "cross-entropy"
    loss_options = ("label_smoothing",)
    norms = ("each",)

    def __init__(self, in_features: int, num_classes: int, capsule_dim: int = 1, *, norm: Norm = "each") -> None:
        super().__init__(in_features, num_classes, 1, norm=norm)

    def forward(self, features: Tensor) -> Tensor:
        return self.vectors(features)

    def make_loss(self, **options: Any) -> nn.Module:
        return nn.CrossEntropyLoss(**options)

    def loss_input(self, capsules: Tensor, distances: Tensor) -> Tensor:
        return capsules.squeeze(-1)

    def distances(self, capsules: Tensor) -> Tensor:
        return capsules.squeeze(-1).softmax(dim=1)


FEATURES: dict[str, type[Features]] = {"paper": PaperFeatures, "small": SmallFeatures, "resnet9": ResNet9Features}
HEADS: dict[str, type[Head]] = {"hit-or-miss": HitOrMissHead, "softmax": SoftmaxHead}


def register_features(name: str, features: type[Features]) -> None:
    """Add a feature extractor, so that `ModelConfig(features=name)` builds it.

    It is built with the shape (C, H, W) of an image. Runs of such a network open once the module that registers it is
    imported. A layer that draws random numbers in training has a method `draw(count)`, called before each batch of
    `count` images; `forward` only reads what it drew.
    """
    if not (isinstance(features, type) and issubclass(features, Features)):
        raise HitNetError(f"register_features: {features!r} is not a class derived from hitnet.models.Features.")
    add_name("feature extractor", name, features, FEATURES)


def register_head(name: str, head: type[Head]) -> None:
    """Add a head, so that `ModelConfig(head=name)` builds it; it brings the loss that trains it."""
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
