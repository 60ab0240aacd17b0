"""From opinions and labels to scores: the only place that calls the formulas of scores.py and calibration.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hitnet.audit import scores
from hitnet.audit.calibration import calibrate
from hitnet.audit.margins import Floats, Ints, margins
from hitnet.features.opinions import Opinion, all_distances

FLAGS = scores.FLAGS  # by name, with the rule of each


@dataclass(frozen=True)
class Scores:
    """What opinions come to, for N labels."""

    score: Floats  # (N,), 0 = surely wrong, 1 = surely right
    doubt: Floats  # (N,), by which labels are ranked, the highest first
    suggested: Ints  # (N,), the class to propose
    flag: list[str]  # (N,), one of FLAGS, which also has the rule of each
    # Where the opinions can tell: between which numbers that of the wrong labels probably lies, and a sentence on it.
    error_range: tuple[float, float] | None = None
    sentence: str | None = None

    @property
    def rule(self) -> list[str]:
        """(N,), the rule that gave each label its flag."""
        return [FLAGS[flag] for flag in self.flag]


def capsule_opinions(opinions: Sequence[Opinion]) -> list[Opinion]:
    """The opinions whose distances are those of capsules, as the page draws them; all if there are none."""
    return [opinion for opinion in opinions if opinion.capsules] or list(opinions)


def score_labels(opinions: Sequence[Opinion], labels: Ints) -> Scores:
    """Score labels (N,) by all opinions.

    Where heads have not seen the labels that they judge, the opinions of all that have not also say how many labels are
    wrong. Neighbours alone do not.
    """
    distances = all_distances(opinions)
    doubts = scores.doubt(margins(distances, labels), labels)
    values, wrong = scores.score(doubts.value), None
    told: tuple[tuple[float, float] | None, str | None] = None, None
    unseen = [opinion for opinion in opinions if not opinion.in_sample]
    if any(opinion.capsules for opinion in unseen):
        calibration = calibrate(all_distances(unseen).astype(np.float64), labels, doubts.value)
        values, wrong = 1 - calibration.probability, calibration.flagged
        told = calibration.range, calibration.sentence
    shown = margins(all_distances(capsule_opinions(opinions)), labels)
    flags = scores.flags(shown, doubts, wrong, expected=round(float((1 - values).sum())))
    return Scores(values, doubts.value, scores.suggest(doubts, labels, flags), flags, *told)
