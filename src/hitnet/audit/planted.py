"""How much networks count that were trained on the labels they judge: found on labels that are made wrong on purpose.

Such networks know most labels by heart, wrong ones too. Labels that they have seen cannot tell how far to trust their
doubts. So a small share of the labels is replaced before training. Of these planted labels it is known that
they are wrong: the networks get the weight with which the doubt tells planted labels from others best. Where networks
only know labels by heart, as of 200 classes of 40 images, this is 0: then the order is that of the heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hitnet.audit.margins import Floats
from hitnet.audit.noise_model import fit_noise_model
from hitnet.audit.scoring import capsule_opinions, freed_logits, log_odds, logits_by_kind
from hitnet.features.opinions import Opinion, all_distances

SHARE = 0.03  # of the labels
WEIGHTS = tuple(k / 10 for k in range(11))
STEPS = 30


def plant_errors(labels: Tensor, num_classes: int, seed: int) -> Tensor:
    """Labels (N,) of which a share is replaced by any other class; the same for the same seed."""
    draw = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(labels), generator=draw)[: round(SHARE * len(labels))]
    planted = labels.clone()
    if num_classes > 1:
        other = torch.randint(1, num_classes, (len(chosen),), generator=draw)
        planted[chosen] = (labels[chosen] + other) % num_classes
    return planted


def weigh_networks(
    seen: Sequence[Opinion], unseen: Sequence[Opinion], labels: Tensor, planted: Tensor
) -> tuple[Opinion, ...]:
    """The opinions of networks with their weight, which is 0 where they saw a planted label: there, heads stand in.

    Args:
        seen: Opinions of networks that were trained on `planted` (N,).
        unseen: Opinions of judges that have not seen the labels (N,) that they judge.
    """
    chosen = (planted != labels).numpy()
    weight = np.where(chosen, 0, seen_weight(seen, unseen, labels, planted))
    instead = all_distances(capsule_opinions(unseen)).mean(axis=0)
    return tuple(
        replace(each, distances=np.where(chosen[:, None], instead, each.distances), weight=weight) for each in seen
    )


def seen_weight(seen: Sequence[Opinion], unseen: Sequence[Opinion], labels: Tensor, planted: Tensor) -> float:
    """The weight of networks under which it is likeliest which labels are planted; the lowest of several, e.g. 0.

    A label that is not planted counts by its probability of being right: one that was wrong before is no evidence.
    """
    model = fit_noise_model(logits_by_kind(unseen), labels)
    joint = (model.log_prior + model.errors.log().T[planted]).double()
    freed, chosen = freed_logits(seen, planted).double(), planted != labels
    right = model.posterior.gather(1, labels[:, None])[:, 0].double()
    counts = torch.where(chosen, 1.0, right).numpy()

    def likelihood(weight: float) -> float:
        return logistic_likelihood(log_odds(joint + weight * freed, planted)[0], chosen.numpy(), counts)

    return max(WEIGHTS, key=likelihood) if chosen.any() else 0.0


def logistic_likelihood(values: Floats, event: np.ndarray, counts: Floats) -> float:
    """ln of the highest likelihood of events (N,) of the probability 1 / (1 + exp(−a · value − b)), by Newton's method.

    Each of the N counts as often as `counts` (N,) tells.
    """
    scaled = (values - values.mean()) / max(float(values.std()), 1e-9)
    columns, fit = np.stack([scaled, np.ones_like(scaled)], axis=1), np.zeros(2)

    def total(fit: Floats) -> float:
        signed = np.where(event, 1, -1) * (columns @ fit)
        return float(-(counts * np.logaddexp(0, -signed)).sum() - fit @ fit / 2e3)  # no maximum at infinity

    for _ in range(STEPS):
        probability = 0.5 + np.tanh(columns @ fit / 2) / 2
        gradient = columns.T @ (counts * (event - probability)) - fit / 1e3
        curvature = columns.T @ (columns * (counts * probability * (1 - probability))[:, None]) + np.eye(2) / 1e3
        step = np.linalg.solve(curvature, gradient)
        while total(fit + step) < total(fit) and np.abs(step).max() > 1e-9:  # too long a step
            step = step / 2
        fit = fit + step
    return total(fit)
