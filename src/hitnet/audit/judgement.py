"""What is judged, and what judges say of it: between who judges and how their opinions are scored."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hitnet.data import Data, ImageSet
from hitnet.features.neighbours import Neighbours
from hitnet.features.opinions import Opinion
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


def join(parts: Sequence[Judgement]) -> Judgement:
    """Several judgements of the same images as one; prototypes and features are the first that there are."""
    pictured = next((part for part in parts if part.prototypes is not None), parts[0])
    return Judgement(
        tuple(opinion for part in parts for opinion in part.opinions),
        parts[0].images,
        ", ".join(part.model for part in parts),
        tuple(network for part in parts for network in part.networks),
        pictured.prototypes,
        pictured.typical,
        *next(((part.features, part.neighbours) for part in parts if part.features is not None), (None, None)),
    )
