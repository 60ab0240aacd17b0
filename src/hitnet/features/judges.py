"""All that features say of labels: Hit-or-Miss heads, softmax heads and nearest neighbours, on one scale.

The three make different mistakes: together they find more wrong labels than any of them. Probabilities join the
distances of capsules as −m · ln p, m the hit radius, since the audit's score is the logistic function of a difference
of distances in units of m.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hitnet.capsules import HIT_RADIUS
from hitnet.features.heads import HeadOptions, fit_heads
from hitnet.features.neighbours import neighbour_votes

NEIGHBOURS = (10, 20)
FLOOR = 0.02  # added to a share of neighbours: no neighbour of a class is no proof against it
SOFTMAX = HeadOptions(loss="softmax", repeats=3, steps=100, learning_rate=3e-3)
HIT_OR_MISS = HeadOptions(repeats=3)


@dataclass(frozen=True)
class FeatureJudgement:
    """What M judges say of N images and K classes.

    Attributes:
        distances: (M, N, K) float32, the lower the better the class fits: Hit-or-Miss heads first, then softmax heads,
            then neighbours.
        capsules: How many of the M, from the first on, are distances of capsules, for which hits and misses mean what
            they mean in the paper.
        kinds: What to call each of the M.
    """

    distances: Tensor
    capsules: int
    kinds: tuple[str, ...]


def judge_features(
    features: Tensor,
    labels: Tensor,
    num_classes: int,
    *,
    repeats: int = 3,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> FeatureJudgement:
    """Judge every label by heads that have not seen the image, and by its neighbours.

    Args:
        features: (N, D), or (V, N, D) for V views of each image.
        labels: (N,) class indices.
        num_classes: K.
        repeats: Heads of each kind per image.
        seed: Decides folds, first weights, batches and dropout.
        device: Where to compute.
    """
    capsules = fit_heads(
        features, labels, num_classes, options=replace(HIT_OR_MISS, repeats=repeats), seed=seed, device=device
    )
    softmax = fit_heads(
        features, labels, num_classes, options=replace(SOFTMAX, repeats=repeats), seed=seed, device=device
    )
    rows = features if features.ndim == 2 else features.float().mean(dim=0)
    votes = torch.stack([neighbour_votes(rows.to(device), labels, num_classes, k).cpu() for k in NEIGHBOURS])
    scaled = [-HIT_RADIUS * softmax, -HIT_RADIUS * torch.log(votes + FLOOR)]
    kinds = ["Hit-or-Miss heads"] * len(capsules) + ["softmax heads"] * len(softmax)
    kinds += [f"{k} neighbours" for k in NEIGHBOURS]
    return FeatureJudgement(torch.cat([capsules, *scaled]), len(capsules), tuple(kinds))
