"""Batch-norm, ReLU and optionally a 2x2 maximum over matrices (rows, channels).

Forward and backward each read the input twice: once for sums, once for the result. Only the input is saved for the
backward pass. Sums are in float32.

With the maximum, a result row has four input rows, a square of one image. The backward pass computes again which one
is largest; the first of equal ones takes the gradient.
"""

import triton
import triton.language as tl
from triton.language import constexpr

ROWS = constexpr(64)  # per block


@triton.jit
def statistics(x, parts, rows, each, channels: constexpr, block_c: constexpr):
    """Number, mean and sum of squared deviations of a share of the rows: parts (3, programs, channels)."""
    program, programs = tl.program_id(0), tl.num_programs(0)
    c = tl.program_id(1) * block_c + tl.arange(0, block_c)
    count = tl.zeros((block_c,), dtype=tl.float32)
    mean = tl.zeros((block_c,), dtype=tl.float32)
    squares = tl.zeros((block_c,), dtype=tl.float32)
    end = tl.minimum((program + 1) * each, rows)
    for start in range(program * each, end, ROWS):
        r = start + tl.arange(0, ROWS)
        inside = (r < end)[:, None]
        values = tl.load(x + r[:, None].to(tl.int64) * channels + c[None, :], mask=inside, other=0.0).to(tl.float32)
        new = tl.minimum(end - start, ROWS).to(tl.float32)
        new_mean = tl.sum(values, axis=0) / new
        deviation = tl.where(inside, values - new_mean[None, :], 0.0)
        away = new_mean - mean
        squares += tl.sum(deviation * deviation, axis=0) + away * away * count * new / (count + new)
        count += new
        mean += away * new / count
    place = parts + program * channels + c
    tl.store(place, count)
    tl.store(place + programs * channels, mean)
    tl.store(place + 2 * programs * channels, squares)


@triton.jit
def combine(
    parts,
    weight,
    bias,
    batch_mean,
    batch_variance,
    coefficients,
    programs,
    rows,
    epsilon,
    channels: constexpr,
    block_p: constexpr,
    block_c: constexpr,
):
    """Combine all shares: coefficients (4, channels) are mean, 1/deviation, and scale and shift of the result.

    The mean and the unbiased variance of the batch (channels,) are for running statistics.
    """
    c = tl.program_id(0) * block_c + tl.arange(0, block_c)
    p = tl.arange(0, block_p)
    inside = (p < programs)[:, None]
    place = parts + p[:, None] * channels + c[None, :]
    count = tl.load(place, mask=inside, other=0.0)
    means = tl.load(place + programs * channels, mask=inside, other=0.0)
    squares = tl.load(place + 2 * programs * channels, mask=inside, other=0.0)
    mean = tl.sum(count * means, axis=0) / rows
    away = means - mean[None, :]
    variance = tl.sum(squares + count * away * away, axis=0) / rows
    inverse = 1.0 / tl.sqrt(variance + epsilon)
    scale = tl.load(weight + c) * inverse
    tl.store(coefficients + c, mean)
    tl.store(coefficients + channels + c, inverse)
    tl.store(coefficients + 2 * channels + c, scale)
    tl.store(coefficients + 3 * channels + c, tl.load(bias + c) - mean * scale)
    tl.store(batch_mean + c, mean)
    tl.store(batch_variance + c, variance * (rows / (rows - 1.0)))


@triton.jit
def input_rows(r, width, pool: constexpr):
    """The first input row of a result row; with the maximum, the upper left of its square."""
    if pool:
        half = width // 2
        i, j = r // half, r % half  # i counts rows of squares through all images
        return i * 2 * width + 2 * j
    return r


