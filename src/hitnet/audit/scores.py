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
from hitnet.errors import HitNetError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Method = Literal["margin", "plain-margin", "ghost-distance"]
METHODS: tuple[Method, ...] = ("margin", "plain-margin", "ghost-distance")
HALFWAY = (HIT_RADIUS + MISS_RADIUS) / 2


@dataclass(frozen=True)
class Evidence:
    """What M networks say of N images.

    mean            (N, K) distances, averaged over the networks
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
        own=mean[rows, labels],
        ghost=ghost,
        ghost_distance=mean[rows, ghost],
        margin_mean=margins.mean(axis=0),
        margin_std=margins.std(axis=0),
        hits=(own <= HIT_RADIUS).sum(axis=0),
        nearest=distances.argmin(axis=2),
    )


def check_method(method: str) -> None:
    if method not in METHODS:
        raise HitNetError(f"score must be one of {', '.join(METHODS)}; got {method!r}.")


def doubt(evidence: Evidence, labels: Ints, method: Method = "margin") -> Floats:
    """How doubtful each label is (N,): the higher, the more; above 0, another class is the better label.

    margin          the mean margin, less half its spread over the networks, less half of what its class's median
                    stands above the median of all (a class that is hard as a whole is not wrong as a whole), plus
                    `pair_prior`: mistakes come in pairs of classes
    plain-margin    the mean margin alone
    ghost-distance  the paper's: how near the nearest other capsule is, whatever the given class's does
    """
    if method == "plain-margin":
        return evidence.margin_mean
    if method == "ghost-distance":
        return HIT_RADIUS - evidence.ghost_distance
    check_method(method)
    found = evidence.margin_mean - 0.5 * evidence.margin_std
    overall = np.median(evidence.margin_mean)
    for k in np.unique(labels):
        members = labels == k
        found[members] -= 0.5 * (np.median(evidence.margin_mean[members]) - overall)
    return found + pair_prior(found, labels, evidence.ghost, evidence.mean.shape[1])


def pair_prior(doubts: Floats, labels: Ints, ghosts: Ints, classes: int, *, strength: float = 8.0) -> Floats:
    """What the pair (given, ghost) adds to the doubt (N,): m · ln(r_pair / r), m the hit radius.

    r is the share of labels with a doubt above 0, r_pair that share among the images of the same given class and
    ghost, drawn towards r as if by `strength` further errors at that rate: where errors are few, no pair stands out.
    As `score` is the logistic function of doubt / m, this is Bayes' rule with the pair's own rate for prior odds.
    """
    pair = labels * classes + ghosts
    images = np.bincount(pair, minlength=classes * classes)
    doubted = np.bincount(pair, weights=doubts > 0, minlength=classes * classes)
    overall = max(float((doubts > 0).mean()), 1 / len(labels))
    rate = (doubted + strength) / (images + strength / overall)
    return HIT_RADIUS * np.log(rate / overall)[pair]


def score(doubts: Floats) -> Floats:
    """Doubt as a score in (0, 1): 0 = surely wrong, 1 = surely right, 0.5 = two classes equally near.

    The logistic function of the doubt in units of the hit radius.
    """
    return 1 / (1 + np.exp(np.clip(doubts / HIT_RADIUS, -30, 30)))


FLAGS = {
    "none of the classes": f"every class's capsule misses on average (distance of at least {MISS_RADIUS})",
    "wrong": "score below 0.5: another class fits better",
    "ambiguous: two labels": (
        f"given and another class both nearer than {HALFWAY} on average, less than {HIT_RADIUS * 3:.1f} apart"
    ),
    "ok": "none of the other rules",
}


def flags(evidence: Evidence, scores: Floats) -> list[str]:
    """One of FLAGS for each image; where several rules hold, the first of them in that order."""
    rules = {
        "none of the classes": evidence.mean.min(axis=1) >= MISS_RADIUS,
        "wrong": scores < 0.5,
        "ambiguous: two labels": (evidence.own < HALFWAY)
        & (evidence.ghost_distance < HALFWAY)
        & (np.abs(evidence.own - evidence.ghost_distance) < 3 * HIT_RADIUS),
    }
    return np.select(list(rules.values()), list(rules), default="ok").tolist()


def suggest(evidence: Evidence, labels: Ints, flag: list[str]) -> Ints:
    """The class to propose for each image (N,): the ghost's where the label is doubted, otherwise the given one."""
    return np.where(np.array(flag) == "ok", labels, evidence.ghost)
