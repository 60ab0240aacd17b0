"""Batch-norm, relu and maximum in one, against plain PyTorch in float64; without a GPU in Triton's interpreter."""

import copy
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

pytest.importorskip("triton", reason="Triton is missing: pip install triton (Linux only)")
from hitnet import kernels
from hitnet.capsules import MapNorm
from hitnet.kernels import norm_relu as fused
from hitnet.models import features

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def norm(channels=64):
    torch.manual_seed(0)
    layer = nn.BatchNorm2d(channels, momentum=0.3).to(DEVICE)
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    return layer


def plain(maps, layer, *, pool):
    maps = F.relu(layer(maps))
    return F.max_pool2d(maps, 2) if pool else maps


@pytest.mark.parametrize(
    ("shape", "pool"),
    [
        ((3, 64, 4, 6), False),
        ((3, 64, 4, 6), True),
        ((2, 96, 3, 3), True),
        ((5, 64, 8, 8), True),
        ((7, 48, 1, 3), False),
    ],
)
def test_values_gradients_and_running_statistics(shape, pool, monkeypatch):
    monkeypatch.setattr(fused, "SHARES", 4)  # so that several programs share the rows
    layer = norm(shape[1])
    exact = copy.deepcopy(layer).double()
    maps = (3 * torch.randn(shape, device=DEVICE) + 5).contiguous(memory_format=torch.channels_last).requires_grad_()
    precise = maps.detach().double().requires_grad_()
    out, expected = fused.norm_relu(maps, layer, pool=pool), plain(precise, exact, pool=pool)
    torch.testing.assert_close(out.double(), expected, rtol=1e-4, atol=1e-4)
    pull = torch.randn_like(out)
    gradients = torch.autograd.grad(out, [maps, layer.weight, layer.bias], pull)
    expected_gradients = torch.autograd.grad(expected, [precise, exact.weight, exact.bias], pull.double())
    for gradient, expected_gradient in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(gradient.double(), expected_gradient, rtol=1e-4, atol=1e-4)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(getattr(layer, name).double(), getattr(exact, name).double(), rtol=1e-5, atol=1e-5)


def test_statistics_are_right_from_the_first_batch_on():
    layer = MapNorm(64).to(DEVICE)
    exact = copy.deepcopy(layer)
    for _ in range(2):
        maps = 3 * torch.randn(2, 64, 2, 2, device=DEVICE) + 5
        fused.norm_relu(maps, layer)
        exact(maps)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(getattr(layer, name), getattr(exact, name), rtol=1e-5, atol=1e-5)


def test_a_large_mean_does_not_spoil_the_variance():
    maps = (torch.randn(8, 64, 8, 8, device=DEVICE) * 0.01 + 100).contiguous(memory_format=torch.channels_last)
    layer = norm()
    fused.norm_relu(maps, layer)
    true = maps.double().var(dim=(0, 2, 3))
    torch.testing.assert_close(layer.running_var.double(), 0.7 + 0.3 * true, rtol=1e-6, atol=0)
    statistics = torch.empty_like(layer.running_mean), torch.empty_like(layer.running_var)
    out = fused.NormRelu.apply(maps, layer.weight, layer.bias, *statistics, layer.eps, False)
    expected = F.relu(
        F.batch_norm(maps.double(), None, None, layer.weight.double(), layer.bias.double(), training=True)
    )
    torch.testing.assert_close(out.double(), expected, rtol=1e-2, atol=2e-2)


def test_kernels_that_cannot_be_built_are_done_without(monkeypatch, caplog):
    assert kernels.built(torch.device(DEVICE))
    monkeypatch.setattr(
        fused, "norm_relu", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("no C compiler\nat all"))
    )
    with caplog.at_level("WARNING", logger="hitnet"):
        assert not kernels.built(torch.device(DEVICE))
    (message,) = caplog.messages
    assert "cannot be built (no C compiler). PyTorch's slower kernels are used" in message


def test_an_older_triton_is_done_without(monkeypatch, caplog):
    monkeypatch.delitem(sys.modules, "hitnet.kernels.two_convolutions", raising=False)
    monkeypatch.setitem(sys.modules, "triton.tools.tensor_descriptor", None)
    with caplog.at_level("WARNING", logger="hitnet"):
        assert not kernels.built(torch.device(DEVICE))
    assert "triton.tools.tensor_descriptor" in caplog.text


def test_a_single_value_a_channel_is_left_to_the_running_statistics(monkeypatch):
    monkeypatch.setattr(kernels, "wanted", lambda tensor: True)
    network = features.ConvNorm(16, 32).to(DEVICE)
    nn.init.normal_(network[1].running_mean)
    before = copy.deepcopy(network)
    maps = torch.randn(1, 16, 1, 1, device=DEVICE)
    torch.testing.assert_close(network(maps), before.eval()(maps))
    for name, value in network.state_dict().items():
        assert torch.equal(value, before.state_dict()[name]), name


def test_a_norm_that_several_processes_share_keeps_its_own_forward(monkeypatch):
    monkeypatch.setattr(kernels, "wanted", lambda tensor: True)
    maps, layer = torch.randn(2, 64, 2, 2, device=DEVICE), norm()
    by_kernel = features.norm_relu(maps, layer)
    torch.testing.assert_close(by_kernel, plain(maps, norm(), pool=False), rtol=1e-4, atol=1e-4)
    layer.forward = lambda values: values + 1
    assert torch.equal(features.norm_relu(maps, layer), F.relu(maps + 1))