@triton.jit
def apply(x, coefficients, out, rows, width, channels: constexpr, block_c: constexpr, pool: constexpr):
    """relu(scale x + shift), then the maximum of each square: out (rows, channels)."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * block_c + tl.arange(0, block_c)
    scale, shift = tl.load(coefficients + 2 * channels + c)[None, :], tl.load(coefficients + 3 * channels + c)[None, :]
    inside = (r < rows)[:, None]
    place = x + input_rows(r, width, pool)[:, None].to(tl.int64) * channels + c[None, :]
    y = tl.load(place, mask=inside, other=0.0).to(tl.float32) * scale + shift
    if pool:
        for k in tl.static_range(1, 4):
            step = ((k // 2) * width + k % 2) * channels
            y = tl.maximum(y, tl.load(place + step, mask=inside, other=0.0).to(tl.float32) * scale + shift)
    y = tl.maximum(y, 0.0)
    tl.store(out + r[:, None].to(tl.int64) * channels + c[None, :], y.to(out.dtype.element_ty), mask=inside)


@triton.jit
def gradient_sums(
    gradient, x, coefficients, parts, rows, each, width, channels: constexpr, block_c: constexpr, pool: constexpr
):
    """Σ g and Σ g·x̂ over a share of the result rows, g behind the relu: parts (programs, 2, channels)."""
    program = tl.program_id(0)
    c = tl.program_id(1) * block_c + tl.arange(0, block_c)
    mean, inverse = tl.load(coefficients + c)[None, :], tl.load(coefficients + channels + c)[None, :]
    scale, shift = tl.load(coefficients + 2 * channels + c)[None, :], tl.load(coefficients + 3 * channels + c)[None, :]
    plain = tl.zeros((block_c,), dtype=tl.float32)
    weighted = tl.zeros((block_c,), dtype=tl.float32)
    end = tl.minimum((program + 1) * each, rows)
    for start in range(program * each, end, ROWS):
        r = start + tl.arange(0, ROWS)
        inside = (r < end)[:, None]
        g = tl.load(gradient + r[:, None].to(tl.int64) * channels + c[None, :], mask=inside, other=0.0).to(tl.float32)
        place = x + input_rows(r, width, pool)[:, None].to(tl.int64) * channels + c[None, :]
        best = tl.load(place, mask=inside, other=0.0).to(tl.float32)
        top = best * scale + shift
        if pool:
            for k in tl.static_range(1, 4):
                step = ((k // 2) * width + k % 2) * channels
                other = tl.load(place + step, mask=inside, other=0.0).to(tl.float32)
                y = other * scale + shift
                best = tl.where(y > top, other, best)
                top = tl.maximum(y, top)
        g = tl.where(top > 0, g, 0.0)
        plain += tl.sum(g, axis=0)
        weighted += tl.sum(g * (best - mean) * inverse, axis=0)
    tl.store(parts + program * 2 * channels + c, plain)
    tl.store(parts + (program * 2 + 1) * channels + c, weighted)


@triton.jit
def input_gradient(
    gradient, x, coefficients, sums, out, rows, total, width, channels: constexpr, block_c: constexpr, pool: constexpr
):
    """scale · (g − mean g − x̂ · mean g·x̂), where only one row of each square receives g: out as x."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.program_id(1) * block_c + tl.arange(0, block_c)
    mean, inverse = tl.load(coefficients + c)[None, :], tl.load(coefficients + channels + c)[None, :]
    scale, shift = tl.load(coefficients + 2 * channels + c)[None, :], tl.load(coefficients + 3 * channels + c)[None, :]
    plain, weighted = tl.load(sums + c)[None, :] / total, tl.load(sums + channels + c)[None, :] / total
    inside = (r < rows)[:, None]
    g = tl.load(gradient + r[:, None].to(tl.int64) * channels + c[None, :], mask=inside, other=0.0).to(tl.float32)
    first = input_rows(r, width, pool)[:, None].to(tl.int64) * channels + c[None, :]
    x0 = tl.load(x + first, mask=inside, other=0.0).to(tl.float32)
    top = x0 * scale + shift
    winner = tl.zeros_like(top)
    if pool:
        for k in tl.static_range(1, 4):
            step = ((k // 2) * width + k % 2) * channels
            y = tl.load(x + first + step, mask=inside, other=0.0).to(tl.float32) * scale + shift
            winner = tl.where(y > top, k * 1.0, winner)
            top = tl.maximum(y, top)
    g = tl.where(top > 0, g, 0.0)
    own = tl.where(winner == 0.0, g, 0.0)
    d = scale * (own - plain - (x0 - mean) * inverse * weighted)
    tl.store(out + first, d.to(out.dtype.element_ty), mask=inside)
    if pool:
        for k in tl.static_range(1, 4):
            step = ((k // 2) * width + k % 2) * channels
            xk = tl.load(x + first + step, mask=inside, other=0.0).to(tl.float32)
            own = tl.where(winner == k * 1.0, g, 0.0)
            d = scale * (own - plain - (xk - mean) * inverse * weighted)
            tl.store(out + first + step, d.to(out.dtype.element_ty), mask=inside)
