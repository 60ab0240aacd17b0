"""Bounds on the number of wrong labels, against the same in plain loops, and in simulated reviews."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hitnet.review import certified
from hitnet.review.certified import (
    BETS,
    BY_DOUBT,
    SHARES,
    count_bounds,
    count_estimate,
    draw_images,
    draw_weights,
    follow_draws,
    log_capital,
)


def case(images, seed=0, rate=0.2):
    draw = np.random.default_rng(seed)
    expected = draw.beta(0.3, 1.5, images)
    return expected, (draw.random(images) < rate).astype(float)


def naive_numbers(expected, weights, order):
    """(p, c, C, most, least, left) before each draw, by loops over the images left."""
    left = set(range(len(weights)))
    for i in order.tolist():
        weight = math.fsum(weights[j] for j in left)
        rest = math.fsum(expected[j] for j in left)
        numbers = [((w - expected[j]) * weight / weights[j] + rest) for j in left for w in (0, 1)]
        yield weights[i] / weight, expected[i], rest, max(numbers), min(numbers), len(left)
        left.remove(i)


def naive_capital(total, expected, weights, order, wrong, *, too_high):
    capitals, best = list(SHARES), 1.0
    for numbers, w in zip(naive_numbers(expected, weights, order), wrong.tolist(), strict=False):
        p, c, rest, most, least, left = numbers
        if total > left if too_high else total < 0:
            return math.inf
        number = (w - c) / p + rest
        gain = (total - number) / (most - total) if too_high else (number - total) / (total - least)
        capitals = [capital * (1 + bet * gain) for capital, bet in zip(capitals, BETS, strict=True)]
        best = max(best, sum(capitals))
        total -= w
    return best


def test_weights_are_a_mixture_and_sum_to_one():
    expected, _ = case(50)
    naive = [
        BY_DOUBT * math.sqrt(q) / sum(math.sqrt(each) for each in expected) + (1 - BY_DOUBT) / 50 for q in expected
    ]
    np.testing.assert_allclose(draw_weights(expected), naive, rtol=1e-12)
    np.testing.assert_allclose(draw_weights(np.zeros(7)), np.full(7, 1 / 7))


def test_draws_follow_the_weights_one_after_the_other():
    weights = np.array([1.0, 2.0, 5.0])
    orders = [tuple(draw_images(weights, seed)) for seed in range(20_000)]
    for order in set(orders):
        first, second = (weights[i] for i in order[:2])
        probability = first / 8 * second / (8 - first)
        assert orders.count(order) / len(orders) == pytest.approx(probability, abs=0.012)


@pytest.mark.parametrize("drawn", [1, 7, 40])
def test_what_is_known_before_each_draw_is_what_loops_give(drawn):
    expected, _ = case(40)
    weights = draw_weights(expected)
    order = draw_images(weights, 3)[:drawn]
    draws = follow_draws(weights, expected, order)
    fields = (draws.probability, draws.expected, draws.sum_expected, draws.most, draws.least, draws.left)
    np.testing.assert_allclose(np.stack(fields, axis=1), list(naive_numbers(expected, weights, order)), atol=1e-9)


@pytest.mark.parametrize("too_high", [True, False])
@pytest.mark.parametrize("total", [0, 3, 8, 20, 37, 40])
def test_the_capital_is_what_loops_give(total, too_high):
    expected, wrong = case(40)
    weights = draw_weights(expected)
    order = draw_images(weights, 3)[:25]
    got = log_capital(total, follow_draws(weights, expected, order), wrong[order], too_high=too_high)
    naive = naive_capital(total, expected, weights, order, wrong[order], too_high=too_high)
    assert got == pytest.approx(math.log(naive) if naive < math.inf else math.inf, abs=1e-9)


def test_bounds_are_the_totals_that_no_bet_rules_out():
    expected, wrong = case(60, seed=4)
    weights = draw_weights(expected)
    order = draw_images(weights, 5)[:30]
    draws = follow_draws(weights, expected, order)
    possible = range(int(wrong[order].sum()), 31 + int(wrong[order].sum()))
    stand = [
        total
        for total in possible
        if all(
            naive_capital(total, expected, weights, order, wrong[order], too_high=side) < 40 for side in (True, False)
        )
    ]
    assert count_bounds(draws, wrong[order], wrong[order], images=60) == (stand[0], stand[-1])


def test_the_bet_is_fair_for_the_true_number():
    """The mean over all images of what a bet gives is 1, exactly, whatever the scores: all that the bounds stand on."""
    expected, wrong = [Fraction(k, 10) for k in (0, 1, 5, 9)], [1, 0, 1, 0]
    weights = [Fraction(k, 10) for k in (1, 2, 3, 4)]
    rest, total = sum(expected), sum(wrong)
    numbers = [(w - c) / p + rest for w, c, p in zip(wrong, expected, weights, strict=True)]
    assert sum(p * number for p, number in zip(weights, numbers, strict=True)) == total


def test_a_count_of_all_images_is_exact():
    expected, wrong = case(30)
    weights = draw_weights(expected)
    order = draw_images(weights, 0)
    draws = follow_draws(weights, expected, order)
    assert count_bounds(draws, wrong[order], wrong[order], images=30) == (wrong.sum(), wrong.sum())
    assert count_bounds(draws, 0 * wrong, 0 * wrong + 1, images=30) == (0, 30)


def test_images_that_people_are_unsure_of_widen_the_bounds():
    expected, wrong = case(500)
    weights = draw_weights(expected)
    order = draw_images(weights, 0)[:100]
    draws = follow_draws(weights, expected, order)
    low, high = count_bounds(draws, wrong[order], wrong[order], images=500)
    unsure = (np.arange(100) % 10 == 0) & (wrong[order] == 0)
    wider = count_bounds(draws, wrong[order], wrong[order] + unsure, images=500)
    assert wider[0] == low
    assert wider[1] > high


def reviews(expected, wrong, *, drawn, times):
    """Bounds and estimates of simulated reviews."""
    weights = draw_weights(expected)
    for seed in range(times):
        order = draw_images(weights, seed)[:drawn]
        draws = follow_draws(weights, expected, order)
        yield *count_bounds(draws, wrong[order], wrong[order], images=len(wrong)), count_estimate(draws, wrong[order])


@pytest.mark.parametrize("kind", ["right scores", "random scores", "turned round", "no errors", "few", "all", "small"])
def test_bounds_hold_whatever_the_scores_say(kind):
    draw = np.random.default_rng(1)
    images = 90 if kind == "small" else 2000
    expected = draw.beta(0.2, 3, images)
    chance = {"turned round": (1 - expected) / 10, "random scores": 0.06, "no errors": 0.0, "few": 0.004, "all": 1.0}
    wrong = (draw.random(images) < chance.get(kind, expected)).astype(float)
    results = np.array(list(reviews(expected, wrong, drawn=60, times=150)))
    low, high, estimate = results.T
    assert (low <= wrong.sum()).mean() > 0.95
    assert (wrong.sum() <= high).mean() > 0.95
    assert low.min() >= 0
    assert high.max() <= images
    error = estimate.std() / math.sqrt(150)
    assert estimate.mean() == pytest.approx(wrong.sum(), abs=3.5 * error + 1e-6)


def test_without_errors_the_bound_is_about_that_of_the_rule_of_three():
    """Of n draws, 0.8 n fall on all images alike; nothing found there leaves about ln(40) / (0.8 n)."""
    ((low, high, _),) = reviews(np.full(10_000, 1e-3), np.zeros(10_000), drawn=100, times=1)
    assert low == 0
    assert 0.03 < high / 10_000 < 0.06


def test_good_scores_make_the_estimate_vary_less():
    draw = np.random.default_rng(2)
    expected = np.where(draw.random(3000) < 0.05, 0.95, 0.002)
    wrong = (draw.random(3000) < expected).astype(float)
    spread = np.std([each[2] for each in reviews(expected, wrong, drawn=100, times=60)])
    plain = 3000 * math.sqrt(0.05 * 0.95 / 100)
    assert spread < plain / 2


def test_the_confidence_is_kept_by_both_sides_together():
    assert certified.CONFIDENCE == 0.95
    assert sum(SHARES) == pytest.approx(1)
    assert all(0 < bet < 1 for bet in BETS)
