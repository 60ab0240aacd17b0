"""DropConnect against plain loops: its training step image by image, and its evaluation against many drawn masks."""

import math

import pytest
import torch

import hitnet
from hitnet import HitNetError
from reproduction.dropconnect import DropConnect


def layer_of(inputs=5, units=4, keep=0.5, seed=0):
    torch.manual_seed(seed)
    layer = DropConnect(inputs, units, keep=keep).double()
    with torch.no_grad():
        layer.bias.copy_(torch.randn(units))
    return layer


def naive_units(layer, features, masks):
    out = torch.zeros(len(features), len(layer.bias), dtype=torch.float64)
    for b in range(len(features)):
        for o in range(len(layer.bias)):
            total = layer.bias[o].item() if masks[1][b, o] else 0.0
            for i in range(features.shape[1]):
                if masks[0][b, o, i]:
                    total += layer.weight[o, i].item() * features[b, i].item()
            out[b, o] = max(0.0, total)
    return out


def test_training_against_a_loop_over_images():
    layer, features = layer_of(), torch.randn(3, 5, dtype=torch.float64)
    layer.draw(3)
    masks = [mask.clone() for mask in layer.masks[3]]
    assert torch.allclose(layer(features), naive_units(layer, features, masks))
    assert not torch.equal(masks[0][0], masks[0][1])  # each image has its own


def test_gradients_of_a_training_step():
    layer, features = layer_of(seed=1), torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    layer.draw(3)
    masks = layer.masks[3]

    def units(features, weight, bias):
        layer.drawn = 3  # the same masks in all calls
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (features,))

    assert torch.autograd.gradcheck(units, (features, layer.weight, layer.bias))
    dropped = ~masks[0].any(dim=0)
    units(features, layer.weight, layer.bias).sum().backward()
    assert not layer.weight.grad[dropped].any()


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_masks_keep_the_share_that_they_should(keep):
    layer = layer_of(100, 50, keep)
    layer.draw(40)
    masks = layer.masks[40]
    assert masks[0].float().mean() == pytest.approx(keep, abs=0.01)
    assert masks[1].float().mean() == pytest.approx(keep, abs=0.05)


def test_every_call_in_training_draws_anew():
    layer, features = layer_of(), torch.randn(3, 5, dtype=torch.float64)
    assert not torch.equal(layer(features), layer(features))
    layer.eval()
    assert torch.equal(layer(features), layer(features))


def test_evaluation_is_the_mean_over_masks():
    """With many inputs the sum is nearly normal, so the mean over drawn masks is what evaluation computes."""
    layer, features = layer_of(200, 6), torch.randn(2, 200, dtype=torch.float64)
    with torch.no_grad():
        drawn = torch.stack([layer(features) for _ in range(4000)])
        expected = layer.eval()(features)
    assert torch.allclose(drawn.mean(dim=0), expected, atol=5 * float(drawn.std(dim=0).max()) / math.sqrt(4000))


@torch.no_grad()
def test_evaluation_by_hand():
    """The mean of relu(u) for normal u, as a sum over a fine grid."""
    layer, features = layer_of(keep=0.3), torch.randn(2, 5, dtype=torch.float64)
    units = layer.eval()(features)
    for b in range(2):
        for o in range(4):
            terms = [float(layer.weight[o, i] * features[b, i]) for i in range(5)] + [float(layer.bias[o])]
            mean, spread = 0.3 * sum(terms), math.sqrt(0.3 * 0.7 * sum(term**2 for term in terms))
            grid = torch.linspace(mean - 9 * spread, mean + 9 * spread, 20_001, dtype=torch.float64)
            density = torch.exp(-0.5 * ((grid - mean) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))
            expected = float((grid.clamp_min(0) * density).sum() * (grid[1] - grid[0]))
            assert float(units[b, o]) == pytest.approx(expected, abs=1e-6)


def test_without_dropping_it_is_a_plain_layer():
    layer, features = layer_of(keep=1.0), torch.randn(3, 5, dtype=torch.float64)
    expected = torch.relu(features @ layer.weight.T + layer.bias)
    assert torch.allclose(layer(features), expected)
    assert torch.allclose(layer.eval()(features), expected)


@pytest.mark.parametrize("keep", [0.0, -0.5, 1.5])
def test_impossible_shares_are_refused(keep):
    with pytest.raises(HitNetError, match="keep must be above 0"):
        DropConnect(3, 2, keep=keep)


def test_the_network_has_one_such_layer_of_150_units():
    network = hitnet.models.build("dropconnect", (1, 28, 28), 10)
    layer = network.features.connect
    assert layer.weight.shape == (150, 64 * 4 * 4)
    assert layer.keep == 0.5
    assert network.head.loss == "cross-entropy"
    output = network.eval()(torch.rand(4, 1, 28, 28))
    assert torch.allclose(output.distances.sum(dim=1), torch.ones(4))
    assert torch.equal(output.prediction, output.capsules.squeeze(-1).argmax(dim=1))
