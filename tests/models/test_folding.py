"""Networks whose normalisations and activations are folded into convolutions give what they gave before."""

import numpy as np
import pytest
import torch
from torch import nn

from hitnet.inference import pictures
from hitnet.models import Network, choose_model, folding
from hitnet.models import network as network_module
from hitnet.models.efficientnet_lite import EfficientNetLite0, NormAct, SameConv
from hitnet.models.folding import ACTIVATIONS, Packed, folded
from hitnet.models.network import FEW, class_distances
from hitnet.training import Recipe, Run, RunConfig, runs

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
    merged = folded(network, (side, side), packed=packed)
    assert (count(merged, nn.BatchNorm2d), count(network, nn.BatchNorm2d)) == (0, 49)
    assert count(merged, Packed) == 49 * packed
    for images in (torch.randn(1, 3, side, side), torch.randn(5, 3, side + 1, side)):
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
    merged = folded(network, (16, 16), packed=True)
    assert_same(merged, network, 10 * torch.randn(3, 3, 16, 16))
    assert (count(merged, Packed), count(merged, nn.BatchNorm2d)) == (convolution.padding != "same", 0)
    assert count(merged, nn.GELU) == isinstance(activation, nn.GELU)


def test_a_network_that_uses_its_parts_in_another_order_is_left_as_it_is():
    class Other(Pair):
        def forward(self, images):
            return self[1](torch.relu(self[0](images))).mean(dim=(2, 3))

    torch.manual_seed(0)
    network = with_statistics(Other(nn.Conv2d(3, 6, 3), nn.ReLU()))
    merged = folded(network, (32, 32), packed=True)
    assert count(merged, nn.BatchNorm2d) == 1
    assert_same(merged, network, torch.randn(2, 3, 32, 32))


@pytest.mark.parametrize("error", [RuntimeError, AttributeError])
def test_where_onednn_cannot_convolutions_stay_as_they_are(monkeypatch, error):
    def refuse(*_):
        raise error("no such operation")

    monkeypatch.setattr(folding.Packed, "forward", refuse)
    network = with_statistics(Pair(nn.Conv2d(3, 6, 3), nn.ReLU()))
    merged = folded(network, (32, 32), packed=True)
    assert (count(merged, Packed), count(merged, nn.BatchNorm2d)) == (0, 0)
    assert_same(merged, network, torch.randn(2, 3, 32, 32))


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Network(choose_model("hitnet-pretrained").config((3, 40, 30), 3)).eval()


def test_many_images_are_judged_by_a_folded_copy(network, monkeypatch):
    pixels = torch.randint(0, 256, (FEW, 3, 40, 30), dtype=torch.uint8)
    with torch.inference_mode():
        expected = network(pixels / 255).distances
    copies = []
    usual = network_module.for_inference
    monkeypatch.setattr(network_module, "for_inference", lambda each: copies.append(usual(each)) or copies[-1])
    for images in (pixels[:-1], pixels):
        torch.testing.assert_close(class_distances(network, images), expected[: len(images)], rtol=1e-3, atol=1e-4)
    assert [count(each, nn.BatchNorm2d) for each in copies] == [0]
    assert count(network, nn.BatchNorm2d) == 49


def test_a_prediction_folds_from_the_second_batch_on(network, monkeypatch):
    data = {"source": "x", "images": 0, "class_names": ["a", "b", "c"]}
    run = Run(network, RunConfig("hitnet-pretrained", network.config, Recipe(), 0, data), [])
    copies = []
    monkeypatch.setattr(runs, "for_inference", lambda each: copies.append(each) or each)
    monkeypatch.setattr(pictures, "evaluation_batch", lambda shape: 2)
    images = np.random.default_rng(0).integers(0, 256, (5, 40, 30, 3), np.uint8)
    for given, folds in ((images[:2], 0), (images, 1)):
        copies.clear()
        assert len(run.predict(given, device="cpu")) == len(given)
        assert len(copies) == folds
