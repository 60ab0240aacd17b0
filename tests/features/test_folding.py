"""Networks whose normalisations and activations are folded into convolutions give what they gave before."""

import pytest
import torch
from torch import nn

from hitnet.features import folding
from hitnet.features.folding import ACTIVATIONS, Packed, folded
from hitnet.models.efficientnet_lite import EfficientNetLite0, NormAct, SameConv

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch is built without oneDNN")


def with_statistics(network):
    """The network in evaluation mode, with normalisations that have seen something."""
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 2)
    return network.eval()


def assert_same(found, expected, images):
    with torch.inference_mode():
        torch.testing.assert_close(found(images), expected(images), rtol=1e-3, atol=1e-4)


def count(network, kind):
    return sum(isinstance(part, kind) for part in network.modules())


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("side", [64, 75])  # with even and with odd maps
def test_nothing_but_the_number_of_parts_changes(side, packed):
    torch.manual_seed(0)
    network = with_statistics(EfficientNetLite0())
    merged = folded(network, side, packed=packed)
    assert (count(merged, nn.BatchNorm2d), count(network, nn.BatchNorm2d)) == (0, 49)
    assert count(merged, Packed) == 49 * packed
    for images in (torch.randn(1, 3, side, side), torch.randn(5, 3, side + 1, side + 1)):
        assert_same(merged, network, images.to(memory_format=torch.channels_last))


class Pair(nn.Sequential):
    """A convolution, its normalisation and an activation."""

    def __init__(self, convolution, activation):
        super().__init__(convolution, NormAct(convolution.out_channels))
        self[1].act = activation


@pytest.mark.parametrize("activation", [*(kind() for kind in ACTIVATIONS), nn.GELU()], ids=repr)
@pytest.mark.parametrize(
    "convolution",
    [
        nn.Conv2d(4, 6, 3, stride=2, padding=(1, 2), dilation=(1, 2)),
        nn.Conv2d(4, 8, (1, 5), groups=2),
        nn.Conv2d(4, 6, 3, padding="same", padding_mode="circular"),
        SameConv(4, 6, 5, stride=2),
    ],
    ids=str,
)
def test_convolutions_and_activations_of_all_kinds(convolution, activation):
    torch.manual_seed(0)
    network = with_statistics(nn.Sequential(nn.Conv2d(3, 4, 1), Pair(convolution, activation), nn.Flatten()))
    merged = folded(network, 16, packed=True)
    assert_same(merged, network, 10 * torch.randn(3, 3, 16, 16))
    assert (count(merged, Packed), count(merged, nn.BatchNorm2d)) == (convolution.padding != "same", 0)
    assert count(merged, nn.GELU) == isinstance(activation, nn.GELU)


def test_a_network_that_uses_its_parts_in_another_order_is_left_as_it_is():
    class Other(Pair):
        def forward(self, images):
            return self[1](torch.relu(self[0](images))).mean(dim=(2, 3))

    torch.manual_seed(0)
    network = with_statistics(Other(nn.Conv2d(3, 6, 3), nn.ReLU()))
    merged = folded(network, 32, packed=True)
    assert count(merged, nn.BatchNorm2d) == 1
    assert_same(merged, network, torch.randn(2, 3, 32, 32))


@pytest.mark.parametrize("error", [RuntimeError, AttributeError])
def test_where_onednn_cannot_convolutions_stay_as_they_are(monkeypatch, error):
    def refuse(*_):
        raise error("no such operation")

    monkeypatch.setattr(folding.Packed, "forward", refuse)
    network = with_statistics(Pair(nn.Conv2d(3, 6, 3), nn.ReLU()))
    merged = folded(network, 32, packed=True)
    assert (count(merged, Packed), count(merged, nn.BatchNorm2d)) == (0, 0)
    assert_same(merged, network, torch.randn(2, 3, 32, 32))
