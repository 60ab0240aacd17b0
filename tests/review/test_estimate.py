"""The model of what is wrong, against a plain computation; what is left, against the truth of made-up reviews."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from hitnet.audit import scores
from hitnet.audit.margins import margins
from hitnet.capsules import HIT_RADIUS
from hitnet.review import estimate
from hitnet.review.estimate import Inputs, errors_left, fit_outcomes, logistic, model_inputs


def made_up(seed, count=4000, wrong_share=0.06):
    """Inputs of images whose labels are wrong with exactly the probability that a logistic model gives them."""
    draw = np.random.default_rng(seed)
    margin = np.where(draw.random(count) < wrong_share, draw.normal(3, 2, count), draw.normal(-7, 2, count))
    pair = draw.integers(0, 6, count)
    inputs = Inputs(margin, np.zeros(count), np.zeros(count, np.int64), pair)
    return inputs, draw.random(count) < logistic(margin - 1)


def worst_first(inputs, count):
    decided = np.zeros(len(inputs.margin), bool)
    decided[np.argsort(-inputs.margin)[:count]] = True
    return decided


def test_inputs_are_margins_in_hit_radii():
    draw = np.random.default_rng(0)
    distances, labels = draw.uniform(0, 1.5, (3, 40, 5)), draw.integers(0, 5, 40)
    inputs = model_inputs(distances, labels)
    evidence = margins(distances, labels)
    advantage = scores.advantages(evidence, labels)
    prior = scores.pair_prior(scores.highest(advantage), labels, 5)
    for i in range(40):
        best = max((k for k in range(5) if k != labels[i]), key=lambda k: advantage[i, k] + prior[labels[i], k])
        mean = [sum(distances[m, i, k] for m in range(3)) / 3 for k in range(5)]
        assert inputs.rival[i] == best
        assert inputs.margin[i] == pytest.approx((mean[labels[i]] - mean[best]) / HIT_RADIUS)
        assert inputs.prior[i] == pytest.approx(prior[labels[i], best] / HIT_RADIUS)
        assert inputs.pair[i] == labels[i] * 5 + best


def test_the_fit_is_the_highest_of_its_likelihood():
    inputs, wrong = made_up(0, 600)
    decided = worst_first(inputs, 60)
    model = fit_outcomes(inputs, decided, wrong)
    undecided = [i for i in np.argsort(inputs.margin) if not decided[i]][:300]
    used = [*np.flatnonzero(decided), *undecided]
    columns = inputs.design(model.pairs)

    def loss(coefficients):
        start = [*estimate.START, *[0] * len(model.pairs)]
        hold = [*estimate.HOLD, *[estimate.PAIR_HOLD] * len(model.pairs)]
        total = sum(h / 2 * (c - s) ** 2 for h, c, s in zip(hold, coefficients, start, strict=True))
        for i in used:
            odds = float(columns[i] @ coefficients)
            total += np.logaddexp(0, odds) - odds * bool(wrong[i] and decided[i])
        return total

    best = minimize(loss, np.zeros(3 + len(model.pairs)), method="BFGS")
    assert loss(model.coefficients) <= best.fun + 1e-6
    assert np.allclose(model.coefficients, best.x, atol=2e-2)


def test_with_nothing_decided_the_order_is_the_audits():
    inputs, _ = made_up(1, 300)
    inputs = Inputs(inputs.margin, np.random.default_rng(2).normal(size=300), inputs.rival, inputs.pair)
    model = fit_outcomes(inputs, np.zeros(300, bool), np.zeros(300, bool))
    expected = np.argsort(estimate.START[1] * inputs.margin + estimate.START[2] * inputs.prior)
    assert np.array_equal(np.argsort(model.log_odds(inputs)), expected)


def test_a_pair_that_people_found_right_sinks():
    inputs, _ = made_up(3, 1000)
    decided = worst_first(inputs, 80)
    wrong = decided & (inputs.pair != 2)  # all wrong, but for one pair
    odds = fit_outcomes(inputs, decided, wrong).log_odds(inputs)
    alike = Inputs(np.zeros(2), np.zeros(2), np.zeros(2, np.int64), np.array([2, 3]))
    right, other = fit_outcomes(inputs, decided, wrong).log_odds(alike)
    assert right < other - 1
    assert np.isfinite(odds).all()


def test_what_is_left_is_within_the_interval_about_nine_times_in_ten():
    covered, errors = 0, []
    for seed in range(40):
        inputs, wrong = made_up(seed)
        decided = worst_first(inputs, 300)
        left = errors_left(fit_outcomes(inputs, decided, wrong & decided), inputs, decided, seed=seed)
        truth = int((wrong & ~decided).sum())
        covered += left.low <= truth <= left.high
        errors.append(left.expected - truth)
        assert left.unseen == 3700
    assert covered >= 32
    assert abs(np.mean(errors)) < 5


def test_with_few_decisions_there_is_no_estimate():
    inputs, wrong = made_up(0, 200)
    decided = worst_first(inputs, estimate.FEWEST_DECIDED - 1)
    assert errors_left(fit_outcomes(inputs, decided, wrong), inputs, decided) is None


def test_all_decided_leaves_nothing():
    inputs, wrong = made_up(0, 200)
    decided = np.ones(200, bool)
    left = errors_left(fit_outcomes(inputs, decided, wrong), inputs, decided)
    assert (left.expected, left.low, left.high, left.unseen) == (0, 0, 0, 0)


def test_blocks_give_what_the_whole_gives(monkeypatch):
    inputs, wrong = made_up(0, 500)
    decided = worst_first(inputs, 50)
    model = fit_outcomes(inputs, decided, wrong)
    whole = errors_left(model, inputs, decided)
    monkeypatch.setattr(estimate, "BLOCK", 7)
    assert errors_left(model, inputs, decided).expected == pytest.approx(whole.expected)
    assert logistic(np.array([-1e9, 0.0, 1e9])).tolist() == [pytest.approx(0, abs=1e-12), 0.5, 1]
    assert math.isfinite(whole.expected)
