"""Decoders: what they see, what they give, and how large they are."""

import math

import pytest
import torch

import hitnet
from hitnet import HitNetError
from hitnet.models import ModelConfig
from hitnet.models.decoders import build_decoder, masked_target, standardise


def parameters(module):
    return sum(p.numel() for p in module.parameters())


def test_standardise_by_hand():
    torch.manual_seed(0)
    capsules, classes = torch.rand(5, 3, 4), torch.tensor([0, 2, 1, 1, 0])
    standardised = standardise(capsules, classes)
    for i in range(5):
        for k in range(3):
            for j in range(4):
                on = (float(capsules[i, k, j]) - 0.5) / (0.1 / math.sqrt(4)) + 1
                assert float(standardised[i, k, j]) == pytest.approx(on if k == int(classes[i]) else 0.0, abs=1e-5)


def test_the_centre_of_the_standardised_capsule_is_the_heads():
    at_zero = standardise(torch.zeros(1, 2, 4), torch.tensor([1]), centre=0.0)
    assert at_zero.tolist() == [[[0.0] * 4, [1.0] * 4]]


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 40, 24), (1, 9, 50), (1, 3, 3), (3, 64, 64)])
@pytest.mark.parametrize("name", ["paper", "standardised", "conv"])
def test_any_shape(name, shape):
    images = build_decoder(name, shape, 2 * 4)(torch.rand(3, 2, 4), torch.tensor([0, 1, 1]))
    assert images.shape == (3, *shape)
    assert images.min() >= 0
    assert images.max() <= 1


@pytest.mark.parametrize("name", ["paper", "standardised", "conv"])
def test_masked_capsules_do_not_matter(name):
    torch.manual_seed(0)
    decoder = build_decoder(name, (1, 8, 8), 3 * 4).eval()
    capsules, classes = torch.rand(2, 3, 4), torch.tensor([1, 1])
    other = capsules.clone()
    other[:, [0, 2]] = torch.rand(2, 2, 4)
    assert torch.equal(decoder(capsules, classes), decoder(other, classes))
    other[:, 1] += 0.1
    assert not torch.equal(decoder(capsules, classes), decoder(other, classes))


def test_the_dense_decoder_has_the_size_of_the_papers():
    dense = build_decoder("paper", (3, 32, 32), 160)
    assert parameters(dense) == 160 * 512 + 512 + 512 * 1024 + 1024 + 1024 * 3072 + 3072


@pytest.mark.parametrize("in_features", [160, 160 + 64, 640, 640 + 64])
@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64)])
def test_the_convolutional_decoder_is_no_larger_than_the_dense_one(shape, in_features):
    dense, conv = (build_decoder(name, shape, in_features) for name in ("paper", "conv"))
    assert parameters(conv) <= parameters(dense)


def test_extra_components_reach_the_decoder_but_not_the_distance():
    torch.manual_seed(0)
    network = hitnet.models.build("hitnet-small", (3, 16, 16), 3, capsule_dim=4, extra_dim=2, decoder="conv").eval()
    output = network(torch.rand(5, 3, 16, 16))
    assert output.extra.shape == (5, 2)
    assert output.distances.shape == (5, 3)
    before = network.decoder(output.capsules, output.prediction, output.extra)
    assert torch.equal(before, output.reconstruction)
    assert not torch.equal(before, network.decoder(output.capsules, output.prediction, output.extra + 1))


def test_extra_components_have_mean_zero_and_spread_one_in_training():
    torch.manual_seed(0)
    network = hitnet.models.build("hitnet-small", (1, 16, 16), 3, extra_dim=2).train()
    extra = network(torch.rand(64, 1, 16, 16), torch.zeros(64, dtype=torch.long)).extra
    assert extra.mean(dim=0).abs().max() < 1e-4
    assert (extra.std(dim=0, correction=0) - 1).abs().max() < 0.1
    assert network(torch.rand(1, 1, 16, 16), torch.zeros(1, dtype=torch.long)).extra.isfinite().all()


def test_extra_components_learn_only_from_the_reconstruction():
    network = hitnet.models.build("hitnet-small", (1, 16, 16), 3, extra_dim=2).train()
    output = network(torch.rand(8, 1, 16, 16), torch.arange(8) % 3)
    (gradient,) = torch.autograd.grad(
        output.distances.sum(), network.extra.linear.weight, retain_graph=True, allow_unused=True
    )
    assert gradient is None
    (gradient,) = torch.autograd.grad(output.reconstruction.sum(), network.extra.linear.weight)
    assert gradient.abs().sum() > 0


def test_masked_target():
    images, masks = torch.rand(2, 3, 4, 4), torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    masks[0, 0, 1, 2], masks[1, 0, 3, 3] = 255, 1
    target = masked_target(images, masks)
    for i in range(2):
        for row in range(4):
            for column in range(4):
                expected = images[i, :, row, column] if masks[i, 0, row, column] else torch.zeros(3)
                assert torch.equal(target[i, :, row, column], expected)


def test_old_configurations_mean_what_they_meant():
    values = ModelConfig((1, 28, 28), 10).to_dict()
    del values["extra_dim"]
    assert ModelConfig.from_dict(values).extra_dim == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"decoder": "convolutional"}, "no decoder named 'convolutional'"),
        ({"extra_dim": -1}, "extra_dim must be a whole number from 0 on"),
        ({"extra_dim": 2.0}, "extra_dim must be a whole number from 0 on"),
        ({"capsule_dim": 8.0}, "capsule_dim must be a whole number from 1 on"),
        ({"extra_dim": 4, "decoder": "none"}, "Choose a decoder"),
    ],
)
def test_errors(options, says):
    with pytest.raises(HitNetError, match=says):
        hitnet.models.build("hitnet", (1, 28, 28), 10, **options)
