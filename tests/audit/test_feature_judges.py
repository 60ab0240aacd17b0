"""All judges of features together: their order and scale."""

import torch

from feature_samples import blobs
from hitnet.audit.feature_judges import judge_features, steps_of_heads
from hitnet.features.neighbours import nearest, neighbour_votes
from hitnet.features.opinions import FLOOR, NEIGHBOURS
from toy import Counted


def test_heads_come_first_and_neighbours_last():
    features, labels = blobs()
    opinions = judge_features(features, labels, 3, repeats=2)
    kinds = ["Hit-or-Miss heads"] * 2 + ["softmax heads"] * 2 + ["least squares", "20 neighbours"]
    assert [opinion.kind for opinion in opinions] == kinds
    assert [opinion.capsules for opinion in opinions] == [True, True, False, False, False, False]
    assert not any(opinion.in_sample for opinion in opinions)
    assert {(opinion.distances.shape, opinion.distances.dtype.name) for opinion in opinions} == {((120, 3), "float32")}
    votes = neighbour_votes(nearest(features, NEIGHBOURS), labels, 3)
    torch.testing.assert_close(torch.from_numpy(opinions[5].distances), -0.1 * torch.log(votes + FLOOR))
    for first in (0, 2):
        assert (opinions[first].distances != opinions[first + 1].distances).any()
    probabilities = torch.exp(-torch.from_numpy(opinions[2].distances) / 0.1)
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(120))


def test_progress_is_told_at_each_step():
    features, labels = blobs()
    counted = Counted()
    judge_features(features, labels, 3, repeats=2, progress=counted)
    assert sum(counted.steps) == len(counted.steps) == steps_of_heads(len(labels), 2) == 1200
