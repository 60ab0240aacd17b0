"""How many labels are wrong, and with what probability each: from distances of networks that have not seen the labels.

A model of how labels come about is fitted to the distances d (N, K) and the given labels y (N,), by expectation and
maximisation in turn:

    P(true class k | image) = softmax(−d / T)ₖ
    P(given label j | true class k) = Q(k, j)

T says how sure the distances are, Q which classes are mistaken for which, and how often. Q is pulled towards evenness
by `strength` imagined labels per class, so that hard classes are not taken for wrong labels. An image's label is wrong
with probability 1 − P(true class is y | image, y).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression, minimize_scalar

from hitnet.audit.scores import Floats, Ints

STRENGTH = 300.0
ROUNDS = 25
FIRST_RATE = 0.05
TEMPERATURES = (0.01, 0.5)
LARGEST = 2 * 10**7  # distances that the model is fitted to; of larger sets, images are drawn evenly


@dataclass(frozen=True)
class LabelModel:
    """The fitted model.

    Attributes:
        temperature: T.
        confusion: Q (K, K), by true class and given label; rows sum to 1.
        wrong: (N,), the probability that each label is wrong.
    """

    temperature: float
    confusion: Floats
    wrong: Floats


def class_probabilities(distances: Floats, temperature: float) -> Floats:
    """softmax(−d / T) of distances (N, K): (N, K), rows sum to 1."""
    exponents = -distances / temperature
    likely = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return likely / likely.sum(axis=1, keepdims=True)


def fit_label_model(distances: Floats, labels: Ints, *, strength: float = STRENGTH) -> LabelModel:
    """Fit the model to mean distances (N, K) out of sample, and given labels (N,)."""
    count, classes = distances.shape
    drawn = slice(None, None, max(1, -(-count * classes // LARGEST)))
    all_distances, all_labels = distances, labels
    distances, labels = distances[drawn], labels[drawn]
    confusion = np.full((classes, classes), FIRST_RATE / (classes - 1))
    np.fill_diagonal(confusion, 1 - FIRST_RATE)
    temperature = _best_temperature(distances, labels, confusion)
    for _ in range(ROUNDS):
        posterior = _posterior(distances, labels, temperature, confusion)
        confusion = _best_confusion(posterior, labels, strength)
        temperature = _best_temperature(distances, labels, confusion)
    wrong = np.empty(count)
    block = max(1, LARGEST // classes)
    for start in range(0, count, block):
        part = slice(start, start + block)
        posterior = _posterior(all_distances[part], all_labels[part], temperature, confusion)
        wrong[part] = 1 - posterior[np.arange(len(posterior)), all_labels[part]]
    return LabelModel(temperature, confusion, wrong)


def along(doubt: Floats, wrong: Floats) -> Floats:
    """Probabilities (N,) that rise with the doubt (N,) and are nearest to `wrong`; their sum is the same."""
    order = np.argsort(doubt, kind="stable")
    rising = np.empty(len(doubt))
    rising[order] = isotonic_regression(wrong[order]).x
    return rising.clip(0, 1)


def _posterior(distances: Floats, labels: Ints, temperature: float, confusion: Floats) -> Floats:
    """P(true class | image, given label): (N, K)."""
    joint = class_probabilities(distances, temperature) * confusion[:, labels].T
    return joint / joint.sum(axis=1, keepdims=True).clip(1e-300)


def _best_confusion(posterior: Floats, labels: Ints, strength: float) -> Floats:
    classes = posterior.shape[1]
    counts = np.stack([posterior[labels == given].sum(axis=0) for given in range(classes)], axis=1)
    errors = counts - np.diag(np.diag(counts))
    rate = errors.sum() / counts.sum()
    confusion = (errors + strength * rate / (classes - 1)) / (counts.sum(axis=1, keepdims=True) + strength)
    np.fill_diagonal(confusion, 0)
    np.fill_diagonal(confusion, 1 - confusion.sum(axis=1))
    return confusion


def _best_temperature(distances: Floats, labels: Ints, confusion: Floats) -> float:
    """The T under which the given labels are most likely."""

    def loss(logarithm: float) -> float:
        joint = class_probabilities(distances, float(np.exp(logarithm))) * confusion[:, labels].T
        return -float(np.log(joint.sum(axis=1).clip(1e-300)).mean())

    low, high = np.log(TEMPERATURES)
    return float(np.exp(minimize_scalar(loss, bounds=(low, high), method="bounded").x))
