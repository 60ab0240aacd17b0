"""What a judge says of labels, as an object, and what the most similar images say.

Probabilities join the distances of capsules as −m · ln p, m the hit radius, so that −distance / m is a logit.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hitnet.capsules import HIT_RADIUS
from hitnet.features.neighbours import neighbour_votes

NEIGHBOURS = 20
FLOOR = 0.02  # added to a share of neighbours: no neighbour of a class is no proof against it


@dataclass(frozen=True)
class Opinion:
    """What one judge says of N images and K classes.

    Attributes:
        kind: What to call the judge: "networks", "Hit-or-Miss heads", "softmax heads", "20 neighbours" and so on.
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


def judge_neighbours(features: Tensor, labels: Tensor, num_classes: int, count: int = NEIGHBOURS) -> Opinion:
    """Judge every label by the labels of the most similar other images; features are (N, D)."""
    votes = neighbour_votes(features, labels, num_classes, count).cpu()
    return Opinion(f"{count} neighbours", (-HIT_RADIUS * torch.log(votes + FLOOR)).numpy())
