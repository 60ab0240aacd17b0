"""What a judge says of labels, as an object, and what features say: heads and nearest neighbours, on one scale.

Hit-or-Miss heads, softmax heads, least squares and neighbours make different mistakes: together they find more wrong
labels than any of them. Probabilities join the distances of capsules as −m · ln p, m the hit radius, so that
−distance / m is a logit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hitnet.capsules import HIT_RADIUS
from hitnet.features.heads import fit_heads
from hitnet.features.neighbours import neighbour_votes

NEIGHBOURS = 20
FLOOR = 0.02  # added to a share of neighbours: no neighbour of a class is no proof against it


@dataclass(frozen=True)
class Opinion:
    """What one judge says of N images and K classes.

    Attributes:
        kind: What to call the judge: "networks", "Hit-or-Miss heads", "softmax heads", "least squares" and so on.
        distances: (N, K) float32, the lower the better the class fits; float16 where they are kept for a review.
        in_sample: Whether the judge was trained on the label that it judges.
        capsules: Whether these are distances of capsules, for which hits and misses mean what they mean in the paper.
        weight: How much a judge that was trained on the labels counts beside those that were not (see
            audit/cross_fit.py). None: not at all.
    """

    kind: str
    distances: np.ndarray
    in_sample: bool = False
    capsules: bool = False
    weight: float | None = None


def all_distances(opinions: Iterable[Opinion]) -> np.ndarray:
    """The distances of M opinions, (M, N, K)."""
    return np.stack([opinion.distances for opinion in opinions])


def judge_features(
    features: Tensor,
    labels: Tensor,
    num_classes: int,
    *,
    repeats: int = 1,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> tuple[Opinion, ...]:
    """Judge labels (N,) by heads and least squares on features (N, D) that have not seen the image, and by neighbours.

    `repeats` heads of either kind judge each image; `seed` decides folds, first weights, batches and dropout.
    """
    rows = features.to(device)
    fits = [fit_heads(rows, labels, num_classes, seed=seed + repeat, device=device) for repeat in range(repeats)]
    heads = [Opinion("Hit-or-Miss heads", fit.distances.numpy(), capsules=True) for fit in fits]
    softmax = [Opinion("softmax heads", (-HIT_RADIUS * fit.log_probabilities).numpy()) for fit in fits]
    squares = Opinion("least squares", (1 - fits[0].least_squares).numpy())
    return (*heads, *softmax, squares, judge_neighbours(rows, labels, num_classes))


def judge_neighbours(features: Tensor, labels: Tensor, num_classes: int, count: int = NEIGHBOURS) -> Opinion:
    """Judge every label by the labels of the most similar other images; features are (N, D)."""
    votes = neighbour_votes(features, labels, num_classes, count).cpu()
    return Opinion(f"{count} neighbours", (-HIT_RADIUS * torch.log(votes + FLOOR)).numpy())
