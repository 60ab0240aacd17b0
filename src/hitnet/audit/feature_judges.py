"""What features say of labels: heads of two kinds, least squares and nearest neighbours, on one scale.

They make different mistakes: together they find more wrong labels than any of them. Hit-or-Miss heads, least squares
and neighbours tell first how errors came about (noise_model.py); softmax heads learn with that knowledge.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from hitnet.audit.noise_model import fit_noise_model
from hitnet.audit.scoring import logits_by_kind
from hitnet.capsules import HIT_RADIUS
from hitnet.features.heads import HeadOptions, train_heads
from hitnet.features.neighbours import Neighbours, nearest
from hitnet.features.opinions import NEIGHBOURS, Ints, Opinion, keep_near, neighbour_distances, rows_at_once
from hitnet.features.softmax_heads import fit_softmax_heads
from hitnet.runtime.progress import Progress


def steps_of_heads(images: int, repeats: int) -> int:
    """How many steps of training heads of both kinds take."""
    return 2 * repeats * HeadOptions().steps_for(images)


def judge_features(
    features: Tensor,
    labels: Tensor,
    num_classes: int,
    *,
    repeats: int = 1,
    seed: int = 0,
    device: torch.device | str = "cpu",
    neighbours: Neighbours | None = None,
    classes: Ints | None = None,
    progress: Progress = Progress(),
) -> tuple[Opinion, ...]:
    """Judge labels (N,) by heads and least squares on features (N, D) that have not seen the image, and by neighbours.

    `repeats` heads of either kind judge each image; `seed` decides folds, first weights, batches and dropout.
    `neighbours` are what `nearest` gives, and `classes` (N, k) those that opinions are kept on, where these are known.
    `progress` is called after each of the `steps_of_heads`.
    """
    rows, seeds = features.to(device), range(seed, seed + repeats)
    near = nearest(rows, NEIGHBOURS, labels) if neighbours is None else neighbours
    how: dict[str, Any] = {"device": device, "progress": progress}
    fits = [train_heads(rows, labels, num_classes, seed=each, **how) for each in seeds]
    parts = torch.arange(len(rows), device=device).split(rows_at_once(num_classes))

    def say() -> Iterator[list[Tensor]]:
        for index in parts:
            votes = neighbour_distances((near[0][index], near[1][index]), labels, num_classes)
            yield [*(fit.judge(index) for fit in fits), 1 - fits[0].left_out(index), votes]

    (*heads, squares, votes), classes = keep_near(say(), labels, classes)
    names = [*["Hit-or-Miss heads"] * repeats, "least squares", f"{NEIGHBOURS} neighbours"]
    kinds = zip(names, (*heads, squares, votes), strict=True)
    first = [Opinion(kind, own, capsules=i < repeats, classes=classes) for i, (kind, own) in enumerate(kinds)]
    at = None if classes is None else torch.from_numpy(classes)
    errors = fit_noise_model(logits_by_kind(first), labels, at, device).errors
    softmax = []
    for each in seeds:
        judge = fit_softmax_heads(rows, labels, errors, seed=each, **how)
        own, _ = keep_near(([-HIT_RADIUS * judge(index)] for index in parts), labels, classes)
        softmax.append(Opinion("softmax heads", own[0], classes=classes))
    return (*first[:repeats], *softmax, *first[repeats:])
