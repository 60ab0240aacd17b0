"""Statistics of several runs: means with intervals, differences of means, the paper's irregularity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from reproduction.records import RunRecord

IRREGULARITY_EPOCHS = 100  # the paper takes the irregularity over the last 100 epochs
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """Errors of several runs, in percent; None where there are too few runs.

    Attributes:
        std: Standard deviation between the runs, with n − 1 in the denominator.
        irregularity: The mean, over the runs, of the standard deviation of the last 100 epochs' errors.
        best: The lowest error at the end of a training.
        margin: Half the width of the 95 % interval of the mean, by Student's t.
    """

    runs: int
    mean: float
    std: float | None
    irregularity: float | None
    best: float
    margin: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.margin is None else (self.mean - self.margin, self.mean + self.margin)


def t_quantile(freedom: float) -> float:
    """How many standard errors the interval of a mean reaches to each side, by Student's t."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))  # scipy.stats has it too, but takes a second to import


def summarise(records: Sequence[RunRecord]) -> Summary | None:
    """Statistics of the runs' errors; None without runs."""
    summary = summarise_errors([record.error for record in records])
    return None if summary is None else replace(summary, irregularity=irregularity(records))


def summarise_errors(errors: Sequence[float]) -> Summary | None:
    """Statistics of errors in percent, without irregularity; None without errors."""
    if not errors:
        return None
    std = float(np.std(errors, ddof=1)) if len(errors) > 1 else None
    margin = None
    if std is not None:
        margin = t_quantile(len(errors) - 1) * std / math.sqrt(len(errors))
    return Summary(len(errors), float(np.mean(errors)), std, None, min(errors), margin)


def irregularity(records: Sequence[RunRecord]) -> float | None:
    """The paper's irregularity; None if a run has too few epochs."""
    if any(len(record.wrong) < IRREGULARITY_EPOCHS for record in records):
        return None
    return float(np.mean([np.std(record.errors[-IRREGULARITY_EPOCHS:], ddof=1) for record in records]))


@dataclass(frozen=True)
class Difference:
    """The difference of two means, in percentage points; `margin` is half the width of its 95 % interval."""

    mean: float
    margin: float

    @property
    def interval(self) -> tuple[float, float]:
        return self.mean - self.margin, self.mean + self.margin


@dataclass(frozen=True)
class Sample:
    """A mean over several runs and its standard deviation between them; None where it is not known."""

    mean: float
    std: float | None
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Sample:
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None, len(values))


def contrast(terms: Sequence[tuple[float, Sample]]) -> Difference:
    """A weighted sum of means with its interval, by Welch's t; what has no standard deviation adds none.

    Args:
        terms: Weight and sample of each mean, e.g. 1 and -1 for a difference.
    """
    parts = [
        ((weight * sample.std) ** 2 / sample.runs, sample.runs - 1)
        for weight, sample in terms
        if sample.std is not None
    ]
    mean, variance = sum(weight * sample.mean for weight, sample in terms), sum(part for part, _ in parts)
    if not variance:
        return Difference(mean, 0.0)
    freedom = variance**2 / sum(part**2 / count for part, count in parts)
    return Difference(mean, t_quantile(freedom) * math.sqrt(variance))


def difference(first: Sequence[float], second: Sequence[float]) -> Difference | None:
    """The mean of `first` minus that of `second`, by Welch's t; None if either has fewer than two errors."""
    if min(len(first), len(second)) < 2:
        return None
    return contrast([(1, Sample.of(first)), (-1, Sample.of(second))])
