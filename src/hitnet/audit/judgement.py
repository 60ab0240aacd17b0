"""What is judged, and what judges say of it: between who judges and how their opinions are scored."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hitnet.data import Data, ImageSet
from hitnet.features.neighbours import Neighbours
from hitnet.features.opinions import Ints, Opinion, column_of
from hitnet.models.backbones import Backbone
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import SINGLE, Ranks


@dataclass(frozen=True)
class Case:
    """What is judged, and how.

    Attributes:
        data: The opened data.
        images: The images of the split, with the labels to judge; on disk where only heads need them.
        split: train, test or all.
        device: Where to compute.
        folder: Where to keep what is expensive, and to resume it from. None: nowhere.
        progress: Called for each part of the work, its steps, and the epochs of trainings.
        ranks: Processes that share features and trainings; all come to the same judgement.
        backbone: Whose features of the images are kept already, if any.
    """

    data: Data
    images: ImageSet
    split: str
    device: torch.device
    folder: Path | None = None
    progress: Progress = field(default_factory=Progress)
    ranks: Ranks = SINGLE
    backbone: Backbone | None = None


@dataclass(frozen=True)
class Judgement:
    """What judges say of N images.

    Attributes:
        opinions: One per judge.
        images: The images, labelled in the judges' order of classes.
        model: What the summary calls the judges, e.g. "hitnet-small".
        networks: What the summary says of each network or backbone.
        prototypes: The decoded centre of each class, or its most typical image, uint8 (K, C, H, W), where there is one.
        typical: Whether the prototypes are images of the data.
        features: Features (N, D) that show which images are alike, where there are some.
        neighbours: The 20 most similar other images of each, by the features: similarities and numbers (N, 20).
    """

    opinions: tuple[Opinion, ...]
    images: ImageSet
    model: str
    networks: tuple[dict[str, Any], ...] = ()
    prototypes: Tensor | None = None
    typical: bool = False
    features: Tensor | None = None
    neighbours: Neighbours | None = None


def cross_fitted(
    distances: np.ndarray, left_out: Tensor, labels: Tensor, classes: Ints | None = None
) -> tuple[Opinion, Opinion]:
    """Distances (M, N, k) of M ≥ 2 networks, each trained without some of the images, as two opinions.

    The first is that of the network that has not seen an image, `left_out` (N,). The others have learned the label,
    right or wrong. Their opinion helps where they did not simply learn it by heart. The labels that the first network
    contradicts show how often that is: the others count by the share of these that they contradict too.
    """
    unseen = distances[left_out.numpy(), np.arange(distances.shape[1])]
    seen = (distances.sum(axis=0) - unseen) / (len(distances) - 1)
    weight = seen_weight(unseen, seen, column_of(labels.numpy(), classes))
    return (
        Opinion("networks", unseen, capsules=True, classes=classes),
        Opinion("networks", seen, True, True, weight, classes),
    )


def seen_weight(unseen: np.ndarray, seen: np.ndarray, own: Ints) -> float:
    """The share of labels (columns `own`, N) contradicted by `unseen` distances (N, k) that `seen` contradict too."""
    doubted, still = (each.argmin(axis=1) != own for each in (unseen, seen))
    return float(still[doubted].mean()) if doubted.any() else 0.0
