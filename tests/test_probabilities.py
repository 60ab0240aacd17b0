"""Probabilities from distances, recomputed in plain loops."""

import math

import numpy as np
import pytest

from benchmarks.parts.calibration import expected_calibration_error
from hitnet.errors import HitNetError
from hitnet.probabilities import (
    COLDEST,
    HOTTEST,
    class_probabilities,
    fit_temperature,
    mean_surprise,
)


def drawn(count: int, classes: int, temperature: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Distances, and labels drawn from their softmax at a temperature."""
    random = np.random.default_rng(seed)
    distances = random.uniform(0, 1.5, (count, classes))
    weights = np.exp(-distances / temperature)
    chances = weights / weights.sum(axis=1, keepdims=True)
    return distances, (random.uniform(size=(count, 1)) > chances.cumsum(axis=1)).sum(axis=1)


@pytest.mark.parametrize("temperature", [0.03, 0.1, 0.7])
def test_probabilities_are_the_softmax_of_distances_over_the_temperature(temperature):
    distances = np.random.default_rng(0).uniform(0, 2, (50, 7)).astype(np.float32)
    probabilities = class_probabilities(distances, temperature)
    for row, chances in zip(distances, probabilities, strict=True):
        weights = [math.exp(-float(d) / temperature) for d in row]
        np.testing.assert_allclose(chances, np.array(weights) / sum(weights), rtol=1e-9)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-12)


def test_the_likeliest_class_is_the_nearest_capsule_even_of_two_almost_equal():
    distances = np.full((3, 4), 1.9, np.float32)
    distances[:, 2] = np.nextafter(np.float32(1.9), np.float32(0))
    assert (class_probabilities(distances).argmax(1) == 2).all()


def test_a_hit_among_misses_is_almost_certain():
    assert class_probabilities(np.array([[0.1] + [0.9] * 9]))[0, 0] == pytest.approx(0.997, abs=5e-4)


@pytest.mark.parametrize("odd", [np.array([[0.1, np.nan]]), np.array([0.1, 0.2])])
def test_distances_that_are_not_numbers_or_not_a_table_are_refused(odd):
    with pytest.raises(HitNetError, match="finite and of shape"):
        class_probabilities(odd)


def test_a_temperature_of_0_is_refused():
    with pytest.raises(HitNetError, match=r"temperature .*; got 0"):
        class_probabilities(np.zeros((1, 2)), 0)


def test_the_error_rate_is_spread_evenly():
    distances = np.random.default_rng(0).uniform(0, 2, (20, 4))
    expected = 0.9 * class_probabilities(distances, 0.2) + 0.1 / 4
    np.testing.assert_allclose(class_probabilities(distances, 0.2, error_rate=0.1), expected)
    with pytest.raises(HitNetError, match=r"error_rate .*; got 1.5"):
        class_probabilities(distances, error_rate=1.5)


def test_no_images_have_no_probabilities():
    assert class_probabilities(np.zeros((0, 3))).shape == (0, 3)


def test_surprise_counts_a_label_as_almost_right():
    distances, labels = drawn(9, 4, 0.3)
    probabilities = class_probabilities(distances, 0.2)
    total = 0.0
    for row, label in zip(probabilities, labels, strict=True):
        for k, chance in enumerate(row):
            total -= math.log(chance) * (10 / 11 if k == label else 1 / 11 / 3)
    assert mean_surprise(distances, labels, 0.2) == pytest.approx(total / 9)


@pytest.mark.parametrize("temperature", [0.05, 0.4])
def test_the_temperature_is_that_of_the_labels(temperature):
    distances, labels = drawn(20_000, 5, temperature)
    fitted = fit_temperature(distances, labels)
    assert fitted == pytest.approx(temperature, rel=0.05)
    assert expected_calibration_error(class_probabilities(distances, fitted), labels) < 0.015
    assert expected_calibration_error(class_probabilities(distances, temperature / 4), labels) > 0.03


def test_few_images_that_are_all_right_do_not_prove_certainty():
    distances = np.tile([0.2, 0.8, 0.9], (20, 1))
    temperature = fit_temperature(distances, np.zeros(20, np.int64))
    assert COLDEST * 2 < temperature < HOTTEST / 2
    assert 0.9 < class_probabilities(distances, temperature)[0, 0] < 0.98


def test_calibration_error_in_a_plain_loop():
    distances, labels = drawn(300, 3, 0.5)
    probabilities = class_probabilities(distances, 0.1)
    gaps = 0.0
    for low in np.arange(15) / 15:
        rows = [
            i for i, row in enumerate(probabilities) if low <= max(row) < low + 1 / 15 or (max(row) == 1 and low > 0.93)
        ]
        if rows:
            right = sum(probabilities[i].argmax() == labels[i] for i in rows) / len(rows)
            gaps += abs(right - sum(max(probabilities[i]) for i in rows) / len(rows)) * len(rows) / 300
    assert expected_calibration_error(probabilities, labels) == pytest.approx(gaps)
