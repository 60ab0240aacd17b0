"""Predictions for single images: a class, or none of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from hitnet.capsules import HIT_RADIUS, MISS_RADIUS
from hitnet.data import read_image
from hitnet.errors import HitNetError
from hitnet.inference import DecisionRule, Prediction, is_onnx, predict_onnx
from hitnet.training.device import pick_device
from hitnet.training.evaluation import class_distances
from hitnet.training.runs import Run, open_run


def predict(run: Run | str | Path, images: Sequence[str | Path], *, device: str = "auto") -> list[Prediction]:
    """Classify image files, each brought to the size that the network was trained on.

    Args:
        run: A run, its folder, or an .onnx file that `export_run` wrote.
        images: Image files.
        device: auto, cpu or cuda. ONNX files run on the CPU.
    """
    if not isinstance(run, Run) and is_onnx(run):
        if device == "cuda":
            raise HitNetError("ONNX files run on the CPU. Leave out `device`, or give the run folder.")
        return predict_onnx(run, images)
    trained = run if isinstance(run, Run) else open_run(run)
    if not images:
        return []
    pixels = torch.stack([read_image(path, trained.config.model.in_shape) for path in images])
    distances = class_distances(trained.model.to(pick_device(device)), pixels).cpu().numpy()
    rule = decision_rule(trained)
    return [rule.predict(str(path), row) for path, row in zip(images, distances, strict=True)]


def decision_rule(run: Run) -> DecisionRule:
    """How the distances of a run's network become a class."""
    head = run.model.head
    radii = (HIT_RADIUS, MISS_RADIUS) if head.loss == "centripetal" else None
    return DecisionRule(run.class_names, head.nearest_wins, radii)
