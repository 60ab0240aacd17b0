"""Heads: features (B, F) → capsules (B, K, n) → distances (B, K) → a predicted class."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from hitnet import capsules as cap
from hitnet.errors import HitNetError

LossName = Literal["centripetal", "margin", "cross-entropy"]


class Head(nn.Module):
    """Base class of all heads.

    Attributes:
        loss: The loss that trains the head.
        centre: Value of the central capsule's components; distances are measured from there.
        nearest_wins: Whether the class with the smallest distance wins, rather than that with the largest.
        farthest: Largest distance that a capsule can have. None: √n/2, for capsules in [0, 1].
    """

    loss: ClassVar[LossName]
    centre: ClassVar[float] = 0.0
    nearest_wins: ClassVar[bool] = False
    farthest: ClassVar[float | None] = None

    def distances(self, capsules: Tensor) -> Tensor:
        """The prediction vector of the paper: capsules (B, K, n) → (B, K)."""
        return cap.distances(capsules, self.centre)

    def predict(self, distances: Tensor) -> Tensor:
        """The winning class: distances (B, K) → (B,)."""
        return distances.argmin(dim=1) if self.nearest_wins else distances.argmax(dim=1)


class HitOrMissHead(cap.HitOrMiss, Head):
    """HitNet: sigmoid capsules that hit the centre of their cube (centripetal loss)."""

    loss = "centripetal"
    centre = cap.CENTRE
    nearest_wins = True


class SquashedHitOrMissHead(cap.CapsuleLayer, Head):
    """HitNet with squash: linear → batch-norm → squash, centripetal towards O = (0, …, 0).

    The paper gives one sentence ("if the squashing function is used in HitNet"). This is our reading: squash replaces
    the sigmoid, so capsules fill the unit ball with the centre O. The true class's capsule must hit O (m = 0.1), and
    the others must miss it (m' = 0.9 of at most 1). The loss and the rest do not change.
    """

    loss = "centripetal"
    nearest_wins = True
    farthest = 1.0

    def forward(self, features: Tensor) -> Tensor:
        return cap.squash(self.vectors(features))


class SquashedHead(cap.CapsuleLayer, Head):
    """N2, CapsNet-like: linear → batch-norm → squash; the longest capsule wins (margin loss)."""

    loss = "margin"

    def forward(self, features: Tensor) -> Tensor:
        return cap.squash(self.vectors(features))


class CentrifugalHead(cap.HitOrMiss, Head):
    """N2b: the capsules of HitNet, but the capsule farthest from the centre wins (margin loss)."""

    loss = "margin"
    centre = cap.CENTRE


class SoftmaxHead(cap.CapsuleLayer, Head):
    """N1: linear → batch-norm → softmax. The capsules are the K logits, with one component each."""

    loss = "cross-entropy"

    def __init__(self, in_features: int, num_classes: int, capsule_dim: int = 1) -> None:
        super().__init__(in_features, num_classes, 1)

    def forward(self, features: Tensor) -> Tensor:
        return self.vectors(features)

    def distances(self, capsules: Tensor) -> Tensor:
        return capsules.squeeze(-1).softmax(dim=1)


class PlainSoftmaxHead(Head):
    """Linear → softmax, without batch-norm. The capsules are the K logits, with one component each."""

    loss = "cross-entropy"

    def __init__(self, in_features: int, num_classes: int, capsule_dim: int = 1) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, num_classes)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        logits = self.linear(cap.in_precision_of(self.linear.weight, features))
        return cap.full_precision(logits)[..., None]

    def distances(self, capsules: Tensor) -> Tensor:
        return capsules.squeeze(-1).softmax(dim=1)


class RoutingHead(Head):
    """CapsNet: squashed primary capsules of 8 components vote for K capsules; routing takes three iterations."""

    loss = "margin"

    def __init__(self, in_features: int, num_classes: int, capsule_dim: int = 16) -> None:
        super().__init__()
        if in_features % 8:
            raise HitNetError(f"RoutingHead: in_features must be a multiple of 8; got {in_features}.")
        weight = torch.empty(in_features // 8, 8, num_classes, capsule_dim)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=0.1))

    def forward(self, features: Tensor) -> Tensor:
        primary = cap.squash(features.unflatten(1, (-1, 8)))
        votes = torch.einsum("bip,ipkn->bikn", primary.to(self.weight.dtype), self.weight)
        return cap.dynamic_routing(votes)


HEADS: dict[str, type[Head]] = {
    "hit-or-miss": HitOrMissHead,
    "hit-or-miss-squash": SquashedHitOrMissHead,
    "squash": SquashedHead,
    "centrifugal": CentrifugalHead,
    "softmax": SoftmaxHead,
    "plain-softmax": PlainSoftmaxHead,
    "routing": RoutingHead,
}
