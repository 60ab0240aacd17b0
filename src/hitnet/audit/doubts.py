"""How doubtful labels are by networks that were trained on them: pure functions on arrays.

Shapes: N images, K classes, k columns (see margins.py); labels (N,). The centripetal loss pulls every image
towards its given class, so a given class's capsule that stays far from the centre is strong evidence.
"""

from dataclasses import dataclass

import numpy as np

from hitnet.audit.margins import Floats, Margins
from hitnet.capsules import HIT_RADIUS
from hitnet.features.opinions import Ints, class_at, column_of


@dataclass(frozen=True)
class Doubt:
    """How doubtful N labels are.

    Attributes:
        value: (N,), higher is more doubtful; above 0, another class is the better label.
        rival: (N,), the strongest other class.
    """

    value: Floats
    rival: Ints


def doubt(evidence: Margins, labels: Ints) -> Doubt:
    """How doubtful each label (N,) is, and in favour of which class: the highest of `advantages` plus `pair_prior`."""
    advantage, at = advantages(evidence, labels), evidence.classes
    if at is None:
        prior = pair_prior(highest(advantage), labels, advantage.shape[1])[labels]
    else:
        columns, classes = at.clip(max=at[0, -1] - 1), int(at[0, -1])  # that of all others is −∞ already
        prior = pair_prior(highest(advantage, at), labels, classes)[labels[:, None], columns]
    return highest(advantage + prior, at)


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
    advantage[np.arange(len(labels)), column_of(labels, evidence.classes)] = -np.inf
    if evidence.classes is not None:
        advantage[:, -1] = -np.inf
    return advantage


def pair_prior(doubts: Doubt, labels: Ints, classes: int, *, strength: float = 16.0) -> Floats:
    """What each pair of classes adds to the doubt: m ln(r_pair / r) + ½ m ln(n_pair / n).

    Label errors come in pairs of classes. m is the hit radius, and r the fraction of labels with a doubt above 0. Among
    the images of the given class whose rival is the other class, r_pair is that fraction and n_pair that number; n is
    the number expected if errors were spread evenly over classes and pairs.

    The score is the logistic function of −doubt / m, so by Bayes' rule r_pair acts as prior odds. n_pair favours the
    frequent confusions of a class over the rare ones.

    Args:
        doubts: The doubt before the prior.
        labels: (N,).
        classes: K.
        strength: Number of imagined errors that pull the numbers towards evenness. With few errors, no pair stands out.

    Returns:
        (K, K), by given class and other class.
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
