"""Predictions for single images: a class, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hitnet.capsules import HIT_RADIUS, MISS_RADIUS
from hitnet.data import read_image
from hitnet.training.device import pick_device
from hitnet.training.evaluation import class_distances
from hitnet.training.runs import Run, open_run


@dataclass(frozen=True)
class Prediction:
    """The prediction for one image.

    Attributes:
        image: The image file.
        label: The winning class, or None if every capsule misses: none of these.
        distance: Distance of the winning class's capsule from the centre; for networks other than HitNet, the entry of
            their prediction vector, where the largest wins.
        verdict: "hit" (within m = 0.1), "miss" (beyond m' = 0.9) or "near"; None for networks other than HitNet.
        runner_up: The second-best class.
        runner_up_distance: Its distance.
    """

    image: str
    label: str | None
    distance: float
    verdict: str | None
    runner_up: str
    runner_up_distance: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def verdict(distance: float) -> str:
    if distance <= HIT_RADIUS:
        return "hit"
    return "miss" if distance >= MISS_RADIUS else "near"


def predict(run: Run | str | Path, images: Sequence[str | Path], *, device: str = "auto") -> list[Prediction]:
    """Classify image files, each brought to the size that the network was trained on.

    Args:
        run: A run, or its folder.
        images: Image files.
        device: auto, cpu or cuda.
    """
    trained = run if isinstance(run, Run) else open_run(run)
    if not images:
        return []
    pixels = torch.stack([read_image(path, trained.config.model.in_shape) for path in images])
    distances = class_distances(trained.model.to(pick_device(device)), pixels).cpu()
    return [make_prediction(trained, str(path), row) for path, row in zip(images, distances, strict=True)]


def make_prediction(run: Run, image: str, distances: Tensor) -> Prediction:
    head = run.model.head
    values, order = distances.sort(descending=not head.nearest_wins)
    best, second = float(values[0]), float(values[1])
    judged = verdict(best) if head.loss == "centripetal" else None
    return Prediction(
        image=image,
        label=None if judged == "miss" else run.class_names[int(order[0])],
        distance=best,
        verdict=judged,
        runner_up=run.class_names[int(order[1])],
        runner_up_distance=second,
    )
