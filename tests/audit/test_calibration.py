"""Counts of wrong labels that can be believed: the estimate, the probabilities and the sentence."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hitnet.audit.calibration import PRECISION, calibrate, error_rate, probabilities
from hitnet.audit.margins import margins
from hitnet.audit.scores import doubt
from hitnet.errors import HitNetError


def judged(count=2000, classes=5, share=0.06, seed=0, noise=0.35):
    """Distances of three judges that know most images, labels of which a share is wrong, and which."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, classes, count)
    given = truth.copy()
    chosen = draw.choice(count, round(share * count), replace=False)
    given[chosen] = (truth[chosen] + draw.integers(1, classes, len(chosen))) % classes
    hardness = draw.uniform(0, 1, (count, 1))  # some images are clear, some are not
    common = noise * hardness * draw.normal(size=(count, classes))
    distances = np.abs(1 - 0.8 * np.eye(classes)[truth] + common + 0.1 * draw.normal(size=(3, count, classes)))
    return distances, given, given != truth


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_the_count_is_near_the_truth(share):
    for seed in range(3):
        distances, given, wrong = judged(share=share, seed=seed)
        rate, error, contradicted = error_rate(distances, given)
        assert 1 / 1.5 < rate / wrong.mean() < 1.5
        assert rate == pytest.approx(contradicted / 1160)
        assert error == pytest.approx(math.sqrt(rate * (1 - rate) / 1160))


def test_probabilities_are_logistic_and_sum_to_the_count():
    doubts = np.random.default_rng(0).normal(-0.5, 0.4, 500)
    found = probabilities(doubts, 0.07)
    assert found.mean() == pytest.approx(0.07, abs=1e-9)
    logits = np.log(found / (1 - found))
    assert np.diff(logits) == pytest.approx(np.diff(doubts) / 0.1, abs=1e-5)
    assert probabilities(doubts, 0.0).max() == 0
    with pytest.raises(HitNetError, match=r"rate must be in \[0, 1\]"):
        probabilities(doubts, 1.5)


def test_flags_are_mostly_right():
    for seed in range(3):
        distances, given, wrong = judged(seed=seed)
        found = calibrate(distances, given, doubt(margins(distances, given), given).value)
        assert found.enough
        assert wrong[found.flagged].mean() >= 0.8
        assert found.flagged.sum() > 0.5 * wrong.sum()
        assert abs(found.precision - wrong[found.flagged].mean()) < 0.2
        assert found.precision >= PRECISION
        following = np.sort(found.probability)[::-1][: found.flagged.sum() + 1]
        assert following.mean() < PRECISION or following[-1] <= 0.5
        assert found.probability[found.flagged].min() >= found.probability[~found.flagged].max()
        assert found.probability.sum() == pytest.approx(found.expected)
        assert found.sentence.startswith(f"About {found.expected:,.0f} of 2,000 labels are wrong (")


def test_a_set_that_is_too_small_is_told():
    distances, given, _ = judged(count=60, share=0.03)
    found = calibrate(distances, given, doubt(margins(distances, given), given).value)
    assert not found.enough
    assert not found.flagged.any()
    assert math.isnan(found.precision)
    assert "Too few labels are contradicted" in found.sentence


def test_a_count_without_flags_is_told():
    distances, given, _ = judged()
    sure = calibrate(distances, given, doubt(margins(distances, given), given).value)
    unsure = replace(sure, flagged=np.zeros_like(sure.flagged))
    assert "% of these are." in sure.sentence
    assert "but no single label is sure enough to be flagged as wrong: go through the doubtful ones" in unsure.sentence
    assert "nan" not in unsure.sentence


def test_shapes_are_checked():
    with pytest.raises(HitNetError, match=r"distances must be \(M, 3, K\)"):
        error_rate(np.zeros((2, 4, 5)), np.zeros(3, np.int64))
