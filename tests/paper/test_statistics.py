"""Figures over runs, against naive computations."""

import math

import pytest
from scipy import stats

from hitnet.paper.statistics import difference, differs, summarise
from toy_book import record

T_975 = {1: 12.706205, 2: 4.302653}  # Student's t, from a printed table


def naive_std(values):
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


@pytest.fixture
def long_runs(book):
    """Three runs of 120 epochs that settle at different errors and swing differently."""
    made = []
    for run, (level, swing) in enumerate([(3, 1), (4, 2), (6, 0)]):
        wrong = [12] * 20 + [level + swing * ((epoch + run) % 2) for epoch in range(100)]
        made.append(record(book.experiments["toy"], wrong, epochs=120))
    return made


def test_against_naive_sums(long_runs):
    found = summarise(long_runs)
    errors = [100 * one.final_wrong / 12 for one in long_runs]
    std = naive_std(errors)
    assert found.runs == 3
    assert found.mean == pytest.approx(sum(errors) / 3)
    assert found.std == pytest.approx(std)
    assert found.best == min(errors)
    assert found.margin == pytest.approx(T_975[2] * std / math.sqrt(3), rel=1e-6)
    assert found.interval == pytest.approx((found.mean - found.margin, found.mean + found.margin))
    swings = [naive_std([100 * count / 12 for count in one.wrong[-100:]]) for one in long_runs]
    assert found.irregularity == pytest.approx(sum(swings) / 3)


def test_the_error_is_that_of_the_last_epoch_not_the_lowest(book):
    made = record(book.experiments["toy"], [1, 9])
    assert made.error == 75
    assert summarise([made]).best == 75


def test_what_few_runs_do_not_allow(book):
    assert summarise([]) is None
    one = summarise([record(book.experiments["toy"], [5, 3])])
    assert (one.runs, one.mean) == (1, 25)
    assert one.std is one.margin is one.interval is one.irregularity is None
    assert differs(one, 99.0, half_unit=0.005) is None
    two = summarise([record(book.experiments["toy"], [5, wrong]) for wrong in (3, 6)])
    assert two.std == pytest.approx(naive_std([25, 50]))
    assert two.margin == pytest.approx(T_975[1] * two.std / math.sqrt(2), rel=1e-6)


def test_differences_beyond_the_interval_and_the_rounding(long_runs):
    found = summarise(long_runs)
    assert not differs(found, found.mean + found.margin, half_unit=0.005)
    assert not differs(found, found.mean - found.margin - 0.004, half_unit=0.005)
    assert differs(found, found.mean + found.margin + 0.006, half_unit=0.005)


def test_two_means_against_welch_by_hand(book):
    toy = book.experiments["toy"]
    one, other = ([record(toy, [12, wrong]) for wrong in counts] for counts in ([3, 4, 6], [5, 9]))
    found = difference(one, other)
    a, b = ([100 * r.final_wrong / 12 for r in records] for records in (one, other))
    assert found.mean == pytest.approx(sum(a) / 3 - sum(b) / 2)
    parts = naive_std(a) ** 2 / 3, naive_std(b) ** 2 / 2
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 1)
    assert found.margin == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(sum(parts)))
    assert found.interval == pytest.approx((found.mean - found.margin, found.mean + found.margin))


def test_means_of_single_runs_are_not_compared(book):
    made = [record(book.experiments["toy"], [5, 3])]
    assert difference(made, made * 2) is difference(made * 2, []) is None
    assert difference(made * 2, made * 2).interval == (0, 0)
