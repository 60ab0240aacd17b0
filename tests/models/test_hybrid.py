"""Hybrid augmentation of a batch: the formula, the three pictures, and what is refused."""

import numpy as np
import pytest
import torch

import hitnet
from hitnet import HitNetError
from hitnet.models.hybrid import capsule_noise, combine, component_spread, decode_batch, draw_noise, hybrid


@pytest.fixture(scope="module")
def network() -> hitnet.Network:
    return hitnet.models.build("hitnet-small", (1, 12, 12), 3, capsule_dim=4).eval()


@pytest.fixture(scope="module")
def extra_network() -> hitnet.Network:
    """A network with a convolutional decoder and extra components, for colour images."""
    return hitnet.models.build("hitnet-small", (3, 12, 12), 3, capsule_dim=4, decoder="conv", extra_dim=2).eval()


def test_the_formula_by_hand():
    torch.manual_seed(0)
    x, rec, mod = (torch.rand(2, 3, 4, 4, dtype=torch.float64) for _ in range(3))
    combined = combine(x, rec, mod)
    for position in np.ndindex(2, 3, 4, 4):
        expected = min(1.0, max(0.0, float(mod[position]) + float(x[position]) - float(rec[position])))
        assert float(combined[position]) == pytest.approx(expected)


def test_noise_is_in_units_of_the_expected_spread(network):
    assert component_spread(network) == pytest.approx(0.1 / 2)  # m = 0.1, n = 4
    normal = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(capsule_noise(network, normal, 3.0), 3.0 * 0.1 / 2 * normal)
    assert not capsule_noise(network, normal, 0.0).any()


def test_normal_noise_is_drawn_as_it_always_was(network):
    drawn = draw_noise(network, 5, torch.Generator().manual_seed(3), "normal", 2.0)
    normal = torch.randn(5, 4, generator=torch.Generator().manual_seed(3))
    assert torch.equal(drawn, capsule_noise(network, normal, 2.0))


def test_noise_on_one_component_is_uniform_and_leaves_the_others(network):
    noise = draw_noise(network, 4000, torch.Generator().manual_seed(0), "component", 0.5)
    changed = noise != 0
    assert torch.equal(changed.sum(dim=1), torch.ones(4000, dtype=torch.long))
    assert (changed.sum(dim=0) - 1000).abs().max() < 150
    values = noise[changed]
    limit = 2 * 0.5 * 0.1 / 2  # twice the strength times m/√n
    assert values.abs().max() <= limit
    assert values.mean().abs() < 0.05 * limit
    assert values.std() == pytest.approx(limit / 3**0.5, rel=0.03)  # the spread of a uniform distribution


@pytest.mark.parametrize("kind", ["plain", "extra"])
def test_the_three_pictures(network, extra_network, kind):
    torch.manual_seed(0)
    network = network if kind == "plain" else extra_network
    images, labels = torch.rand(4, *network.config.in_shape), torch.tensor([0, 1, 2, 2])
    change = 0.1 * torch.randn(4, 4)
    augmented = hybrid(network, images, labels, change)
    output = network(images)
    true_capsules = output.capsules[torch.arange(4), labels]
    assert torch.allclose(
        augmented.reconstruction, decode_batch(network, true_capsules, labels, output.extra), atol=1e-5
    )
    assert torch.allclose(
        augmented.modified, decode_batch(network, true_capsules + change, labels, output.extra), atol=1e-5
    )
    assert torch.allclose(augmented.result, combine(images, augmented.reconstruction, augmented.modified), atol=1e-6)
    assert not torch.allclose(augmented.modified, augmented.reconstruction, atol=1e-3)


def test_no_change_gives_the_image_back(network):
    images = torch.rand(3, 1, 12, 12)
    augmented = hybrid(network, images, torch.arange(3), torch.zeros(3, 4))
    assert torch.allclose(augmented.result, images, atol=1e-6)


@pytest.mark.gpu
def test_it_can_be_captured():
    network = hitnet.models.build("hitnet-small", (1, 12, 12), 3, capsule_dim=4).to("cuda").eval()
    images, labels = torch.rand(8, 1, 12, 12, device="cuda"), torch.arange(8, device="cuda") % 3
    change = 0.1 * torch.randn(8, 4, device="cuda")
    expected = hybrid(network, images, labels, change).result
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = hybrid(network, images, labels, change).result
    graph.replay()
    assert torch.allclose(captured, expected, atol=1e-4)


def test_a_change_of_another_shape_is_refused(network):
    images, labels = torch.rand(3, 1, 12, 12), torch.arange(3)
    with pytest.raises(HitNetError, match=r"change .*; got \(3, 1\)"):
        hybrid(network, images, labels, torch.zeros(3, 1))


def test_errors(network):
    with pytest.raises(HitNetError, match="no decoder"):
        hybrid(hitnet.models.build("n1", (1, 28, 28), 3), torch.rand(1, 1, 28, 28), None, None)
    with pytest.raises(HitNetError, match="12, 12"):
        hybrid(network, torch.rand(1, 1, 9, 9), torch.zeros(1).long(), torch.zeros(1, 4))
