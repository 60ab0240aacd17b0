"""Predictions for single images: a class, or none of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import torch

from hitnet.capsules import HIT_RADIUS, MISS_RADIUS
from hitnet.data import Images, Source, read_image
from hitnet.errors import HitNetError
from hitnet.inference.evaluation import load_for, network_distances
from hitnet.inference.onnx_file import is_onnx, predict_onnx
from hitnet.inference.prediction import DecisionRule, Prediction, check_share
from hitnet.models.inference import class_distances
from hitnet.runtime.device import pick_device
from hitnet.training.runs import Run, open_run

log = logging.getLogger("hitnet")


def predict(
    run: Run | str | Path,
    images: Sequence[str | Path],
    *,
    keep: float | None = None,
    known: Source | None = None,
    device: str = "auto",
) -> list[Prediction]:
    """Classify image files, each brought to the size that the network was trained on.

    Args:
        run: A run, its folder, or an .onnx file that `export_run` wrote.
        images: Image files.
        keep: The share of images of known classes that are to keep their class, e.g. 0.95. An image with a
            larger misfit than theirs is none of the classes. None: it is none of them if every capsule misses.
        known: Data whose test images `keep` is measured on. None: the data that the run was trained on.
        device: auto, cpu or cuda. ONNX files run on the CPU.
    """
    if not isinstance(run, Run) and is_onnx(run):
        if device == "cuda":
            raise HitNetError("ONNX files run on the CPU. Leave out `device`, or give the run folder.")
        if keep is not None or known is not None:
            raise HitNetError("An ONNX file holds its own limit. Give `keep` and `known` when you export the run.")
        return predict_onnx(run, images)
    trained = run if isinstance(run, Run) else open_run(run)
    rule = decision_rule(trained, keep=keep, known=known, device=device)
    if not images:
        return []
    pixels = torch.stack([read_image(path, trained.config.model.in_shape) for path in images])
    distances = class_distances(trained.model.to(pick_device(device)), pixels).cpu().numpy()
    return [rule.predict(str(path), row) for path, row in zip(images, distances, strict=True)]


def decision_rule(
    run: Run, *, keep: float | None = None, known: Source | None = None, device: str = "auto"
) -> DecisionRule:
    """How the distances of a run's network become a class; see `predict` for the arguments."""
    head = run.model.head
    radii = (HIT_RADIUS, MISS_RADIUS) if head.loss == "centripetal" else None
    rule = DecisionRule(run.class_names, head.nearest_wins, radii)
    if keep is None:
        if known is not None:
            raise HitNetError("`known` is the data that `keep` is measured on. Give `keep` too, e.g. 0.95.")
        return rule
    check_share(keep)
    images = held_out(run, known)
    rule = rule.keeping(keep, network_distances(run.model.to(pick_device(device)), images).numpy())
    log.info(
        '"none" beyond a misfit of %.3f: %g %% of %s test images of %s have at most that.',
        rule.largest_misfit,
        100 * keep,
        f"{len(images):,}",
        images.name,
    )
    return rule


def held_out(run: Run, known: Source | None) -> Images:
    """Images of known classes that a run was not trained on."""
    if known is None and not run.config.data.get("test_images"):
        raise HitNetError(
            "`keep` needs images that the network was not trained on, but this run had no test images. Name data with "
            "the same classes as `known`."
        )
    return load_for(run, known)
