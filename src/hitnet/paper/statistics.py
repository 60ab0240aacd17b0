"""Figures over several runs, as the paper defines them, with the interval that their number allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from hitnet.paper.records import RunRecord

LAST = 100  # epochs over which the paper takes the irregularity
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """Errors of several runs, in percent; what their number does not allow is None.

    std           between the runs, with n − 1 in the denominator
    irregularity  the mean, over the runs, of the standard deviation of the last 100 epochs' errors
    best          the lowest error at the end of a training
    margin        half the width of the 95 % interval of the mean, by Student's t
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


def quantile(freedom: float) -> float:
    """How many standard errors of a mean the interval reaches to each side, by Student's t."""
    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))  # scipy.stats has it too, and takes a second to import


def summarise(records: Sequence[RunRecord]) -> Summary | None:
    """The figures of the runs, None where there is none."""
    if not records:
        return None
    errors = [record.error for record in records]
    std = float(np.std(errors, ddof=1)) if len(errors) > 1 else None
    margin = None
    if std is not None:
        margin = quantile(len(errors) - 1) * std / math.sqrt(len(errors))
    return Summary(len(errors), float(np.mean(errors)), std, irregularity(records), min(errors), margin)


def irregularity(records: Sequence[RunRecord]) -> float | None:
    if any(len(record.wrong) < LAST for record in records):
        return None
    return float(np.mean([np.std(record.errors[-LAST:], ddof=1) for record in records]))


@dataclass(frozen=True)
class Difference:
    """How far apart two means are, in percentage points; margin is half the width of its 95 % interval."""

    mean: float
    margin: float

    @property
    def interval(self) -> tuple[float, float]:
        return self.mean - self.margin, self.mean + self.margin


def difference(one: Sequence[RunRecord], other: Sequence[RunRecord]) -> Difference | None:
    """The mean error of some runs less that of others, by Welch's t; None where either has fewer than two runs."""
    if min(len(one), len(other)) < 2:
        return None
    errors = [np.array([record.error for record in records]) for records in (one, other)]
    parts = [float(values.var(ddof=1)) / len(values) for values in errors]
    mean, variance = float(errors[0].mean() - errors[1].mean()), sum(parts)
    if not variance:
        return Difference(mean, 0.0)
    freedom = variance**2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, errors, strict=True))
    return Difference(mean, quantile(freedom) * math.sqrt(variance))


def differs(summary: Summary, value: float, *, half_unit: float) -> bool | None:
    """Whether a published mean, known to ± half_unit, lies outside our interval; None where there is no interval."""
    if summary.margin is None:
        return None
    return abs(summary.mean - value) > summary.margin + half_unit
