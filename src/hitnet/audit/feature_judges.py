"""What features say of labels: heads of two kinds, least squares and nearest neighbours, on one scale.

They make different mistakes: together they find more wrong labels than any of them. Hit-or-Miss heads, least squares
and neighbours tell first how errors came about (noise_model.py); softmax heads learn with that knowledge.
"""

import torch
from torch import Tensor

from hitnet.audit.noise_model import fit_noise_model
from hitnet.audit.scoring import logits_by_kind
from hitnet.capsules import HIT_RADIUS
from hitnet.features.heads import fit_heads
from hitnet.features.opinions import Opinion, judge_neighbours
from hitnet.features.softmax_heads import fit_softmax_heads


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
    rows, seeds = features.to(device), range(seed, seed + repeats)
    fits = [fit_heads(rows, labels, num_classes, seed=each, device=device) for each in seeds]
    heads = [Opinion("Hit-or-Miss heads", fit.distances.numpy(), capsules=True) for fit in fits]
    squares = Opinion("least squares", (1 - fits[0].least_squares).numpy())
    neighbours = judge_neighbours(rows, labels, num_classes)
    errors = fit_noise_model(logits_by_kind([*heads, squares, neighbours]), labels).errors
    softmax = [
        Opinion(
            "softmax heads", (-HIT_RADIUS * fit_softmax_heads(rows, labels, errors, seed=each, device=device)).numpy()
        )
        for each in seeds
    ]
    return (*heads, *softmax, squares, neighbours)
