"""batch-norm → relu (→ 2x2 maximum) as one differentiable function, with the kernels of `normalisation`."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hitnet.capsules import track_statistics
from hitnet.kernels import normalisation as kernels

SHARES = 256  # programs that sum up rows
ROWS = kernels.ROWS.value


def norm_relu(maps: Tensor, norm: nn.BatchNorm2d, *, pool: bool = False) -> Tensor:
    """relu(norm(maps)) in training, then with `pool` the 2x2 maximum; updates the running statistics of `norm`.

    The maps (B, C, H, W) have a multiple of 16 channels. Those that are returned are in channels-last memory order.
    """
    fused = pool and maps.shape[2] % 2 == 0 and maps.shape[3] % 2 == 0
    mean, variance = torch.empty(2, maps.shape[1], dtype=torch.float32, device=maps.device)
    out: Tensor = NormRelu.apply(maps, norm.weight, norm.bias, mean, variance, norm.eps, fused)
    track_statistics(norm, mean, variance)
    return F.max_pool2d(out, 2) if pool and not fused else out


def block_of(channels: int) -> int:
    """Number of channels per block: the largest power of 2, up to 64, that divides the channels."""
    return min(64, channels & -channels)


def with_pool(pool: bool) -> dict[str, int]:
    """Launch options. With the maximum, each result row needs four input rows and twice the threads to hold them."""
    return {"pool": pool, "num_warps": 8 if pool else 4}


def shares(rows: int) -> tuple[int, int]:
    """Number of programs that sum up the rows, and number of rows per program."""
    each = -(-rows // SHARES)
    each = -(-each // ROWS) * ROWS
    return -(-rows // each), each


class NormRelu(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        maps: Tensor,
        weight: Tensor,
        bias: Tensor,
        batch_mean: Tensor,
        batch_variance: Tensor,
        epsilon: float,
        pool: bool,
    ) -> Tensor:
        x = maps.contiguous(memory_format=torch.channels_last)
        images, channels, height, width = x.shape
        rows, block = images * height * width, block_of(channels)
        columns = channels // block
        programs, each = shares(rows)
        parts = torch.empty(3, programs, channels, dtype=torch.float32, device=x.device)
        coefficients = torch.empty(4, channels, dtype=torch.float32, device=x.device)
        kernels.statistics[(programs, columns)](x, parts, rows, each, channels=channels, block_c=block)
        sizes = {"channels": channels, "block_p": SHARES, "block_c": block, "num_warps": 8}
        given = parts, weight, bias, batch_mean, batch_variance, coefficients
        kernels.combine[(columns,)](*given, programs, rows, epsilon, **sizes)
        size = (height // 2, width // 2) if pool else (height, width)
        out = torch.empty(images, channels, *size, dtype=x.dtype, device=x.device, memory_format=torch.channels_last)
        results = images * size[0] * size[1]
        kernels.apply[(-(-results // ROWS), columns)](
            x, coefficients, out, results, width, channels=channels, block_c=block, **with_pool(pool)
        )
        ctx.save_for_backward(x, coefficients)
        ctx.pool = pool
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, coefficients = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        images, channels, height, width = x.shape
        rows = images * gradient.shape[2] * gradient.shape[3]
        block, (programs, each) = block_of(channels), shares(rows)
        columns = channels // block
        parts = torch.empty(programs, 2, channels, dtype=torch.float32, device=x.device)
        sizes = {"channels": channels, "block_c": block, **with_pool(ctx.pool)}
        kernels.gradient_sums[(programs, columns)](gradient, x, coefficients, parts, rows, each, width, **sizes)
        sums = parts.sum(dim=0)
        out = torch.empty_like(x)
        kernels.input_gradient[(-(-rows // ROWS), columns)](
            gradient, x, coefficients, sums, out, rows, images * height * width, width, **sizes
        )
        return out, sums[1], sums[0], None, None, None, None
