"""All judges of features together: their order and scale."""

import torch
from feature_samples import blobs

from hitnet.features.neighbours import neighbour_votes
from hitnet.features.opinions import FLOOR, NEIGHBOURS, judge_features


def test_heads_come_first_and_neighbours_last():
    features, labels = blobs()
    opinions = judge_features(features, labels, 3, repeats=2)
    kinds = ["Hit-or-Miss heads", "Hit-or-Miss heads", "least squares", "20 neighbours"]
    assert [opinion.kind for opinion in opinions] == kinds
    assert [opinion.capsules for opinion in opinions] == [True, True, False, False]
    assert not any(opinion.in_sample for opinion in opinions)
    assert {(opinion.distances.shape, opinion.distances.dtype.name) for opinion in opinions} == {((120, 3), "float32")}
    votes = neighbour_votes(features, labels, 3, NEIGHBOURS)
    torch.testing.assert_close(torch.from_numpy(opinions[3].distances), -0.1 * torch.log(votes + FLOOR))
    assert (opinions[0].distances != opinions[1].distances).any()
