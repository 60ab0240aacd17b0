"""The kernels against plain PyTorch in float64: on a GPU as compiled, elsewhere by Triton's interpreter."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from hitnet import kernels

pytest.importorskip("triton", reason="Triton is missing: pip install triton (Linux only)")
from triton.language import constexpr

from hitnet.kernels.two_convolutions import two_convolutions

GPU = torch.cuda.is_available() and kernels.usable(torch.device("cuda"))
ROWS = 128 if GPU else 64  # images per block: fewer where kernels are interpreted, which takes long


def layers(in_channels, side, *, channels=64):
    torch.manual_seed(0)
    first, second = nn.Conv2d(in_channels, channels, side), nn.Conv2d(channels, channels, side, stride=2)
    device = torch.device("cuda" if GPU else "cpu")
    return first.to(device), second.to(device=device, memory_format=torch.channels_last)


def plain(images, first, second, *, relu):
    """What the kernels compute, in float64, and the parameters in the order of `parameters()`."""
    parameters = [p.detach().double().requires_grad_() for p in (*first.parameters(), *second.parameters())]
    maps = F.relu(F.conv2d(images.double(), *parameters[:2]))
    out = F.conv2d(maps, *parameters[2:], stride=second.stride)
    return (F.relu(out) if relu else out), parameters


@pytest.mark.slow
@pytest.mark.parametrize(
    ("images", "shape", "side", "relu"),
    [(3, (1, 7, 8), 3, True), (3, (3, 9, 6), 3, False), (ROWS + 2, (1, 5, 4), 2, True)],
)
def test_values_and_gradients_are_those_of_plain_convolutions(images, shape, side, relu, monkeypatch):
    # Small limits, so that the work is split up.
    monkeypatch.setattr("hitnet.kernels.two_convolutions.multiprocessors", lambda device: 12)
    monkeypatch.setattr("hitnet.kernels.two_convolutions.PLACES", 2)
    monkeypatch.setattr("hitnet.kernels.two_convolutions.ROWS", ROWS)
    monkeypatch.setattr("hitnet.kernels.convolutions.ROWS", constexpr(ROWS))
    first, second = layers(shape[0], side)
    batch = torch.rand(images, *shape, device=first.weight.device)
    out = two_convolutions(batch, first, second, relu=relu, dtype=torch.float32)
    expected, parameters = plain(batch, first, second, relu=relu)
    # Compiled kernels multiply float32 as TF32, so a relu near 0 may open on only one of the two sides.
    most = 5e-2 if GPU else 1e-5
    assert relative_difference(out, expected) < most
    pull = torch.randn_like(out)
    gradients = torch.autograd.grad(out, [*first.parameters(), *second.parameters()], pull)
    for gradient, expected_gradient in zip(
        gradients, torch.autograd.grad(expected, parameters, pull.double()), strict=True
    ):
        assert relative_difference(gradient, expected_gradient) < most


def relative_difference(actual, expected):
    assert actual.shape == expected.shape
    return float((actual.detach().double() - expected.detach()).norm() / expected.detach().norm())


def test_gradients_of_weights_come_in_their_own_memory_order():
    first, second = layers(1, 3)
    two_convolutions(
        torch.rand(2, 1, 6, 6, device=first.weight.device), first, second, relu=True, dtype=torch.float32
    ).sum().backward()
    assert second.weight.grad.stride() == second.weight.stride()


def test_kernels_are_left_alone_without_a_gpu_or_mixed_precision():
    images = torch.rand(1, 1, 28, 28)
    assert not kernels.wanted(images)
    with torch.autocast("cpu", torch.bfloat16):
        assert not kernels.wanted(images)
    assert not kernels.usable(torch.device("cpu"))
