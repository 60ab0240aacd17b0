"""The networks that the paper compares HitNet with, and their parts: N2, N2b, HitNet with squash, CapsNet.

Importing this module registers them with hitnet, which knows only HitNet and the baseline N1.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hitnet import CentripetalLoss, HitNetError, HitOrMiss
from hitnet.capsules import CENTRE, NORMS, CapsuleLayer, check_tensor, full_precision
from hitnet.errors import check_choice
from hitnet.losses import Reduction, matching_truth, reduce
from hitnet.models import Head, PaperFeatures, register_features, register_head, register_model


def squash(vectors: Tensor, dim: int = -1) -> Tensor:
    """Shrink vectors to a length below 1: |s|² / (1 + |s|²) · s / |s| (Sabour et al., 2017, Eq. 1)."""
    vectors = full_precision(vectors)
    norm = torch.linalg.vector_norm(vectors, dim=dim, keepdim=True)
    return vectors * (norm / (1 + norm * norm))


def dynamic_routing(votes: Tensor, iterations: int = 3) -> Tensor:
    """Routing by agreement (Sabour et al., 2017, procedure 1).

    The coupling coefficients are constants for autograd: gradients flow only through the last weighted sum.

    Args:
        votes: (B, I, K, n), the prediction of each of I lower capsules for each of K classes.
        iterations: Number of routing iterations (paper: 3).

    Returns:
        Capsules (B, K, n).
    """
    if iterations < 1:
        raise HitNetError(f"dynamic_routing: iterations must be at least 1; got {iterations}.")
    check_tensor("dynamic_routing: votes", votes, 4, "(B, I, K, n)")
    votes = full_precision(votes)
    fixed = votes.detach()
    logits = votes.new_zeros(1, *votes.shape[1:3])  # the same for all images: a batch of any size can be exported
    for _ in range(iterations - 1):
        capsules = squash(torch.einsum("bik,bikn->bkn", logits.softmax(dim=2), fixed))
        logits = logits + torch.einsum("bikn,bkn->bik", fixed, capsules)
    return squash(torch.einsum("bik,bikn->bkn", logits.softmax(dim=2), votes))


def margin_loss(
    lengths: Tensor, truth: Tensor, *, upper: float = 0.9, lower: float = 0.1, down_weight: float = 0.5
) -> Tensor:
    """The margin loss per image: Σ_k T_k max(0, m⁺ − |v_k|)² + λ (1 − T_k) max(0, |v_k| − m⁻)².

    Args:
        lengths: |v| (B, K).
        truth: T (B, K), booleans.
        upper: m⁺ (paper: 0.9).
        lower: m⁻ (paper: 0.1).
        down_weight: λ (paper: 0.5).

    Returns:
        (B,).
    """
    v = full_precision(lengths)
    present = (upper - v).clamp_min(0).square()
    absent = down_weight * (v - lower).clamp_min(0).square()
    return torch.where(truth, present, absent).sum(dim=1)


class MarginLoss(nn.Module):
    """The margin loss of Sabour et al., 2017 (Eq. 4).

    Call it as loss(lengths, targets): lengths (B, K), targets class indices (B,) or zeros and ones (B, K).

    Args:
        upper, lower, down_weight: As in `margin_loss`.
        reduction: "mean" or "sum" over the batch, or "none".
    """

    def __init__(
        self, upper: float = 0.9, lower: float = 0.1, down_weight: float = 0.5, reduction: Reduction = "mean"
    ) -> None:
        super().__init__()
        check_choice("MarginLoss", "reduction", reduction, ("mean", "sum", "none"))
        self.upper, self.lower, self.down_weight = upper, lower, down_weight
        self.reduction: Reduction = reduction

    def forward(self, lengths: Tensor, targets: Tensor) -> Tensor:
        truth = matching_truth(lengths, targets)
        losses = margin_loss(lengths, truth, upper=self.upper, lower=self.lower, down_weight=self.down_weight)
        return reduce(losses, self.reduction)


class MarginHead(Head):
    """Base class of the heads whose true class's capsule is driven away from the centre."""

    loss = "margin"

    def make_loss(self, **options: Any) -> nn.Module:
        return MarginLoss()


class SquashedHead(CapsuleLayer, MarginHead):
    """N2, CapsNet-like: linear → batch-norm → squash; the longest capsule wins (margin loss)."""

    norms = NORMS

    def forward(self, features: Tensor) -> Tensor:
        return squash(self.vectors(features))


class CentrifugalHead(HitOrMiss, MarginHead):
    """N2b: the capsules of HitNet, but the capsule farthest from the centre wins (margin loss)."""

    norms = NORMS
    centre = CENTRE


class SquashedHitOrMissHead(CapsuleLayer, Head):
    """HitNet with squash: linear → batch-norm → squash, centripetal towards O = (0, …, 0).

    The paper gives one sentence ("if the squashing function is used in HitNet"). This is our reading: squash replaces
    the sigmoid, so capsules fill the unit ball with the centre O. The true class's capsule must hit O (m = 0.1), and
    the others must miss it (m' = 0.9 of at most 1). The loss and the rest do not change.
    """

    loss = "centripetal"
    loss_options = ("miss_weight", "ghosts", "ghost_rule", "ghost_probability")
    norms = NORMS
    nearest_wins = True

    def forward(self, features: Tensor) -> Tensor:
        return squash(self.vectors(features))

    def make_loss(self, **options: Any) -> nn.Module:
        return CentripetalLoss(capsule_dim=self.capsule_dim, farthest=1.0, **options)


class PrimaryCapsules(PaperFeatures):
    """CapsNet's features: the paper's convolutions without the second ReLU, 8 channels of a place side by side."""

    def forward(self, images: Tensor) -> Tensor:
        maps = self.maps(images, relu=False)
        return maps.unflatten(1, (32, 8)).permute(0, 1, 3, 4, 2).flatten(1)


class RoutingHead(MarginHead):
    """CapsNet: squashed primary capsules of 8 components vote for K capsules; routing takes three iterations."""

    def __init__(self, in_features: int, num_classes: int, capsule_dim: int = 16) -> None:
        super().__init__()
        if in_features % 8:
            raise HitNetError(f"RoutingHead: in_features must be a multiple of 8; got {in_features}.")
        weight = torch.empty(in_features // 8, 8, num_classes, capsule_dim)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=0.1))

    def forward(self, features: Tensor) -> Tensor:
        primary = squash(features.unflatten(1, (-1, 8)))
        votes = torch.einsum("bip,ipkn->bikn", primary.to(self.weight.dtype), self.weight)
        return dynamic_routing(votes)


register_features("primary-capsules", PrimaryCapsules)
register_head("squash", SquashedHead)
register_head("centrifugal", CentrifugalHead)
register_head("hit-or-miss-squash", SquashedHitOrMissHead)
register_head("routing", RoutingHead)
register_model("n2", "CapsNet-like network of the paper: squash, margin loss, same decoder", head="squash")
register_model("n2b", "HitNet's capsules with the centrifugal margin loss, same decoder", head="centrifugal")
register_model(
    "hitnet-squash",
    "HitNet with squash for sigmoid: capsules hit the centre of the unit ball",
    head="hit-or-miss-squash",
)
register_model(
    "capsnet",
    "CapsNet of Sabour et al. (2017) with dynamic routing in three iterations",
    features="primary-capsules",
    head="routing",
)
