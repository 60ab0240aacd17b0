"""All judges together: their scale, their order, and that they find wrong labels."""

import numpy as np
import torch
from feature_samples import blobs

from hitnet.audit import scores
from hitnet.audit.margins import margins
from hitnet.features.neighbours import neighbour_votes
from hitnet.features.opinions import FLOOR, NEIGHBOURS, all_distances, judge_features


def test_heads_come_first_and_neighbours_last():
    features, labels = blobs()
    opinions = judge_features(features, labels, 3, repeats=1)
    kinds = ["Hit-or-Miss heads", "softmax heads", *(f"{k} neighbours" for k in NEIGHBOURS)]
    assert [opinion.kind for opinion in opinions] == kinds
    assert [opinion.capsules for opinion in opinions] == [True, False, False, False]
    assert not any(opinion.in_sample for opinion in opinions)
    assert {(opinion.distances.shape, opinion.distances.dtype.name) for opinion in opinions} == {((120, 3), "float32")}
    probabilities = np.exp(-10 * opinions[1].distances)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=0, atol=1e-4)
    votes = neighbour_votes(features, labels, 3, NEIGHBOURS[0])
    torch.testing.assert_close(torch.from_numpy(opinions[2].distances), -0.1 * torch.log(votes + FLOOR))


def test_wrong_labels_are_the_most_doubtful():
    features, labels = blobs(count=240, spread=0.8)
    given = labels.clone()
    given[:12] = (labels[:12] + 1) % 3
    distances = all_distances(judge_features(features, given, 3, repeats=2))
    doubts = scores.doubt(margins(distances, given.numpy()), given.numpy())
    most = np.argsort(-doubts.value)[:12]
    assert (most < 12).mean() > 0.9
    assert (doubts.rival[:12] == labels[:12].numpy()).mean() > 0.9


def test_views():
    features, labels = blobs()
    assert all_distances(judge_features(torch.stack([features, features]), labels, 3, repeats=1)).shape == (4, 120, 3)
