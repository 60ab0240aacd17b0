"""Doubts about labels against plain loops in float64."""

import math
import statistics

import numpy as np
import pytest
from audit_samples import CASES, nearest, random_case

from hitnet.audit import margins as module
from hitnet.audit.margins import margins as margins_of


def prior_by_loops(doubts, labels, rivals, classes, strength=16):
    """The hit radius times the logarithms of the pair's rate of doubted labels and, halved, of their number."""
    doubted = [d > 0 for d in doubts]
    overall = max(sum(doubted) / len(doubts), 1 / len(doubts))
    prior = [[0.0] * classes for _ in range(classes)]
    for given in range(classes):
        for other in range(classes):
            members = [doubted[i] for i in range(len(doubts)) if (labels[i], rivals[i]) == (given, other)]
            rate = (sum(members) + strength) / (len(members) + strength / overall)
            even = overall * sum(label == given for label in labels) / (classes - 1)
            number = (sum(members) + strength) / (even + strength)
            prior[given][other] = 0.1 * math.log(rate / overall) + 0.05 * math.log(number)
    return prior


@pytest.mark.parametrize(("distances", "labels"), CASES)
def test_pair_prior_against_loops(distances, labels):
    doubts = np.random.default_rng(3).normal(-0.2, 0.3, len(labels))
    doubts[:4] = 0  # not above 0
    classes, rivals = distances.shape[2], margins_of(distances, labels).ghost
    for values in (doubts, -np.abs(doubts), np.abs(doubts)):
        prior = module.pair_prior(module.Doubt(values, rivals), labels, classes)
        expected = prior_by_loops(values.tolist(), labels.tolist(), rivals.tolist(), classes)
        assert prior == pytest.approx(np.array(expected), abs=1e-12)
    loose = module.pair_prior(module.Doubt(doubts, rivals), labels, classes, strength=2)
    expected = prior_by_loops(doubts.tolist(), labels.tolist(), rivals.tolist(), classes, 2)
    assert loose == pytest.approx(np.array(expected), abs=1e-12)


def test_a_pair_with_many_mistakes_is_doubted_more():
    """Of 40 images of one class 10 are doubted, all with the same rival: 30 in pair (0, 1), 10 in pair (0, 2)."""
    doubts = module.Doubt(np.array([0.5] * 10 + [-0.5] * 30), np.array([1] * 30 + [2] * 10))
    prior = module.pair_prior(doubts, np.zeros(40, dtype=np.int64), 3)
    assert prior[0, 1] == pytest.approx(0.1 * math.log(26 / (30 + 64) / 0.25) + 0.05 * math.log(26 / (5 + 16)))
    assert prior[0, 2] == pytest.approx(0.1 * math.log(16 / (10 + 64) / 0.25) + 0.05 * math.log(16 / (5 + 16)))
    assert prior[0, 1] > 0 > prior[0, 2]


def test_of_two_classes_as_near_the_frequent_confusion_is_the_rival():
    """30 images of class 0 are plainly of class 2; the last is as near to class 1, which comes first, as to 2."""
    wrong, even, right = [1.2, 1.3, 0.1], [1.2, 0.3, 0.3], [0.1, 1.2, 1.2]
    distances = np.array([[wrong] * 30 + [right] * 300 + [even]])
    labels = np.zeros(331, dtype=np.int64)
    evidence = margins_of(distances, labels)
    doubt = module.doubt(evidence, labels)
    assert (evidence.ghost[-1], doubt.rival[-1]) == (1, 2)
    assert doubt.value[-1] > 0


def doubt_by_loops(distances, labels):
    """Value and rival of each image."""
    models, _, classes = distances.shape
    given = labels.tolist()
    margins = []
    for i, label in enumerate(given):
        rows = [distances[m, i].tolist() for m in range(models)]
        margins.append(statistics.fmean(row[label] - row[nearest(row, leave_out=label)] for row in rows))
    advantages = []
    for i, label in enumerate(given):
        of_class = [m for m, other in zip(margins, given, strict=True) if other == label]
        shift = statistics.median(of_class) - statistics.median(margins)
        gaps = [[distances[m, i, label] - distances[m, i, k] for m in range(models)] for k in range(classes)]
        row = [statistics.fmean(gap) - statistics.pstdev(gap) / 2 - shift / 2 for gap in gaps]
        row[label] = -math.inf
        advantages.append(row)
    first = [max(row) for row in advantages]
    rivals = [row.index(max(row)) for row in advantages]
    prior = prior_by_loops(first, given, rivals, classes)
    final = [
        [advantage + prior[label][k] for k, advantage in enumerate(row)]
        for row, label in zip(advantages, given, strict=True)
    ]
    return [max(row) for row in final], [row.index(max(row)) for row in final]


@pytest.mark.parametrize(("distances", "labels"), CASES)
def test_doubt_against_loops(distances, labels):
    evidence = margins_of(distances, labels)
    doubt = module.doubt(evidence, labels)
    values, rivals = doubt_by_loops(distances, labels)
    assert doubt.value == pytest.approx(values)
    assert doubt.rival.tolist() == rivals
    assert (doubt.rival != labels).all()


def test_doubt_changes_none_of_the_evidence():
    distances, labels = CASES[0]
    evidence = margins_of(distances, labels)
    before = evidence.margin_mean.copy()
    module.doubt(evidence, labels)
    assert evidence.margin_mean.tolist() == before.tolist()
    assert distances.tolist() == random_case(5, 40, 4)[0].tolist()


def test_a_spread_over_the_networks_lowers_the_doubt():
    agreed = np.array([[0.9, 0.4]] * 4)
    split = np.array([[0.9, 0.0], [0.9, 0.8], [0.9, 0.0], [0.9, 0.8]])
    labels = np.zeros(2, dtype=np.int64)
    evidence = margins_of(np.stack([agreed, split], axis=1), labels)
    assert evidence.margin_mean == pytest.approx([0.5, 0.5])
    doubts = module.doubt(evidence, labels).value
    assert doubts[0] - doubts[1] == pytest.approx(0.5 * 0.4)


def test_a_class_that_is_hard_as_a_whole_is_doubted_less():
    """The same margin counts for less in a class whose margins are all high."""
    margins = [-0.9, -0.9, -0.9, 0.1, -0.1, -0.1, -0.1, 0.1]
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    distances = np.array([[[1.0, 1.0]] * 8])
    for i, (margin, label) in enumerate(zip(margins, labels.tolist(), strict=True)):
        distances[0, i, label] = 1.0 + margin
    doubts = module.doubt(margins_of(distances, labels), labels).value
    # Medians: -0.9 and -0.1, of all -0.1; so the first class's doubts rise by 0.4. Both pairs have the same rate.
    assert doubts == pytest.approx([-0.5, -0.5, -0.5, 0.5, -0.1, -0.1, -0.1, 0.1])
