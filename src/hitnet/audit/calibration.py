"""How many labels are wrong, and how probably each: from distances of judges that have not seen the label they judge.

Where judges are sure of a class, they are hardly ever mistaken: a label that they contradict there is wrong. So the
share of contradicted labels among the images that they are surest of is the share of wrong labels, as long as errors
fall on clear and on unclear images alike. Errors that people make fall on unclear images more often; of those, the
estimate counts too few. The surest 58 % of the images are a compromise (benchmarks/TRIALS.md): of errors at random,
they count up to 50 % too many, of errors by people up to 34 % too few.

Shapes as in `hitnet.audit.margins`: distances (M, N, K), labels (N,).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hitnet.audit.margins import Floats, Ints
from hitnet.capsules import HIT_RADIUS
from hitnet.errors import HitNetError, share

SUREST = 0.58  # share of the images that the estimate looks at
PRECISION = 0.9  # expected of the labels that are flagged as wrong
FEWEST_CONTRADICTED = 5  # contradicted labels among them that an estimate needs


@dataclass(frozen=True)
class Calibration:
    """How many labels are wrong, and which.

    Attributes:
        rate: Estimated share of wrong labels.
        error: Standard error of `rate`, from the number of images that it was counted on.
        contradicted: Number of labels that it rests on.
        probability: (N,) that each label is wrong; sums to `expected`.
        flagged: (N,) labels that are more probably wrong than right, as many as leave their expected precision at
            PRECISION or more; none if `enough` is false.
        enough: Whether there are enough contradicted labels to say how many are wrong.
    """

    rate: float
    error: float
    contradicted: int
    probability: Floats
    flagged: np.ndarray
    enough: bool

    @property
    def expected(self) -> float:
        """Expected number of wrong labels."""
        return self.rate * len(self.probability)

    @property
    def precision(self) -> float:
        """Expected share of wrong labels among those flagged; not a number if none is."""
        return float(self.probability[self.flagged].mean()) if self.flagged.any() else math.nan

    @property
    def range(self) -> tuple[float, float]:
        """Two standard errors about `expected`."""
        low, high = (max(0.0, self.rate + sign * 2 * self.error) * len(self.probability) for sign in (-1, 1))
        return low, high

    @property
    def sentence(self) -> str:
        """The result in words."""
        count = len(self.probability)
        if not self.enough:
            return (
                f"Too few labels are contradicted ({self.contradicted} of the {round(SUREST * count):,} clearest "
                "images) to say how many are wrong: go through the most doubtful ones."
            )
        low, high = self.range
        about = f"About {self.expected:,.0f} of {count:,} labels are wrong ({low:,.0f} to {high:,.0f})"
        if not self.flagged.any():
            return f"{about}, but no single label is sure enough to be flagged as wrong: go through the doubtful ones."
        return f"{about}. {int(self.flagged.sum()):,} are flagged as wrong; about {self.precision:.0%} of these are."


def error_rate(distances: Floats, labels: Ints) -> tuple[float, float, int]:
    """Share of wrong labels, its standard error, and the number of contradicted labels that it rests on.

    Counts the labels that are not the nearest class among the SUREST images: those whose nearest class is nearest by
    the largest margin. The margin does not depend on the label, if the distances are out of sample.
    """
    if distances.ndim != 3 or distances.shape[1] != len(labels) or distances.shape[2] < 2:
        raise HitNetError(f"distances must be (M, {len(labels)}, K) with K at least 2; got {distances.shape}.")
    mean = distances.mean(axis=0)
    two = np.partition(mean, 1, axis=1)
    surest = np.argsort(two[:, 0] - two[:, 1], kind="stable")[: max(1, round(SUREST * len(labels)))]
    contradicted = int((mean[surest].argmin(axis=1) != labels[surest]).sum())
    rate = contradicted / len(surest)
    return rate, math.sqrt(max(rate * (1 - rate), 1 / len(surest)) / len(surest)), contradicted


def probabilities(doubts: Floats, rate: float) -> Floats:
    """Probability (N,) that each label is wrong: the logistic function of its doubt in units of the hit radius, as in
    `hitnet.audit.scores.score`, moved so that the mean is `rate`."""
    share("probabilities", "rate", rate)
    if rate in (0, 1):
        return np.full(len(doubts), float(rate))
    # Halving an interval that holds the shift: at its ends all probabilities are nearly 1, or nearly 0.
    low, high = float(doubts.min()) - 40 * HIT_RADIUS, float(doubts.max()) + 40 * HIT_RADIUS
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _logistic((doubts - middle) / HIT_RADIUS).mean() > rate else (low, middle)
    return _logistic((doubts - middle) / HIT_RADIUS)


def _logistic(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))


def calibrate(distances: Floats, labels: Ints, doubts: Floats) -> Calibration:
    """How many labels are wrong and how probably each.

    Args:
        distances: (M, N, K), of judges that have not seen the labels.
        labels: (N,).
        doubts: (N,), from `hitnet.audit.scores.doubt`; other judges may have a say in them.
    """
    rate, error, contradicted = error_rate(distances, labels)
    enough = contradicted >= FEWEST_CONTRADICTED
    probability = probabilities(doubts, rate)
    return Calibration(rate, error, contradicted, probability, _flagged(probability) & enough, enough)


def _flagged(probability: Floats) -> npt.NDArray[np.bool_]:
    """The most probably wrong labels, as many as keep the mean of their probabilities at PRECISION or more."""
    order = np.argsort(-probability, kind="stable")
    running = np.cumsum(probability[order]) / np.arange(1, len(order) + 1)
    flagged = np.zeros(len(order), np.bool_)
    flagged[order] = (running >= PRECISION) & (probability[order] > 0.5)
    return flagged
