"""Heads: features (B, F) → capsules (B, K, n) → distances (B, K) → a predicted class."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from torch import Tensor, nn

from hitnet.capsules import CENTRE, NORMS, CapsuleLayer, HitOrMiss, Norm, distances
from hitnet.losses import CentripetalLoss


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
