"""Distances of several judges, summarised per image, and how doubtful they make labels: pure functions on arrays.

Shapes: distances (M, N, k) of M judges and N images, on all K classes or on classes (N, k), see `Opinion`; labels (N,).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hitnet.capsules import HIT_RADIUS
from hitnet.errors import HitNetError
from hitnet.features.opinions import Ints, class_at, column_of

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Margins:
    """The distances of M judges, summarised per image."""

    mean: Floats  # (N, k), distances averaged over the judges
    spread: Floats  # (N, k), standard deviation of d_given − d_k over the judges
    given_distance: Floats  # (N,), mean distance of the given class's capsule
    ghost: Ints  # (N,), class of the nearest other capsule, by mean distance
    ghost_distance: Floats  # (N,), its mean distance
    margin_mean: Floats  # (N,), mean of d_given − d_nearest-other; above 0, another class is nearer
    margin_std: Floats  # (N,), standard deviation of this margin over the judges
    hits: Ints  # (N,), number of judges for which the given class's capsule is a hit
    classes: Ints | None = None  # (N, k)

    def distance_of(self, numbers: Ints) -> Floats:
        """The mean distance of one class (N,) per image."""
        distance: Floats = self.mean[np.arange(len(numbers)), column_of(numbers, self.classes)]
        return distance


def others(distances: Floats, labels: Ints, classes: Ints | None = None) -> Floats:
    """Distances (…, N, k) with those of the given class, and of all classes without a column, set to infinity."""
    masked = distances.copy()
    masked[..., np.arange(len(labels)), column_of(labels, classes)] = np.inf
    if classes is not None:
        masked[..., -1] = np.inf
    return masked


def margins(distances: npt.NDArray[np.floating], labels: Ints, classes: Ints | None = None) -> Margins:
    """Summarise distances (M, N, k) for labels (N,)."""
    if distances.ndim != 3 or distances.shape[1] != len(labels):
        raise HitNetError(f"distances must be (M, {len(labels)}, K); got {distances.shape}.")
    exact, rows = distances.astype(np.float64), np.arange(len(labels))
    own = column_of(labels, classes)
    mean, given = exact.mean(axis=0), exact[:, rows, own]
    each = given - others(exact, labels, classes).min(axis=2)
    ghost = others(mean, labels, classes).argmin(axis=1)
    return Margins(
        mean=mean,
        spread=(given[:, :, None] - exact).std(axis=0),
        given_distance=mean[rows, own],
        ghost=class_at(ghost, classes),
        ghost_distance=mean[rows, ghost],
        margin_mean=each.mean(axis=0),
        margin_std=each.std(axis=0),
        hits=(given <= HIT_RADIUS).sum(axis=0),
        classes=classes,
    )


class Doubt(NamedTuple):
    """How doubtful N labels are by networks that were trained on them.

    The centripetal loss pulls every image towards its given class, so a given class's capsule that stays far from the
    centre is strong evidence.
    """

    value: Floats  # (N,), higher is more doubtful; above 0, another class is the better label
    rival: Ints  # (N,), the strongest other class


def doubt(evidence: Margins, labels: Ints) -> Doubt:
    """How doubtful each label (N,) is, and in favour of which class: the highest of `advantages` plus `pair_prior`."""
    advantage, at = advantages(evidence, labels), evidence.classes
    classes = advantage.shape[1] if at is None else int(at[0, -1])
    prior = pair_prior(highest(advantage, at), labels, classes)
    # The advantage of all others is −∞ already.
    return highest(advantage + prior[labels if at is None else (labels[:, None], at.clip(max=classes - 1))], at)


def highest(advantage: Floats, classes: Ints | None = None) -> Doubt:
    """The class with the highest advantage (N, k) per image, and that advantage."""
    return Doubt(advantage.max(axis=1), class_at(advantage.argmax(axis=1), classes))


def advantages(evidence: Margins, labels: Ints) -> Floats:
    """By how much each class fits better than the given class (N, k); −∞ for that itself, and for all without a column.

    The mean of d_given − d_k, minus half its spread over the networks (networks that disagree prove less), minus half
    of the difference between the class's median margin and the overall median (a hard class is not a wrong class).
    """
    advantage = evidence.given_distance[:, None] - evidence.mean - 0.5 * evidence.spread
    overall = np.median(evidence.margin_mean)
    for k in np.unique(labels):
        members = labels == k
        advantage[members] -= 0.5 * (np.median(evidence.margin_mean[members]) - overall)
    return -others(-advantage, labels, evidence.classes)


def pair_prior(doubts: Doubt, labels: Ints, classes: int, *, strength: float = 16.0) -> Floats:
    """What each pair of classes, given and other, adds to the doubt (K, K): m ln(r_pair / r) + ½ m ln(n_pair / n).

    Label errors come in pairs of classes. m is the hit radius, and r the fraction of labels with a doubt above 0. Among
    the images of the given class whose rival is the other class, r_pair is that fraction and n_pair that number; n is
    the number expected if errors were spread evenly over classes and pairs. `strength` imagined errors pull the numbers
    towards evenness: with few errors, no pair stands out.

    The score is the logistic function of −doubt / m, so by Bayes' rule r_pair acts as prior odds. n_pair favours the
    frequent confusions of a class over the rare ones.
    """
    shape = (classes, classes)
    pair = labels * classes + doubts.rival
    images = np.bincount(pair, minlength=classes * classes).reshape(shape)
    doubted = np.bincount(pair, weights=doubts.value > 0, minlength=classes * classes).reshape(shape)
    overall = max(float((doubts.value > 0).mean()), 1 / len(labels))
    rate = (doubted + strength) / (images + strength / overall) / overall
    even = overall * images.sum(axis=1, keepdims=True) / (classes - 1)
    frequency = (doubted + strength) / (even + strength)
    return HIT_RADIUS * (np.log(rate) + 0.5 * np.log(frequency))
