"""How doubtful a label is, from the class distances of several networks: pure functions on arrays.

Shapes: distances (M, N, K) of M networks, N images and K classes; labels (N,). The direction of every figure is
said beside it. The networks are trained on the very labels that are judged: the centripetal loss pulls every
image towards its given class, so a capsule that stays far from the centre all the same is telling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from hitnet.capsules import HIT_RADIUS, MISS_RADIUS
from hitnet.errors import HitNetError, check_choice

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Method = Literal["margin", "plain-margin", "ghost-distance"]
METHODS: tuple[Method, ...] = ("margin", "plain-margin", "ghost-distance")
HALFWAY = (HIT_RADIUS + MISS_RADIUS) / 2


@dataclass(frozen=True)
class Evidence:
    """What M networks say of N images.

    mean            (N, K) distances, averaged over the networks
    spread          (N, K) standard deviation of d_given − d_k over the networks
    own             (N,) mean distance of the given class's capsule
    ghost           (N,) class of the nearest other capsule, by mean distance
    ghost_distance  (N,) its mean distance
    margin_mean     (N,) d_given − d_nearest-other, averaged; above 0: another class is nearer
    margin_std      (N,) its spread over the networks
    hits            (N,) networks in which the given class's capsule is a hit
    nearest         (M, N) class of the nearest capsule in each network
    """

    models: int
    mean: Floats
    spread: Floats
    own: Floats
    ghost: Ints
    ghost_distance: Floats
    margin_mean: Floats
    margin_std: Floats
    hits: Ints
    nearest: Ints

    def votes(self, classes: Ints) -> Ints:
        """How many networks name the class that is given for each image (N,)."""
        return (self.nearest == classes).sum(axis=0)


def others(distances: Floats, labels: Ints) -> Floats:
    """Distances (…, N, K) with the given class's set to infinity."""
    found = distances.copy()
    found[..., np.arange(len(labels)), labels] = np.inf
    return found


def gather(distances: Floats, labels: Ints) -> Evidence:
    """Sum up what the networks say."""
    if distances.ndim != 3 or distances.shape[1] != len(labels):
        raise HitNetError(f"distances must be (M, {len(labels)}, K); got {distances.shape}.")
    rows = np.arange(len(labels))
    mean = distances.mean(axis=0)
    own = distances[:, rows, labels]
    margins = own - others(distances, labels).min(axis=2)
    ghost = others(mean, labels).argmin(axis=1)
    return Evidence(
        models=len(distances),
        mean=mean,
        spread=(own[:, :, None] - distances).std(axis=0),
        own=mean[rows, labels],
        ghost=ghost,
        ghost_distance=mean[rows, ghost],
        margin_mean=margins.mean(axis=0),
        margin_std=margins.std(axis=0),
        hits=(own <= HIT_RADIUS).sum(axis=0),
        nearest=distances.argmin(axis=2),
    )


def check_method(method: str) -> None:
    check_choice("audit", "score", method, METHODS)


@dataclass(frozen=True)
class Doubt:
    """How doubtful N labels are.

    value  (N,) the higher, the more doubtful; above 0, another class is the better label
    rival  (N,) that class: the one that speaks most against the given one
    """

    value: Floats
    rival: Ints


def doubt(evidence: Evidence, labels: Ints, method: Method = "margin") -> Doubt:
    """How doubtful each label is, and in favour of which class.

    margin          of `advantages`, plus `pair_prior`, each image's highest
    plain-margin    the mean margin alone
    ghost-distance  the paper's: how near the nearest other capsule is, whatever the given class's does
    """
    check_method(method)
    if method == "plain-margin":
        return Doubt(evidence.margin_mean, evidence.ghost)
    if method == "ghost-distance":
        return Doubt(HIT_RADIUS - evidence.ghost_distance, evidence.ghost)
    found = advantages(evidence, labels)
    prior = pair_prior(highest(found), labels, found.shape[1])
    return highest(found + prior[labels])


def highest(advantage: Floats) -> Doubt:
    return Doubt(advantage.max(axis=1), advantage.argmax(axis=1))


def advantages(evidence: Evidence, labels: Ints) -> Floats:
    """By how much each class fits better than the given one (N, K); −∞ for the given one itself.

    The mean of d_given − d_k, less half its spread over the networks (those that disagree prove less), less half of
    what the class's median margin stands above that of all (a class that is hard as a whole is not wrong as a whole).
    """
    found = evidence.own[:, None] - evidence.mean - 0.5 * evidence.spread
    overall = np.median(evidence.margin_mean)
    for k in np.unique(labels):
        members = labels == k
        found[members] -= 0.5 * (np.median(evidence.margin_mean[members]) - overall)
    found[np.arange(len(labels)), labels] = -np.inf
    return found


def pair_prior(doubts: Doubt, labels: Ints, classes: int, *, strength: float = 16.0) -> Floats:
    """What the pair (given, other) adds to the doubt (K, K): m · ln(r_pair / r) + ½ m · ln(n_pair / n), m the hit
    radius: mistakes come in pairs of classes.

    r       the share of labels with a doubt above 0
    r_pair  that share among the images of the given class whose rival is the other
    n_pair  the number of these, n what it would be if errors fell evenly on classes and pairs

    Numbers are drawn towards evenness as if by `strength` further errors: where errors are few, no pair stands out.
    As `score` is the logistic function of doubt / m, r_pair enters by Bayes' rule as the prior odds; n_pair favours
    the frequent confusions of a class over the rare ones.
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
    """Doubt as a score in (0, 1): 0 = surely wrong, 1 = surely right, 0.5 = two classes equally near.

    The logistic function of the doubt in units of the hit radius.
    """
    return 1 / (1 + np.exp(np.clip(doubts / HIT_RADIUS, -30, 30)))


FLAGS = {
    "wrong": "score below 0.5: another class fits better",
    "ambiguous: two labels": (
        f"given and suggested class both nearer than {HALFWAY} on average, less than {HIT_RADIUS * 3:.1f} apart"
    ),
    "none of the classes": f"every class's capsule misses on average (distance of at least {MISS_RADIUS})",
    "ok": "none of the other rules",
}


def flags(evidence: Evidence, doubts: Doubt) -> list[str]:
    """One of FLAGS for each image; where several of the rules hold, the first of those below."""
    rival = evidence.mean[np.arange(len(doubts.rival)), doubts.rival]
    rules = {
        "none of the classes": evidence.mean.min(axis=1) >= MISS_RADIUS,
        "wrong": score(doubts.value) < 0.5,
        "ambiguous: two labels": (evidence.own < HALFWAY)
        & (rival < HALFWAY)
        & (np.abs(evidence.own - rival) < 3 * HIT_RADIUS),
    }
    return np.select(list(rules.values()), list(rules), default="ok").tolist()


def suggest(doubts: Doubt, labels: Ints, flag: list[str]) -> Ints:
    """The class to propose for each image (N,): the rival where it is the better label or, of two labels, the other;
    otherwise the given one, which of an image that fits no class may still be the nearest."""
    two_labels = np.array(flag) == "ambiguous: two labels"
    return np.where((doubts.value > 0) | two_labels, doubts.rival, labels)
