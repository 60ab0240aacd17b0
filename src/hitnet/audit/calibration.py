"""How many labels are wrong, and how probably each: from distances of judges that have not seen the label they judge.

Where judges are sure of a class, they are hardly ever mistaken: a label that they contradict there is wrong. So the
share of contradicted labels among the half of the images that they are surest of is the share of wrong labels, as long
as errors fall on clear and on unclear images alike. Errors that people make fall on unclear images more often; of
those, the estimate counts too few.

Shapes as in `hitnet.audit.scores`: distances (M, N, K), labels (N,).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hitnet.audit.scores import Floats, Ints
from hitnet.capsules import HIT_RADIUS
from hitnet.errors import HitNetError

SUREST = 0.5  # share of the images that the estimate looks at
FEWEST = 5  # contradicted labels among them that an estimate needs


@dataclass(frozen=True)
class Calibration:
    """How many labels are wrong, and which.

    Attributes:
        rate: Estimated share of wrong labels.
        error: Standard error of `rate`, from the number of images that it was counted on.
        contradicted: Number of labels that it rests on.
        probability: (N,) that each label is wrong; sums to `expected`.
        flagged: (N,) labels that are more probably wrong than right; none if `enough` is false.
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
    def sentence(self) -> str:
        """The result in words."""
        count = len(self.probability)
        if not self.enough:
            return (
                f"Too few labels are contradicted ({self.contradicted} of the {round(SUREST * count):,} clearest "
                "images) to say how many are wrong: go through the most doubtful ones."
            )
        low, high = (max(0.0, self.rate + sign * 2 * self.error) * count for sign in (-1, 1))
        return (
            f"About {self.expected:,.0f} of {count:,} labels are wrong ({low:,.0f} to {high:,.0f}). "
            f"{int(self.flagged.sum()):,} are flagged; about {self.precision:.0%} of these are wrong."
        )


def error_rate(distances: Floats, labels: Ints) -> tuple[float, float, int]:
    """Share of wrong labels, its standard error, and the number of contradicted labels that it rests on.

    Counts the labels that are not the nearest class among the half of the images whose nearest class is nearest by the
    largest margin. The margin does not depend on the label, if the distances are out of sample.
    """
    if distances.ndim != 3 or distances.shape[1] != len(labels) or distances.shape[2] < 2:
        raise HitNetError(f"distances must be (M, {len(labels)}, K) with K at least 2; got {distances.shape}.")
    mean = distances.mean(axis=0)
    two = np.partition(mean, 1, axis=1)
    surest = np.argsort(two[:, 0] - two[:, 1], kind="stable")[: max(1, round(SUREST * len(labels)))]
    contradicted = int((mean[surest].argmin(axis=1) != labels[surest]).sum())
    rate = contradicted / len(surest)
    return rate, math.sqrt(max(rate * (1 - rate), 1 / len(surest)) / len(surest)), contradicted


def probabilities(doubts: Floats, rate: float, *, scale: float = HIT_RADIUS) -> Floats:
    """Probability (N,) that each label is wrong: the logistic function of its doubt in units of the hit radius, as in
    `hitnet.audit.scores.score`, moved so that the mean is `rate`."""
    if not 0 <= rate <= 1:
        raise HitNetError(f"probabilities: rate must be in [0, 1]; got {rate}.")
    if rate in (0, 1):
        return np.full(len(doubts), float(rate))
    # Halving an interval that holds the shift: at its ends all probabilities are nearly 1, or nearly 0.
    low, high = float(doubts.min()) - 40 * scale, float(doubts.max()) + 40 * scale
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _logistic((doubts - middle) / scale).mean() > rate else (low, middle)
    return _logistic((doubts - middle) / scale)


def _logistic(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))


def calibrate(distances: Floats, labels: Ints, doubts: Floats) -> Calibration:
    """How many labels are wrong and how probably each.

    Args:
        distances: (M, N, K), out of sample.
        labels: (N,).
        doubts: (N,), `hitnet.audit.scores.doubt(...).value` of the same distances.
    """
    rate, error, contradicted = error_rate(distances, labels)
    enough = contradicted >= FEWEST
    probability = probabilities(doubts, rate)
    return Calibration(rate, error, contradicted, probability, (probability > 0.5) & enough, enough)
