"""Similar grey images as judges: who is asked, what they say, and that they are always the same."""

import numpy as np
import torch
from audit_samples import FLIPPED, mislabelled, quick_recipe

import hitnet
from hitnet import Judges
from hitnet.audit.networks import views
from hitnet.capsules import HIT_RADIUS
from hitnet.features.opinions import FLOOR, judge_similar_images
from toy import colour_images, toy_images

CPU = torch.device("cpu")


def naive_votes(images, k):
    """The k most similar other images, one at a time: the cosine of blurred pixels about their mean is their weight."""
    padded = np.pad(images.pixels[:, 0].double().numpy() / 255, ((0, 0), (1, 1), (1, 1)))
    height, width = images.shape[1:]
    rows = sum(padded[:, y : y + height, x : x + width] for y in range(3) for x in range(3)).reshape(len(images), -1)
    rows -= rows.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    votes = np.zeros((len(images), images.num_classes))
    for i in range(len(images)):
        similarity = rows @ rows[i]
        similarity[i] = -np.inf
        for j in np.argsort(-similarity)[:k]:
            votes[i, images.labels[j]] += max(similarity[j], 1e-6)
    return votes / votes.sum(axis=1, keepdims=True)


def test_neighbours_are_those_of_blurred_pixels():
    images = toy_images(60)
    for opinion, k in zip(judge_similar_images(images, CPU), (10, 20), strict=True):
        expected = -HIT_RADIUS * np.log(naive_votes(images, k) + FLOOR)
        assert (opinion.kind, opinion.in_sample, opinion.capsules) == (f"{k} neighbours", False, False)
        np.testing.assert_allclose(opinion.distances, expected, atol=1e-4)


def test_neighbours_that_know_little_are_not_asked():
    images = toy_images(60)
    shuffled = images.with_labels(images.labels[torch.randperm(60, generator=torch.Generator().manual_seed(0))])
    assert judge_similar_images(shuffled, CPU) == ()
    assert judge_similar_images(colour_images(60), CPU) == ()
    assert judge_similar_images(toy_images(18), CPU) == ()


def test_they_judge_beside_the_networks():
    judges = Judges("scratch", networks=2, recipe=quick_recipe(), neighbours=True)
    audit = hitnet.audit_labels(mislabelled(), judges=judges, device="cpu")
    assert audit.summary.models == 4
    assert audit.summary.model == "hitnet-small and neighbours"
    assert set(audit.table["id"].head(5)) == set(FLIPPED)
    assert audit.table["hits"].max() <= 2  # only capsules hit
    assert [each.kind for each in audit.kept.opinions] == ["networks", "networks", "10 neighbours", "20 neighbours"]


def test_views_of_grey_images():
    pixels = torch.arange(16, dtype=torch.uint8).view(1, 1, 4, 4)
    assert len(list(views(pixels, flip=False, shift=0))) == 1
    shifted = list(views(pixels, flip=False, shift=1))
    assert len(shifted) == 5
    assert torch.equal(shifted[1][0, 0, 1:], pixels[0, 0, :-1])
