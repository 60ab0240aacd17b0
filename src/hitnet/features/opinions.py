"""What a judge says of labels, as an object, and what features say: heads and nearest neighbours, on one scale.

Hit-or-Miss heads, softmax heads and neighbours make different mistakes: together they find more wrong labels than any
of them. Probabilities join the distances of capsules as −m · ln p, m the hit radius, since the audit's score is the
logistic function of a difference of distances in units of m.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
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
class Opinion:
    """What one judge says of N images and K classes.

    Attributes:
        kind: What to call the judge: "networks", "Hit-or-Miss heads", "softmax heads", "10 neighbours".
        distances: (N, K) float32, the lower the better the class fits; float16 where they are kept for a review.
        in_sample: Whether the judge was trained on the label that it judges.
        capsules: Whether these are distances of capsules, for which hits and misses mean what they mean in the paper.
    """

    kind: str
    distances: np.ndarray
    in_sample: bool = False
    capsules: bool = False


def all_distances(opinions: Iterable[Opinion]) -> np.ndarray:
    """The distances of M opinions, (M, N, K)."""
    return np.stack([opinion.distances for opinion in opinions])


def judge_features(
    features: Tensor,
    labels: Tensor,
    num_classes: int,
    *,
    repeats: int = 3,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> tuple[Opinion, ...]:
    """Judge every label by heads that have not seen the image, and by its neighbours.

    Args:
        features: (N, D), or (V, N, D) for V views of each image.
        labels: (N,) class indices.
        num_classes: K.
        repeats: Heads of each kind per image.
        seed: Decides folds, first weights, batches and dropout.
        device: Where to compute.
    """

    def heads(options: HeadOptions) -> Tensor:
        options = replace(options, repeats=repeats)
        return fit_heads(features, labels, num_classes, options=options, seed=seed, device=device)

    capsules = [Opinion("Hit-or-Miss heads", each.numpy(), capsules=True) for each in heads(HIT_OR_MISS)]
    softmax = [Opinion("softmax heads", each.numpy()) for each in -HIT_RADIUS * heads(SOFTMAX)]
    rows = features if features.ndim == 2 else features.float().mean(dim=0)
    return (*capsules, *softmax, *judge_neighbours(rows.to(device), labels, num_classes))


def judge_neighbours(features: Tensor, labels: Tensor, num_classes: int) -> tuple[Opinion, ...]:
    """Judge every label by the labels of the most similar other images; features are (N, D)."""
    opinions = []
    for k in NEIGHBOURS:
        votes = neighbour_votes(features, labels, num_classes, k).cpu()
        opinions.append(Opinion(f"{k} neighbours", (-HIT_RADIUS * torch.log(votes + FLOOR)).numpy()))
    return tuple(opinions)
