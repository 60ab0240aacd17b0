"""Heads: features (B, F) → capsules (B, K, n), and how capsules become a prediction.

Each head says which loss trains it (`loss`), where its capsules are measured from (`centre`), and whether
the class with the smallest or the largest distance wins (`nearest_wins`).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from hitnet import capsules as cap
from hitnet.errors import HitNetError

LossName = Literal["centripetal", "margin", "cross-entropy"]


class Head(nn.Module):
    """What every head offers beside forward: distances (B, K), the prediction vector of the paper, and the winner."""

    loss: ClassVar[LossName]
    centre: ClassVar[float] = 0.0
    nearest_wins: ClassVar[bool] = False

    def distances(self, capsules: Tensor) -> Tensor:
        return cap.distances(capsules, self.centre)

    def predict(self, distances: Tensor) -> Tensor:
        return distances.argmin(dim=1) if self.nearest_wins else distances.argmax(dim=1)


class HitOrMissHead(cap.HitOrMiss, Head):
    """HitNet's own: sigmoid capsules that hit the centre of their cube (centripetal)."""

    loss = "centripetal"
    centre = cap.CENTRE
    nearest_wins = True


class SquashedHitOrMissHead(cap.CapsuleLayer, Head):
    """HitNet with squash: linear → batch-norm → squash, centripetal towards O = (0, …, 0).

    The paper gives one sentence ("if the squashing function is used in HitNet"). Read here as: squash takes the
    place of the sigmoid, capsules then fill the unit ball, whose centre is O; the true class's capsule must hit O
    (m = 0.1), the others must miss it (m' = 0.9 of at most 1); the loss and all else stay as they are.
    """

    loss = "centripetal"
    nearest_wins = True

    def forward(self, features: Tensor) -> Tensor:
        return cap.squash(self.vectors(features))


class SquashedHead(cap.CapsuleLayer, Head):
    """N2, CapsNet-like: linear → batch-norm → squash; the longest capsule wins (margin loss)."""

    loss = "margin"

    def forward(self, features: Tensor) -> Tensor:
        return cap.squash(self.vectors(features))


class CentrifugalHead(cap.HitOrMiss, Head):
    """N2b: the capsules of HitNet, but the one farthest from the centre wins (margin loss)."""

    loss = "margin"
    centre = cap.CENTRE


class SoftmaxHead(cap.CapsuleLayer, Head):
    """N1: linear → batch-norm → softmax. Capsules are the K logits, of one component each."""

    loss = "cross-entropy"

    def __init__(self, in_features: int, num_classes: int, capsule_dim: int = 1) -> None:
        super().__init__(in_features, num_classes, 1)

    def forward(self, features: Tensor) -> Tensor:
        return self.vectors(features)

    def distances(self, capsules: Tensor) -> Tensor:
        return capsules.squeeze(-1).softmax(dim=1)


class RoutingHead(Head):
    """CapsNet: 8-component primary capsules, squashed, vote for K capsules, by three iterations of routing."""

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
    "routing": RoutingHead,
}
