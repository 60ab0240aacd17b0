"""Score how doubtful labels are, from the class distances of several networks: pure functions on arrays.

Shapes: distances (M, N, K) of M networks, N images and K classes; labels (N,). The networks are trained on the same
labels that they judge: the centripetal loss pulls every image towards its given class, so a given class's capsule that
stays far from the centre is strong evidence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hitnet.audit.margins import Floats, Ints, Margins
from hitnet.capsules import HIT_RADIUS, MISS_RADIUS

HALFWAY = (HIT_RADIUS + MISS_RADIUS) / 2


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
    advantage = advantages(evidence, labels)
    prior = pair_prior(highest(advantage), labels, advantage.shape[1])
    return highest(advantage + prior[labels])


def highest(advantage: Floats) -> Doubt:
    """The class with the highest advantage (N, K) per image, and that advantage."""
    return Doubt(advantage.max(axis=1), advantage.argmax(axis=1))


def advantages(evidence: Margins, labels: Ints) -> Floats:
    """By how much each class fits better than the given class (N, K); −∞ for the given class itself.

    The mean of d_given − d_k, minus half its spread over the networks (networks that disagree prove less), minus half
    of the difference between the class's median margin and the overall median (a hard class is not a wrong class).
    """
    advantage = evidence.given_distance[:, None] - evidence.mean - 0.5 * evidence.spread
    overall = np.median(evidence.margin_mean)
    for k in np.unique(labels):
        members = labels == k
        advantage[members] -= 0.5 * (np.median(evidence.margin_mean[members]) - overall)
    advantage[np.arange(len(labels)), labels] = -np.inf
    return advantage


def pair_prior(doubts: Doubt, labels: Ints, classes: int, *, strength: float = 16.0) -> Floats:
    """What each pair of classes adds to the doubt: m ln(r_pair / r) + ½ m ln(n_pair / n).

    Label errors come in pairs of classes. m is the hit radius, and r the fraction of labels with a doubt above 0. Among
    the images of the given class whose rival is the other class, r_pair is that fraction and n_pair that number; n is
    the number expected if errors were spread evenly over classes and pairs.

    `score` is the logistic function of −doubt / m, so by Bayes' rule r_pair acts as prior odds. n_pair favours the
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


def score(doubts: Floats) -> Floats:
    """Convert doubts to scores in (0, 1): 0 = surely wrong, 1 = surely right, 0.5 = two classes equally near.

    The score is the logistic function of −doubt in units of the hit radius.
    """
    return 1 / (1 + np.exp(np.clip(doubts / HIT_RADIUS, -30, 30)))


FLAGS = {
    "wrong": "low score: another class fits better",
    "doubtful": "among the most doubtful labels, but not sure enough to be called wrong",
    "ambiguous: two labels": (
        f"given and suggested class both nearer than {HALFWAY} on average, less than {HIT_RADIUS * 3:.1f} apart"
    ),
    "none of the classes": f"every class's capsule misses on average (distance of at least {MISS_RADIUS})",
    "ok": "none of the other rules",
}


def flags(
    evidence: Margins, doubts: Doubt, wrong: npt.NDArray[np.bool_] | None = None, *, expected: int = 0
) -> list[str]:
    """One of FLAGS per image. If several rules hold, the first one below counts.

    Args:
        evidence: From `margins`.
        doubts: From `doubt`.
        wrong: (N,), which labels are wrong by their score. None: those with a score below 0.5.
        expected: N, how many labels are expected to be wrong. The N most doubtful labels are at least "doubtful".
    """
    doubtful = np.zeros(len(doubts.value), np.bool_)
    doubtful[np.argsort(-doubts.value, kind="stable")[:expected]] = True
    given, rival = evidence.given_distance, evidence.mean[np.arange(len(doubts.rival)), doubts.rival]
    rules = {
        "none of the classes": evidence.mean.min(axis=1) >= MISS_RADIUS,
        "wrong": score(doubts.value) < 0.5 if wrong is None else wrong,
        "ambiguous: two labels": (given < HALFWAY) & (rival < HALFWAY) & (np.abs(given - rival) < 3 * HIT_RADIUS),
        "doubtful": doubtful,
    }
    return np.select(list(rules.values()), list(rules), default="ok").tolist()


def suggest(doubts: Doubt, labels: Ints, flag: list[str]) -> Ints:
    """The class to propose per image (N,).

    This is the rival if it is the better label, or the second of two labels. Otherwise it is the given class; even for
    an image that fits no class, the given class may be the nearest.
    """
    two_labels = np.array(flag) == "ambiguous: two labels"
    return np.where((doubts.value > 0) | two_labels, doubts.rival, labels)
