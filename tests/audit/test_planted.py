"""Planted errors, and the weight of networks that they tell."""

import math

import numpy as np
import pytest
import torch

from hitnet.audit import planted as module
from hitnet.audit.planted import logistic_likelihood, plant_errors, seen_weight, weigh_networks
from hitnet.features.opinions import Opinion


def test_a_share_of_the_labels_gets_another_class():
    labels = torch.arange(1000) % 4
    planted = plant_errors(labels, 4, seed=3)
    changed = planted != labels
    assert changed.sum() == round(1000 * module.SHARE)
    assert set(planted[changed].tolist()) == {0, 1, 2, 3}
    assert torch.equal(planted, plant_errors(labels, 4, seed=3))
    assert not torch.equal(planted, plant_errors(labels, 4, seed=4))
    assert torch.equal(labels, torch.arange(1000) % 4)


def test_without_other_classes_or_images_enough_nothing_is_planted():
    one = torch.zeros(100, dtype=torch.long)
    assert torch.equal(plant_errors(one, 1, seed=0), one)
    few = torch.arange(10) % 2
    assert torch.equal(plant_errors(few, 2, seed=0), few)


def naive_likelihood(values, event, counts, a, b):
    """Plain loop."""
    total = 0.0
    for value, happened, count in zip(values, event, counts, strict=True):
        probability = 1 / (1 + math.exp(-a * value - b))
        total += count * math.log(probability if happened else 1 - probability)
    return total


def test_the_likelihood_is_the_highest():
    draw = np.random.default_rng(0)
    values, counts = draw.normal(size=80) * 3 + 1, draw.random(80)
    event = draw.random(80) < 1 / (1 + np.exp(1 - values))
    found = logistic_likelihood(values, event, counts)
    grid = [
        naive_likelihood(values.tolist(), event, counts, a, b)
        for a in np.arange(0, 3, 0.05)
        for b in np.arange(-4, 2, 0.1)
    ]
    assert max(grid) - 0.02 < found < max(grid) + 0.05


def test_values_that_separate_events_have_a_likelihood_of_about_1():
    values = np.array([*range(20), *range(1000, 1010)], float)
    assert -0.2 < logistic_likelihood(values, values > 500, np.ones(30)) < 0
    assert math.isfinite(logistic_likelihood(np.zeros(30), values > 500, np.ones(30)))


def case(knows, count=900, classes=4, seed=0):
    """Heads that often err, and networks trained on planted labels, which know the truth or only those labels."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, classes, count)
    given = np.where(draw.random(count) < 0.05, (truth + draw.integers(1, classes, count)) % classes, truth)
    labels = torch.from_numpy(given)
    planted = plant_errors(labels, classes, seed)

    def distances(favoured, noise):
        return (1 - 0.5 * favoured + noise * draw.normal(size=(count, classes))).astype(np.float32)

    eye = np.eye(classes)
    heads = [
        Opinion("heads", distances(eye[truth], 0.25), capsules=True),
        Opinion("squares", distances(eye[truth], 0.3)),
    ]
    known = eye[truth] if knows else draw.random((count, classes))
    networks = [Opinion("networks", distances(eye[planted.numpy()] + known, 0.1), True, True) for _ in range(2)]
    return networks, heads, labels, planted


@pytest.mark.parametrize("seed", range(3))
def test_only_networks_that_know_more_than_labels_count(seed):
    assert seen_weight(*case(True, seed=seed)) >= 0.3
    assert seen_weight(*case(False, seed=seed)) == 0


def test_without_planted_labels_networks_do_not_count():
    networks, heads, labels, _ = case(True)
    assert seen_weight(networks, heads, labels, labels) == 0


def test_heads_stand_in_where_a_label_was_planted():
    networks, heads, labels, planted = case(True)
    weighed, changed = weigh_networks(networks, heads, labels, planted), (planted != labels).numpy()
    for before, after in zip(networks, weighed, strict=True):
        np.testing.assert_array_equal(after.distances[~changed], before.distances[~changed])
        np.testing.assert_array_equal(after.distances[changed], heads[0].distances[changed])
        assert set(after.weight[changed]) == {0}
        assert set(after.weight[~changed]) == {seen_weight(networks, heads, labels, planted)}
