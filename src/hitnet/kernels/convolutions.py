"""The paper's two convolutions on tensor cores, with one matrix product per image position.

Activations are stored position-major, (positions, images, channels): the values of all images at one position form a
matrix. All rows of a product belong to one position of the result and use the same taps of the kernel, so borders and
the stride of 2 cost nothing, neither forward nor backward. Sums are always in float32.

Images are padded to blocks of 128. The padding rows are zero in all gradients.
"""

import triton
import triton.language as tl
from triton.language import constexpr

ROWS = constexpr(128)  # images per block
ACROSS = constexpr(32)  # channels to gather or scatter at a time
FIRST, GRADIENT = constexpr(32), constexpr(128)  # values of a first-layer kernel at a time, forward and backward


@triton.jit
def tap_offset(k, taps, side: constexpr, height, width):
    """Offset in an image, from the kernel's corner, of value k of a first-layer kernel (channel, row, column)."""
    channel, tap = k // taps, k % taps
    return (channel * height + tap // side) * width + tap % side


@triton.jit
def first_forward(
    pixels, weight, bias, out, height, width, out_width, padded, inner, side: constexpr, channels: constexpr
):
    """relu(weight * pixels + bias) at one position: pixels (C·H·W, images) → out (positions, images, channels)."""
    position, block = tl.program_id(0), tl.program_id(1)
    corner = (position // out_width) * width + position % out_width
    b = block * ROWS + tl.arange(0, ROWS)
    n = tl.arange(0, channels)
    total = tl.zeros((ROWS, channels), dtype=tl.float32)
    for start in range(0, inner, FIRST):
        k = start + tl.arange(0, FIRST)
        place = corner + tap_offset(k, side * side, side, height, width)
        known = k < inner
        a = tl.load(pixels + place[:, None] * padded + b[None, :], mask=known[:, None], other=0.0)
        w = tl.load(weight + n[None, :] * inner + k[:, None], mask=known[:, None], other=0.0)
        total = tl.dot(tl.trans(a), w, total)
    total = tl.maximum(total + tl.load(bias + n).to(tl.float32)[None, :], 0.0)
    rowstart = (position * padded + b).to(tl.int64) * channels
    tl.store(out + rowstart[:, None] + n[None, :], total.to(out.dtype.element_ty))


@triton.jit
def first_weight_gradient(
    pixels,
    gradient,
    parts,
    positions,
    height,
    width,
    out_width,
    padded,
    inner,
    side: constexpr,
    depth: constexpr,
    channels: constexpr,
):
    """Σ pixelsᵀ gradient over the positions of this program: parts (programs, inner + 1 padded, channels).

    The row after the last belongs to the bias: its pixels are all 1.
    """
    program, programs, first = tl.program_id(0), tl.num_programs(0), tl.program_id(1) * GRADIENT
    k = first + tl.arange(0, GRADIENT)
    n = tl.arange(0, channels)
    offset = tap_offset(k, side * side, side, height, width)
    total = tl.zeros((GRADIENT, channels), dtype=tl.float32)
    blocks = padded // depth
    own_positions = (positions - program + programs - 1) // programs
    for i in range(own_positions * blocks):
        position = program + (i // blocks) * programs
        b = (i % blocks) * depth + tl.arange(0, depth)
        corner = (position // out_width) * width + position % out_width
        a = tl.load(pixels + (corner + offset)[:, None] * padded + b[None, :], mask=(k < inner)[:, None], other=0.0)
        a = tl.where((k == inner)[:, None], 1.0, a).to(pixels.dtype.element_ty)
        g = tl.load(gradient + (position * padded + b)[:, None].to(tl.int64) * channels + n[None, :])
        total = tl.dot(a, g, total)
    rowstart = (program * tl.num_programs(1) * GRADIENT + k) * channels
    tl.store(parts + rowstart[:, None] + n[None, :], total)


@triton.jit
def second_forward(
    maps,
    weight,
    parts,
    width,
    out_width,
    positions,
    padded,
    blocks,
    taps_each,
    side: constexpr,
    stride: constexpr,
    depth: constexpr,
    channels: constexpr,
):
    """Sums over a share of the taps: parts (shares, positions, images, channels) in float32."""
    tile, share = tl.program_id(0), tl.program_id(1)
    position, block = tile // blocks, tile % blocks
    corner = (position // out_width) * stride * width + (position % out_width) * stride
    steps: constexpr = channels // depth
    first = share * taps_each
    last = tl.minimum(first + taps_each, side * side)
    total = tl.zeros((ROWS, channels), dtype=tl.float32)
    for i in range(first * steps, last * steps):
        tap, c = i // steps, (i % steps) * depth
        place = corner + (tap // side) * width + tap % side
        a = maps.load([place * padded + block * ROWS, c])
        w = weight.load([0, tap * channels + c])
        total = tl.dot(a, w.T, total)
    row = (share * positions + position) * padded + block * ROWS + tl.arange(0, ROWS)
    tl.store(parts + row[:, None].to(tl.int64) * channels + tl.arange(0, channels)[None, :], total)


@triton.jit
def second_gather(
    parts, bias, out, shares, positions, padded, block_p: constexpr, channels: constexpr, relu: constexpr
):
    """Add up the shares and the bias for channels of one image: parts → out (images, channels, positions)."""
    b, n = tl.program_id(0), tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    p = tl.program_id(2) * block_p + tl.arange(0, block_p)
    inside = (p < positions)[:, None]
    total = tl.zeros((block_p, ACROSS), dtype=tl.float32) + tl.load(bias + n).to(tl.float32)[None, :]
    for share in range(shares):
        rowstart = ((share * positions + p) * padded + b).to(tl.int64) * channels
        total += tl.load(parts + rowstart[:, None] + n[None, :], mask=inside, other=0.0)
    if relu:
        total = tl.maximum(total, 0.0)
    place = (b * channels + n)[None, :].to(tl.int64) * positions + p[:, None]
    tl.store(out + place, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def second_scatter(
    gradient, out, scattered, images, positions, padded, block_p: constexpr, channels: constexpr, relu: constexpr
):
    """Backward through the relu: gradient (images, channels, positions) → scattered (positions, images, channels)."""
    b, n = tl.program_id(0), tl.program_id(1) * ACROSS + tl.arange(0, ACROSS)
    p = tl.program_id(2) * block_p + tl.arange(0, block_p)
    inside = (p < positions)[:, None]
    place = (b * channels + n)[None, :].to(tl.int64) * positions + p[:, None]
    real = inside & (tl.full((block_p, 1), b, tl.int32) < images)
    g = tl.load(gradient + place, mask=real, other=0.0)
    if relu:
        g = tl.where(tl.load(out + place, mask=real, other=0.0) > 0, g, 0.0)
    rowstart = (p * padded + b).to(tl.int64) * channels
    tl.store(scattered + rowstart[:, None] + n[None, :], g.to(scattered.dtype.element_ty), mask=inside)


@triton.jit
def second_data_gradient(
    gradient,
    weight,
    maps,
    out,
    width,
    out_height,
    out_width,
    padded,
    blocks,
    side: constexpr,
    stride: constexpr,
    depth: constexpr,
    channels: constexpr,
):
    """The gradient of `maps` (before their relu) at one position, from all outputs that depend on it."""
    tile = tl.program_id(0)
    position, block = tile // blocks, tile % blocks
    y, x = position // width, position % width
    top, bottom = tl.maximum((y - side + stride) // stride, 0), tl.minimum(y // stride, out_height - 1)
    left, right = tl.maximum((x - side + stride) // stride, 0), tl.minimum(x // stride, out_width - 1)
    across = right - left + 1
    steps: constexpr = channels // depth
    total = tl.zeros((ROWS, channels), dtype=tl.float32)
    for i in range((bottom - top + 1) * across * steps):
        j, c = i // steps, (i % steps) * depth
        out_y, out_x = top + j // across, left + j % across
        tap = (y - stride * out_y) * side + x - stride * out_x
        g = gradient.load([(out_y * out_width + out_x) * padded + block * ROWS, c])
        w = weight.load([c, tap * channels])
        total = tl.dot(g, w, total)
    row = position * padded + block * ROWS
    alive = maps.load([row, 0]) > 0
    out.store([row, 0], tl.where(alive, total, 0.0).to(out.dtype))


@triton.jit
def second_weight_gradient(
    gradient,
    maps,
    out,
    width,
    out_width,
    positions,
    padded,
    side: constexpr,
    stride: constexpr,
    rows: constexpr,
    depth: constexpr,
    channels: constexpr,
):
    """Σ gradientᵀ maps over positions and images for one tap and `rows` of the output channels, in float32."""
    tap, first = tl.program_id(0), tl.program_id(1) * rows
    offset = (tap // side) * width + tap % side
    blocks = padded // depth
    total = tl.zeros((rows, channels), dtype=tl.float32)
    for i in range(positions * blocks):
        position, b = i // blocks, (i % blocks) * depth
        place = ((position // out_width) * width + position % out_width) * stride + offset
        g = gradient.load([position * padded + b, first])
        z = maps.load([place * padded + b, 0])
        total = tl.dot(g.T, z, total)
    row = (first + tl.arange(0, rows)) * (side * side * channels)
    tl.store(out + row[:, None] + tap * channels + tl.arange(0, channels)[None, :], total)
