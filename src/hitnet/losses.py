"""The centripetal loss of HitNet, with ghost capsules, and the margin loss that it is compared with."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from hitnet.capsules import HIT_RADIUS, MISS_RADIUS, full_precision, one_hot
from hitnet.errors import HitNetError, check_choice, finite, whole

Reduction = Literal["mean", "sum", "none"]
GhostRule = Literal["always", "nearer"]
MISS_WEIGHT = 0.5  # λ of the paper


def staircase(x: Tensor, *, step: float, height: float, start: float) -> Tensor:
    """L_{l,h,m}(x) = H{x−m} (f+1) h (x − m − 0.5 f l), f = ⌊(x−m)/l⌋ (Eq. 2).

    Its derivative is zero on [0, m] and then climbs by `height` every `step`.
    """
    excess = (x - start).clamp_min(0)
    stairs = torch.floor(excess.detach() / step)
    return (stairs + 1) * height * (excess - 0.5 * step * stairs)


def ghost_mask(
    distances: Tensor,
    truth: Tensor,
    *,
    ghosts: int,
    rule: GhostRule = "always",
    probability: float = 1.0,
) -> Tensor:
    """Which capsules (B, K) are ghosts: the `ghosts` closest ones to the centre that are not of a true class.

    rule         "always" (the paper), or "nearer": only where the capsule is nearer than the true class's own
    probability  chance that an image's ghosts are let go unpunished at this step (paper: 1)
    """
    away = distances.detach().masked_fill(truth, math.inf)
    nearest = away.topk(min(ghosts, distances.shape[1]), dim=1, largest=False).indices
    chosen = torch.zeros_like(truth).scatter_(1, nearest, True) & ~truth
    if rule == "nearer":
        own = distances.detach().masked_fill(~truth, math.inf).amin(dim=1, keepdim=True)
        chosen = chosen & (distances.detach() < own)
    if probability < 1:
        chosen = chosen & (torch.rand(len(distances), 1, device=distances.device) < probability)
    return chosen


def centripetal_loss(
    distances: Tensor,
    truth: Tensor,
    *,
    hit_radius: float = HIT_RADIUS,
    miss_radius: float = MISS_RADIUS,
    hit_step: float = 0.1,
    hit_height: float = 0.2,
    miss_step: float = 0.1,
    miss_height: float = 0.2,
    miss_weight: float = MISS_WEIGHT,
    excused: Tensor | None = None,
) -> Tensor:
    """The centripetal loss of each image (Eq. 3): distances and truth (boolean), both (B, K) → (B,).

    Σ_k y_k L_{l,h,m}(d_k) + λ (1 − y_k) L_{l',h',√n/2−m'}(√n/2 − d_k). The second argument less its start is
    m' − d_k whatever n is, which is how it is computed. Capsules that are `excused` (ghosts, Eq. 4) cost nothing.
    """
    d = full_precision(distances)
    hit = staircase(d, step=hit_step, height=hit_height, start=hit_radius)
    miss = miss_weight * staircase(miss_radius - d, step=miss_step, height=miss_height, start=0.0)
    if excused is not None:
        miss = miss.masked_fill(excused, 0)
    return torch.where(truth, hit, miss).sum(dim=1)


def reduce(values: Tensor, reduction: Reduction) -> Tensor:
    if reduction == "mean":
        return values.mean()
    return values.sum() if reduction == "sum" else values


class CentripetalLoss(nn.Module):
    """Centripetal loss (Eqs. 2 and 3), summed over classes; with ghosts > 0, Eq. 4.

    Called as loss(distances, targets) with distances (B, K) and targets (B,) class indices or (B, K) zeros
    and ones. The paper's values are the defaults: m = hit_radius = 0.1, m' = miss_radius = 0.9,
    l = l' = 0.1 (steps), h = h' = 0.2 (heights), λ = miss_weight = 0.5, n = capsule_dim = 16.

    ghosts             how many of the closest capsules of other classes go unpunished (paper: 1; 0 = off);
                       with two classes, one ghost leaves no capsule that must miss
    ghost_rule         "always" (paper) or "nearer": only where the ghost is nearer than the true class's capsule
    ghost_probability  chance that an image's ghosts go unpunished at a step (paper: 1)
    """

    def __init__(
        self,
        capsule_dim: int = 16,
        hit_radius: float = HIT_RADIUS,
        miss_radius: float = MISS_RADIUS,
        hit_step: float = 0.1,
        hit_height: float = 0.2,
        miss_step: float = 0.1,
        miss_height: float = 0.2,
        miss_weight: float = MISS_WEIGHT,
        reduction: Reduction = "mean",
        *,
        ghosts: int = 0,
        ghost_rule: GhostRule = "always",
        ghost_probability: float = 1.0,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        capsule_dim, ghosts = whole(owner, "capsule_dim", capsule_dim, 1), whole(owner, "ghosts", ghosts, 0)
        hit_step = finite(owner, "hit_step", hit_step, above_0=True)
        miss_step = finite(owner, "miss_step", miss_step, above_0=True)
        hit_radius, miss_radius = finite(owner, "hit_radius", hit_radius), finite(owner, "miss_radius", miss_radius)
        hit_height, miss_height = finite(owner, "hit_height", hit_height), finite(owner, "miss_height", miss_height)
        miss_weight = finite(owner, "miss_weight", miss_weight)
        farthest = math.sqrt(capsule_dim) / 2
        if miss_radius >= farthest:
            raise HitNetError(
                f"CentripetalLoss: capsules of {capsule_dim} numbers are at most {farthest:.2f} from the centre, so "
                f"none could miss it by {miss_radius}. Take a larger capsule_dim, or a smaller miss_radius."
            )
        if not 0 <= ghost_probability <= 1:
            raise HitNetError(f"CentripetalLoss: ghost_probability must be in [0, 1]; got {ghost_probability}.")
        check_choice("CentripetalLoss", "reduction", reduction, ("mean", "sum", "none"))
        check_choice("CentripetalLoss", "ghost_rule", ghost_rule, ("always", "nearer"))
        self.capsule_dim = capsule_dim
        self.hit_radius, self.miss_radius, self.miss_weight = hit_radius, miss_radius, miss_weight
        self.hit_step, self.hit_height = hit_step, hit_height
        self.miss_step, self.miss_height = miss_step, miss_height
        self.ghosts, self.ghost_rule, self.ghost_probability = ghosts, ghost_rule, ghost_probability
        self.reduction: Reduction = reduction

    def forward(self, distances: Tensor, targets: Tensor) -> Tensor:
        truth = matching_truth(distances, targets)
        excused = None
        if self.ghosts:
            excused = ghost_mask(
                distances, truth, ghosts=self.ghosts, rule=self.ghost_rule, probability=self.ghost_probability
            )
        losses = centripetal_loss(
            distances,
            truth,
            hit_radius=self.hit_radius,
            miss_radius=self.miss_radius,
            hit_step=self.hit_step,
            hit_height=self.hit_height,
            miss_step=self.miss_step,
            miss_height=self.miss_height,
            miss_weight=self.miss_weight,
            excused=excused,
        )
        return reduce(losses, self.reduction)


def margin_loss(
    lengths: Tensor, truth: Tensor, *, upper: float = 0.9, lower: float = 0.1, down_weight: float = 0.5
) -> Tensor:
    """T_k max(0, m⁺ − |v_k|)² + λ (1 − T_k) max(0, |v_k| − m⁻)², summed over classes: (B, K) → (B,)."""
    v = full_precision(lengths)
    present = (upper - v).clamp_min(0).square()
    absent = down_weight * (v - lower).clamp_min(0).square()
    return torch.where(truth, present, absent).sum(dim=1)


class MarginLoss(nn.Module):
    """The margin loss of Sabour et al., 2017 (Eq. 4); m⁺ = 0.9, m⁻ = 0.1, λ = 0.5.

    Called as loss(lengths, targets) with lengths (B, K) and targets (B,) class indices or (B, K) zeros and ones.
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


def matching_truth(predictions: Tensor, targets: Tensor) -> Tensor:
    """Targets as booleans (B, K) that fit the predictions (B, K), or an error that names both shapes."""
    if predictions.ndim != 2:
        raise HitNetError(f"The loss takes one number a class, (B, K); got shape {tuple(predictions.shape)}.")
    truth = one_hot(targets, predictions.shape[1])
    if len(truth) != len(predictions):
        raise HitNetError(f"The loss got {len(predictions)} images but {len(truth)} targets.")
    return truth
