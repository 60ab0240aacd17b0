"""Margins against plain loops."""

import statistics

import numpy as np
import pytest
from audit_samples import CASES, nearest

from hitnet.audit.margins import margins as margins_of
from hitnet.errors import HitNetError


def mean_of(distances, i):
    """Mean distance of each class over the networks, for image i."""
    models, _, classes = distances.shape
    return [sum(float(distances[m, i, k]) for m in range(models)) / models for k in range(classes)]


@pytest.mark.parametrize(("distances", "labels"), CASES)
def test_evidence_against_loops(distances, labels):
    evidence = margins_of(distances, labels)
    models = len(distances)
    for i, label in enumerate(labels.tolist()):
        mean = mean_of(distances, i)
        ghost = nearest(mean, leave_out=label)
        rows = [distances[m, i].tolist() for m in range(models)]
        margins = [row[label] - row[nearest(row, leave_out=label)] for row in rows]
        assert evidence.mean[i] == pytest.approx(mean)
        for k, spread in enumerate(evidence.spread[i].tolist()):
            assert spread == pytest.approx(statistics.pstdev([row[label] - row[k] for row in rows]), abs=1e-12)
        assert evidence.given_distance[i] == pytest.approx(mean[label])
        assert evidence.ghost[i] == ghost != label
        assert evidence.ghost_distance[i] == pytest.approx(mean[ghost])
        assert evidence.margin_mean[i] == pytest.approx(statistics.fmean(margins))
        assert evidence.margin_std[i] == pytest.approx(statistics.pstdev(margins), abs=1e-12)
        assert evidence.hits[i] == sum(row[label] <= 0.1 for row in rows)


def test_ties_go_to_the_first_class():
    distances = np.array([[[0.5, 0.2, 0.2], [0.2, 0.2, 0.2]]])
    evidence = margins_of(distances, np.array([0, 1]))
    assert evidence.ghost.tolist() == [1, 0]
    assert evidence.margin_mean == pytest.approx([0.3, 0.0])


def test_the_hit_radius_itself_is_a_hit():
    assert margins_of(np.array([[[0.1, 1.0]]]), np.array([0])).hits.tolist() == [1]
    assert margins_of(np.array([[[0.1001, 1.0]]]), np.array([0])).hits.tolist() == [0]


def test_mistakes_are_named():
    distances, labels = CASES[0]
    with pytest.raises(HitNetError, match=r"distances must be \(M, 39, K\); got \(5, 40, 4\)"):
        margins_of(distances, labels[:-1])
    with pytest.raises(HitNetError, match="got \\(40, 4\\)"):
        margins_of(distances[0], labels)
    with pytest.raises(HitNetError, match=r"distances must be \(M, 40, K\); got \(40, 40\)"):
        margins_of(np.ones((40, 40)), labels)
