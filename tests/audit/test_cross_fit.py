"""Networks that leave out images: against loops, and how much those count that have seen the label."""

import numpy as np
import pytest
import torch

from hitnet.audit.judgement import cross_fitted, seen_weight
from hitnet.audit.scoring import score_labels
from hitnet.features.opinions import Opinion


def test_against_loops():
    draw = np.random.default_rng(0)
    distances = draw.random((3, 8, 4)).astype(np.float32)
    left_out, labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1]), torch.arange(8) % 4
    unseen, seen = cross_fitted(distances, left_out, labels)
    assert (unseen.in_sample, unseen.weight, seen.in_sample) == (False, None, True)
    doubted = still = 0
    for i in range(8):
        own = distances[left_out[i], i]
        others = np.mean([distances[j, i] for j in range(3) if j != left_out[i]], axis=0)
        np.testing.assert_array_equal(unseen.distances[i], own)
        np.testing.assert_allclose(seen.distances[i], others, rtol=1e-5)
        doubted += own.argmin() != labels[i]
        still += own.argmin() != labels[i] and others.argmin() != labels[i]
    assert seen.weight == pytest.approx(still / doubted)


def test_networks_that_know_labels_by_heart_do_not_count():
    labels = np.arange(40) % 4
    by_heart, mistaken = 1 - np.eye(4)[labels], 1 - np.eye(4)[(labels + 1) % 4]
    assert seen_weight(mistaken, by_heart, labels) == 0
    assert seen_weight(mistaken, mistaken, labels) == 1
    assert seen_weight(by_heart, mistaken, labels) == 0  # nothing is contradicted


def case(*, by_heart, seed=0, count=600, classes=5):
    """Judges that often err, and four networks that leave out a quarter each; labels of which some are wrong."""
    draw = np.random.default_rng(seed)
    truth = np.arange(count) % classes
    given = np.where(draw.random(count) < 0.08, (truth + draw.integers(1, classes, count)) % classes, truth)
    eye = np.eye(classes)

    def distances(known, noise):
        return (0.9 - 0.4 * known + noise * draw.normal(size=known.shape)).astype(np.float32)

    left_out = torch.from_numpy(draw.integers(0, 4, count))
    networks = np.stack([distances(eye[given if by_heart else truth], 0.25) for _ in range(4)])
    for j in range(4):
        out = left_out.numpy() == j
        networks[j, out] = distances(eye[truth[out]], 0.25)
    heads = [Opinion("Hit-or-Miss heads", distances(eye[truth], 0.25), capsules=True)]
    return networks, left_out, heads, given, truth


@pytest.mark.parametrize("by_heart", [False, True])
def test_they_find_more_errors_than_heads_alone(by_heart):
    networks, left_out, heads, given, truth = case(by_heart=by_heart)
    opinions = cross_fitted(networks, left_out, torch.from_numpy(given))
    wrong = given != truth

    def found(judges):
        return wrong[np.argsort(-score_labels(judges, given).doubt)[: wrong.sum()]].sum()

    assert found([*opinions, *heads]) > found(heads)
    assert (opinions[1].weight < 0.1) == by_heart


def test_those_that_have_seen_the_labels_change_the_order_not_the_scores_as_a_whole():
    networks, left_out, heads, given, _ = case(by_heart=False)
    unseen, seen = cross_fitted(networks, left_out, torch.from_numpy(given))
    without, beside = score_labels([unseen, *heads], given), score_labels([unseen, seen, *heads], given)
    np.testing.assert_allclose(np.sort(without.score), np.sort(beside.score))
    assert (np.argsort(without.doubt) != np.argsort(beside.doubt)).any()
