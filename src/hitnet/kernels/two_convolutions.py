"""conv → relu → strided conv (→ relu) as one differentiable function, with the kernels of `convolutions`."""

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from triton.tools.tensor_descriptor import TensorDescriptor

from hitnet.kernels import beside
from hitnet.kernels import convolutions as kernels

ROWS, ACROSS = kernels.ROWS.value, kernels.ACROSS.value
DEPTH = 64  # length of the inner dimension per multiplication
PLACES = 64  # positions of one image to gather or scatter at a time


@dataclass(frozen=True)
class Geometry:
    """Sizes of one call. Only the part of the first maps that the second convolution reads is computed."""

    images: int
    in_channels: int
    height: int
    width: int
    channels: int
    side: int
    stride: int

    @property
    def out_size(self) -> tuple[int, int]:
        height, width = ((size - 2 * self.side + 1) // self.stride + 1 for size in (self.height, self.width))
        return height, width

    @property
    def map_size(self) -> tuple[int, int]:
        height, width = ((size - 1) * self.stride + self.side for size in self.out_size)
        return height, width

    @property
    def padded(self) -> int:
        return -(-self.images // ROWS) * ROWS

    @property
    def inner(self) -> int:
        return self.in_channels * self.side * self.side

    @property
    def first(self) -> dict[str, int]:
        """The sizes that the kernels of the first convolution take, and how they are launched."""
        sizes = {"height": self.height, "width": self.width, "out_width": self.map_size[1], "inner": self.inner}
        sizes |= {"padded": self.padded, "side": self.side, "channels": self.channels}
        return {**sizes, "num_warps": 8, "num_stages": 3}

    @property
    def second(self) -> dict[str, int]:
        """The same for the second convolution."""
        sizes = {"width": self.map_size[1], "out_width": self.out_size[1], "padded": self.padded}
        sizes |= {"side": self.side, "stride": self.stride, "channels": self.channels}
        return {**sizes, "depth": DEPTH, "num_warps": 8, "num_stages": 4}

    @property
    def places(self) -> dict[str, int]:
        """The same for what gathers or scatters the results of the second convolution."""
        positions = self.out_size[0] * self.out_size[1]
        sizes = {"positions": positions, "padded": self.padded, "channels": self.channels}
        return {**sizes, "block_p": PLACES}


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """Number of programs to start when there are too few tiles to keep the device busy."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def rows_of(matrix: Tensor, block: tuple[int, int]) -> TensorDescriptor:
    """Describe a matrix for the copy engine, which reads it block by block."""
    return TensorDescriptor.from_tensor(matrix, list(block))


def first_forward(g: Geometry, pixels: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    positions = g.map_size[0] * g.map_size[1]
    maps = pixels.new_empty(positions * g.padded, g.channels)
    grid = positions, g.padded // ROWS
    kernels.first_forward[grid](pixels, weight, bias, maps, **g.first)
    return maps


def second_forward(g: Geometry, maps: Tensor, weight: Tensor, bias: Tensor, *, relu: bool) -> Tensor:
    positions, blocks = g.out_size[0] * g.out_size[1], g.padded // ROWS
    shares = max(1, min(g.side, multiprocessors(maps.device) // (positions * blocks)))
    each = -(-(g.side * g.side) // shares)
    shares = -(-(g.side * g.side) // each)
    parts = torch.empty(shares * positions * g.padded, g.channels, dtype=torch.float32, device=maps.device)
    read = rows_of(maps, (ROWS, DEPTH)), rows_of(weight, (g.channels, DEPTH))
    sizes = {"positions": positions, "blocks": blocks, "taps_each": each, **g.second}
    kernels.second_forward[(positions * blocks, shares)](*read, parts, **sizes)
    out = maps.new_empty(g.images, g.channels, *g.out_size)
    grid = g.images, g.channels // ACROSS, -(-positions // PLACES)
    kernels.second_gather[grid](parts, bias, out, shares, relu=relu, **g.places)
    return out


def position_major(g: Geometry, gradient: Tensor, out: Tensor, *, relu: bool) -> Tensor:
    """Gradient of the output (images, channels, height, width), behind its relu, as (positions·images, channels)."""
    positions = g.out_size[0] * g.out_size[1]
    scattered = out.new_empty(positions * g.padded, g.channels)
    grid = g.padded, g.channels // ACROSS, -(-positions // PLACES)
    kernels.second_scatter[grid](gradient, out, scattered, g.images, relu=relu, **g.places)
    return scattered


def second_data_gradient(g: Geometry, gradient: Tensor, weight: Tensor, maps: Tensor) -> Tensor:
    out, blocks = torch.empty_like(maps), g.padded // ROWS
    read = rows_of(gradient, (ROWS, DEPTH)), rows_of(weight, (DEPTH, g.channels)), rows_of(maps, (ROWS, g.channels))
    sizes = {"out_height": g.out_size[0], "blocks": blocks, **g.second}
    grid = (g.map_size[0] * g.map_size[1] * blocks,)
    kernels.second_data_gradient[grid](*read, rows_of(out, (ROWS, g.channels)), **sizes)
    return out


def second_weight_gradient(g: Geometry, gradient: Tensor, maps: Tensor) -> Tensor:
    """(channels out, side, side, channels in) in float32."""
    rows = min(ROWS, g.channels)
    out = torch.empty(g.channels, g.side * g.side * g.channels, dtype=torch.float32, device=maps.device)
    read = rows_of(gradient, (DEPTH, rows)), rows_of(maps, (DEPTH, g.channels))
    sizes = {**g.second, "positions": g.out_size[0] * g.out_size[1], "rows": rows}
    kernels.second_weight_gradient[(g.side * g.side, g.channels // rows)](*read, out, **sizes)
    return out.view(g.channels, g.side, g.side, g.channels)


def first_weight_gradient(g: Geometry, pixels: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """(channels, inner) and (channels,) in float32."""
    positions, values = g.map_size[0] * g.map_size[1], kernels.GRADIENT.value
    programs, blocks = min(positions, multiprocessors(pixels.device)), -(-(g.inner + 1) // values)
    parts = torch.empty(programs, blocks * values, g.channels, dtype=torch.float32, device=pixels.device)
    sizes = {"positions": positions, "depth": DEPTH, **g.first}
    kernels.first_weight_gradient[(programs, blocks)](pixels, gradient, parts, **sizes)
    total = parts.sum(dim=0)
    return total[: g.inner].t(), total[g.inner]


class TwoConvolutions(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        images: Tensor,
        weight1: Tensor,
        bias1: Tensor,
        weight2: Tensor,
        bias2: Tensor,
        stride: int,
        relu: bool,
        dtype: torch.dtype,
    ) -> Tensor:
        count, in_channels, height, width = images.shape
        g = Geometry(count, in_channels, height, width, weight1.shape[0], weight1.shape[-1], stride)
        pixels = images.new_zeros(g.in_channels * g.height * g.width, g.padded, dtype=dtype)
        pixels[:, : g.images] = images.flatten(1).t()
        first = weight1.to(dtype).reshape(g.channels, g.inner)
        second = weight2.permute(0, 2, 3, 1).to(dtype).reshape(g.channels, -1)
        maps = first_forward(g, pixels, first, bias1)
        out = second_forward(g, maps, second, bias2, relu=relu)
        ctx.save_for_backward(pixels, maps, second, out)
        ctx.geometry, ctx.relu = g, relu
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        pixels, maps, second, out = ctx.saved_tensors
        g = ctx.geometry
        scattered = position_major(g, gradient.contiguous(), out, relu=ctx.relu)
        with beside(scattered.device) as join:  # neither branch alone fills the GPU in its last wave of tiles
            weight2 = second_weight_gradient(g, scattered, maps).permute(0, 3, 1, 2)
            bias2 = scattered.sum(dim=0, dtype=torch.float32)
        maps_gradient = second_data_gradient(g, scattered, second, maps)
        weight1, bias1 = first_weight_gradient(g, pixels, maps_gradient)
        join()
        return None, weight1.reshape(g.channels, g.in_channels, g.side, g.side), bias1, weight2, bias2, None, None, None


def two_convolutions(
    images: Tensor, first: nn.Conv2d, second: nn.Conv2d, *, relu: bool, dtype: torch.dtype = torch.bfloat16
) -> Tensor:
    """second(relu(first(images))), then optionally relu, in `dtype`. Only weights and biases get gradients.

    Both convolutions must have the same number of channels, a multiple of 64, square kernels of the same size and no
    padding; the first must have stride 1.
    """
    weights = first.weight, first.bias, second.weight, second.bias
    return TwoConvolutions.apply(images, *weights, second.stride[0], relu, dtype)
