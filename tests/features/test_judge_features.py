"""All judges together: their scale, their order, and that they find wrong labels."""

import numpy as np
import torch
from feature_samples import blobs

from hitnet.audit import scores
from hitnet.features.judges import FLOOR, NEIGHBOURS, judge_features
from hitnet.features.neighbours import neighbour_votes


def test_heads_come_first_and_neighbours_last():
    features, labels = blobs()
    judgement = judge_features(features, labels, 3, repeats=1)
    assert judgement.distances.shape == (1 + 1 + len(NEIGHBOURS), 120, 3)
    assert judgement.capsules == 1
    probabilities = torch.exp(-10 * judgement.distances[1])
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(120), rtol=0, atol=1e-4)
    votes = neighbour_votes(features, labels, 3, NEIGHBOURS[0])
    torch.testing.assert_close(judgement.distances[2], -0.1 * torch.log(votes + FLOOR))


def test_wrong_labels_are_the_most_doubtful():
    features, labels = blobs(count=240, spread=0.8)
    given = labels.clone()
    given[:12] = (labels[:12] + 1) % 3
    distances = judge_features(features, given, 3, repeats=2).distances.numpy().astype(np.float64)
    doubts = scores.doubt(scores.gather(distances, given.numpy()), given.numpy())
    most = np.argsort(-doubts.value)[:12]
    assert (most < 12).mean() > 0.9
    assert (doubts.rival[:12] == labels[:12].numpy()).mean() > 0.9


def test_views():
    features, labels = blobs()
    assert judge_features(torch.stack([features, features]), labels, 3, repeats=1).distances.shape == (4, 120, 3)
