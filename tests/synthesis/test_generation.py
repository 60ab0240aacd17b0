"""Generation: the same images whatever the batches, the right laws, and laziness."""

import itertools
import math

import pytest
import torch

import hitnet
import own_networks  # noqa: F401
from hitnet import HitNetError
from hitnet.synthesis import decode, fitted_gaussians, generate, prototypes
from hitnet.synthesis.distributions import CapsuleGaussians, paper_gaussians, sample_images


def whole(batches):
    images, labels = zip(*batches, strict=True)
    return torch.cat(images), torch.cat(labels)


@pytest.mark.parametrize("law", ["fitted", "paper"])
def test_batches_add_up_to_the_same_images(toy_run, law):
    options = {"law": law, "seed": 3, "device": "cpu"}
    images, labels = whole(generate(toy_run, None, 7, batch_size=1000, **options))
    assert labels.tolist() == [0] * 7 + [1] * 7 + [2] * 7
    for size in (1, 4, 10):
        again, same = whole(generate(toy_run, None, 7, batch_size=size, **options))
        assert torch.equal(labels, same)
        assert torch.allclose(images, again, atol=1e-6)


def test_an_image_depends_on_seed_class_and_place_alone(toy_run):
    images, labels = whole(generate(toy_run, None, 5, device="cpu"))
    alone, _ = whole(generate(toy_run, ["band 2"], 3, device="cpu"))
    assert torch.allclose(images[labels == 2][:3], alone, atol=1e-6)
    other, _ = whole(generate(toy_run, ["band 2"], 3, seed=1, device="cpu"))
    assert not torch.allclose(alone, other)


def test_the_papers_gaussian(extra_network):
    gaussians = paper_gaussians(extra_network)
    assert gaussians.mean[1].tolist() == [0.5] * 4 + [0.0] * 2
    expected = torch.diag(torch.tensor([0.1 / math.sqrt(4)] * 4 + [1.0] * 2, dtype=torch.float64) ** 2)
    assert torch.allclose(gaussians.covariance[2], expected)


def test_capsules_follow_the_gaussian(toy_run, monkeypatch):
    drawn = []

    def record(network, capsules, classes, extra=None):
        drawn.append(capsules)
        return torch.zeros(len(classes), 1, 12, 12)

    monkeypatch.setattr("hitnet.synthesis.distributions.decode", record)
    fitted = fitted_gaussians(toy_run, device="cpu")
    list(sample_images(toy_run.model, [1], 20_000, gaussians=fitted, spread=0.5))
    capsules = torch.cat(drawn)
    assert torch.allclose(capsules.mean(dim=0), fitted.mean[1], atol=0.01)
    assert torch.allclose(torch.cov(capsules.T), 0.25 * fitted.covariance[1], atol=2e-3)


def test_no_spread_gives_the_mean(toy_run):
    images, _ = whole(generate(toy_run, ["band 1"], 2, law="paper", spread=0, device="cpu"))
    assert torch.allclose(images[0], prototypes(toy_run, classes=["band 1"], device="cpu").images[0], atol=1e-6)
    images, _ = whole(generate(toy_run, ["band 1"], 1, spread=0, device="cpu"))
    mean = fitted_gaussians(toy_run, device="cpu").mean[1:2]
    assert torch.allclose(images, decode(toy_run.model, mean, torch.tensor([1])), atol=1e-6)


def test_a_trillion_images_are_made_only_as_they_are_asked_for(toy_run):
    batches = generate(toy_run, None, 10**12, batch_size=8, device="cpu")
    first = list(itertools.islice(batches, 3))
    assert [len(batch.labels) for batch in first] == [8, 8, 8]
    assert all(batch.images.shape == (8, 1, 12, 12) for batch in first)


def test_networks_that_push_capsules_outwards_are_sampled_from_fitted_gaussians():
    network = hitnet.models.build("own-far", (1, 28, 28), 3).eval()
    fitted = CapsuleGaussians(torch.rand(3, 16).double(), torch.eye(16).double().repeat(3, 1, 1), torch.ones(3))
    images, _ = whole(sample_images(network, [0, 1], 2, gaussians=fitted))
    assert images.shape == (4, 1, 28, 28)
    with pytest.raises(HitNetError, match="away from the centre"):
        paper_gaussians(network)


def test_extra_components_are_drawn(extra_network):
    images, _ = whole(sample_images(extra_network, [0], 2, gaussians=paper_gaussians(extra_network), spread=1.0))
    assert images.shape == (2, 3, 12, 12)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"count": 0}, "count must be a whole number from 1 on"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1 on"),
        ({"spread": -1.0}, "spread must be finite and not negative"),
        ({"seed": -1}, "seed must be a whole number from 0 on"),
        ({"law": "normal"}, "law must be one of fitted, paper"),
        ({"classes": ["hand"]}, "no class named 'hand'. Did you mean 'band"),
    ],
)
def test_errors_come_before_capsules_are_fitted(toy_run, monkeypatch, options, says):
    monkeypatch.setattr(
        hitnet.synthesis.distributions, "fitted_gaussians", lambda *args, **options: pytest.fail("fitted")
    )
    with pytest.raises(HitNetError, match=says):
        generate(toy_run, device="cpu", **options)


def test_a_class_without_images(toy_run, toy_set):
    without_band_1 = toy_set.select((toy_set.labels != 1).nonzero()[:, 0])
    with pytest.raises(HitNetError, match="no images of band 1 to fit"):
        generate(toy_run, data=without_band_1, device="cpu")
    assert len(list(generate(toy_run, ["band 0"], 2, data=without_band_1, device="cpu"))) == 1
