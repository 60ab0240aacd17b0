"""Shifts, mirroring, cutout, warping and inversion against plain loops."""

import math

import pytest
import torch

from hitnet import HitNetError, Recipe
from hitnet.training.augmentation import augment, cutout, draw, invert, shift, turned, warp


def naive_shift(image, dy, dx):
    out = torch.zeros_like(image)
    _, height, width = image.shape
    for y in range(height):
        for x in range(width):
            if 0 <= y - dy < height and 0 <= x - dx < width:
                out[:, y, x] = image[:, y - dy, x - dx]
    return out


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 5, 8)])
def test_shift_moves_and_pads_with_zeros(shape):
    moves = [(dy, dx) for dy in range(-2, 3) for dx in range(-2, 3)]
    pixels = torch.randint(1, 256, (len(moves), *shape), dtype=torch.uint8)
    dy, dx = torch.tensor(moves).T
    shifted = shift(pixels, dy, dx, most=2)
    assert shifted.dtype == torch.uint8
    for image, moved, (a, b) in zip(pixels, shifted, moves, strict=True):
        assert torch.equal(moved, naive_shift(image, a, b))


def naive_nearest_shift(image, dy, dx):
    out = torch.zeros_like(image)
    _, height, width = image.shape
    for y in range(height):
        for x in range(width):
            out[:, y, x] = image[:, min(max(y - dy, 0), height - 1), min(max(x - dx, 0), width - 1)]
    return out


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 5, 8), (1, 2, 3)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_shift_fills_with_the_nearest_pixel(shape, dtype):
    moves = [(dy, dx) for dy in range(-3, 4) for dx in range(-3, 4)]
    pixels = torch.randint(1, 256, (len(moves), *shape)).to(dtype)
    shifted = shift(pixels, *torch.tensor(moves).T, most=3, fill="nearest")
    assert shifted.dtype == dtype
    expected = [naive_nearest_shift(image, *move) for image, move in zip(pixels, moves, strict=True)]
    assert torch.equal(shifted, torch.stack(expected))


def test_the_fill_changes_neither_draws_nor_what_stays_in_the_frame():
    zeros, nearest = Recipe(shift=3), Recipe(shift=3, shift_fill="nearest")
    draws, same = (draw(each, 40, (8, 7), torch.Generator().manual_seed(5)) for each in (zeros, nearest))
    assert torch.equal(draws, same)
    pixels = torch.randint(1, 256, (40, 1, 8, 7), dtype=torch.uint8)
    by_zeros, by_nearest = augment(zeros, pixels, draws), augment(nearest, pixels, draws)
    inside = by_zeros > 0
    assert not inside.all()
    assert torch.equal(by_zeros[inside], by_nearest[inside])
    assert (by_nearest > 0).all()
    with pytest.raises(HitNetError, match="shift_fill must be one of"):
        Recipe(shift_fill="mirror")


def test_draws_cover_all_shifts_evenly_and_each_image_has_its_own():
    draws = draw(Recipe(shift=2), 50_000, (28, 28), torch.Generator().manual_seed(0))
    counts = torch.bincount((draws[:, 0] + 2) * 5 + draws[:, 1] + 2, minlength=25)
    assert len(counts) == 25
    assert counts.min() > 1800
    assert counts.max() < 2200


def test_every_epoch_draws_anew_and_the_same_seed_the_same():
    def drawn(seed):
        return draw(Recipe(shift=2), 100, (9, 9), torch.Generator().manual_seed(seed))

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_flip_mirrors_the_drawn_images_alone():
    pixels = torch.randint(0, 256, (4, 3, 5, 6), dtype=torch.uint8)
    draws = torch.zeros(4, 5, dtype=torch.long)
    draws[1, 2] = draws[3, 2] = 1
    flipped = augment(Recipe(shift=0, flip=True), pixels, draws)
    for i in range(4):
        assert torch.equal(flipped[i], pixels[i].flip(-1) if i in (1, 3) else pixels[i])


def test_cutout_zeroes_a_square_cut_off_at_the_border():
    pixels = torch.ones(3, 1, 8, 8)
    cut = cutout(pixels, torch.tensor([4, 0, 7]), torch.tensor([4, 0, 7]), side=4)
    expected = torch.ones(3, 1, 8, 8)
    expected[0, :, 2:6, 2:6] = 0
    expected[1, :, 0:2, 0:2] = 0
    expected[2, :, 5:8, 5:8] = 0
    assert torch.equal(cut, expected)


def test_nothing_asked_nothing_done():
    pixels = torch.randint(0, 256, (2, 1, 4, 4), dtype=torch.uint8)
    none = Recipe(shift=0)
    assert torch.equal(augment(none, pixels, draw(none, 2, (4, 4), torch.Generator())), pixels)
    for option in ("shift", "cutout", "warp", "rotate", "scale"):
        with pytest.raises(HitNetError, match=f"{option} must be"):
            Recipe(**{option: -1})


def naive_warp(image, xx, xy, yx, yy):
    """Bilinear interpolation between the four pixels around the place that each pixel comes from."""
    channels, height, width = image.shape
    padded = torch.zeros(channels, height + 2, width + 2)
    padded[:, 1:-1, 1:-1] = image
    out = torch.zeros(channels, height, width)
    for row in range(height):
        for column in range(width):
            y, x = row - (height - 1) / 2, column - (width - 1) / 2
            from_y = y + yx * x + yy * y + (height - 1) / 2
            from_x = x + xx * x + xy * y + (width - 1) / 2
            top, left = math.floor(from_y), math.floor(from_x)
            for b, q in ((top, 1 - (from_y - top)), (top + 1, from_y - top)):
                for a, p in ((left, 1 - (from_x - left)), (left + 1, from_x - left)):
                    if -1 <= b <= height and -1 <= a <= width:
                        out[:, row, column] += q * p * padded[:, b + 1, a + 1]
    return out


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 5, 8)])
def test_warp_against_interpolation_by_hand(shape):
    maps = torch.tensor([[0, 0, 0, 0], [0.2, 0, 0, 0.2], [0, -0.3, 0.3, 0], [-0.25, 0.1, 0.05, 0.3]])
    pixels = torch.randint(0, 256, (len(maps), *shape), dtype=torch.uint8)
    interpolated = warp(pixels.float(), maps)
    for image, warped, entries in zip(pixels, interpolated, maps.tolist(), strict=True):
        assert torch.allclose(warped, naive_warp(image.float(), *entries), atol=1e-3)
    whole = warp(pixels, maps)
    assert whole.dtype == torch.uint8
    assert torch.equal(whole[0], pixels[0])
    assert (whole.float() - interpolated).abs().max() <= 0.501


def test_invert_turns_the_drawn_pictures_but_not_their_masks():
    pixels = torch.randint(0, 256, (3, 2, 4, 4), dtype=torch.uint8)
    inverted = invert(pixels, torch.tensor([1, 0, 1]), channels=1)
    assert torch.equal(inverted[1], pixels[1])
    assert torch.equal(inverted[:, 1], pixels[:, 1])
    assert torch.equal(inverted[0, 0].long(), 255 - pixels[0, 0].long())


def test_warp_and_invert_are_drawn_after_all_else():
    """So that a seed draws the same shifts with and without them."""
    plain, more = (
        draw(recipe, 5000, (9, 9), torch.Generator().manual_seed(3))
        for recipe in (Recipe(shift=2), Recipe(shift=2, warp=0.1))
    )
    assert torch.equal(more[:, :5], plain)
    assert set(more[:, 5].tolist()) == {0, 1}
    assert (more[:, 6:].min(), more[:, 6:].max()) == (-1000, 1000)
    assert more[:, 6:].float().mean(dim=0).abs().max() < 50


def test_draws_reach_from_edge_to_edge():
    draws = draw(Recipe(shift=2, invert=True), 5000, (6, 9), torch.Generator().manual_seed(0))
    ranges = [(int(column.min()), int(column.max()), len(column.unique())) for column in draws[:, :6].T]
    assert ranges == [(-2, 2, 5), (-2, 2, 5), (0, 1, 2), (0, 5, 6), (0, 8, 9), (0, 1, 2)]


@pytest.mark.parametrize(("degrees", "size"), [(0, 1.0), (90, 1.0), (30, 1.0), (0, 1.2), (-15, 0.85)])
def test_turned_and_scaled_by_hand(degrees, size):
    """A point at distance r from the middle moves to distance size · r, clockwise by the angle."""
    angle = math.radians(degrees)
    entries = turned(torch.tensor([angle]), torch.tensor([size]))[0].tolist()
    xx, xy, yx, yy = entries
    for x, y in ((1.0, 0.0), (0.0, 1.0), (2.0, -3.0)):
        new_x = size * (math.cos(angle) * x - math.sin(angle) * y)  # y points down, so this is clockwise
        new_y = size * (math.sin(angle) * x + math.cos(angle) * y)
        assert new_x + xx * new_x + xy * new_y == pytest.approx(x, abs=1e-5)
        assert new_y + yx * new_x + yy * new_y == pytest.approx(y, abs=1e-5)


def test_a_quarter_turn_is_a_quarter_turn():
    pixels = torch.randint(0, 256, (1, 2, 6, 6), dtype=torch.uint8)
    draws = torch.tensor([[0] * 10 + [1000, 0]])
    turn = augment(Recipe(shift=0, rotate=90), pixels, draws)
    assert torch.equal(turn, torch.rot90(pixels, -1, dims=(2, 3)))


def test_turns_are_drawn_after_all_else_and_reach_their_limits():
    plain, more = (
        draw(recipe, 5000, (9, 9), torch.Generator().manual_seed(3))
        for recipe in (Recipe(shift=2, warp=0.1), Recipe(shift=2, warp=0.1, rotate=15, scale=0.15))
    )
    assert torch.equal(more[:, :10], plain)
    assert (more[:, 10:].min(), more[:, 10:].max()) == (-1000, 1000)


@pytest.mark.parametrize("channels", [None, 2])
def test_all_of_it_in_one_call(channels):
    """Each with its own draws, one after the other."""
    pixels = torch.randint(0, 256, (20, 3, 7, 9), dtype=torch.uint8)
    everything = Recipe(shift=2, flip=True, cutout=3, warp=0.2, invert=True, rotate=20, scale=0.3)
    draws = draw(everything, 20, (7, 9), torch.Generator().manual_seed(0))
    dy, dx, mirrored, row, column, inverted, *entries, angle, larger = draws.T
    expected = invert(pixels, inverted, channels=channels or 3)
    expected = warp(expected, torch.stack(entries, dim=1) * (0.2 / 1000))
    expected = warp(expected, turned(angle * (math.radians(20) / 1000), 1 + larger * (0.3 / 1000)))
    expected = torch.stack(
        [naive_shift(*image_and_shift) for image_and_shift in zip(expected, dy.tolist(), dx.tolist(), strict=True)]
    )
    expected = torch.stack([image.flip(-1) if m else image for image, m in zip(expected, mirrored, strict=True)])
    expected = cutout(expected, row, column, side=3)
    assert torch.equal(augment(everything, pixels, draws, channels=channels), expected)


def test_cutout_alone():
    pixels = torch.ones(2, 1, 5, 8)
    cut = augment(Recipe(shift=0, cutout=2), pixels, torch.tensor([[0, 0, 0, 1, 6], [0, 0, 0, 4, 3]]))
    expected = torch.ones(2, 1, 5, 8)
    expected[0, :, 0:2, 5:7] = 0
    expected[1, :, 3:5, 2:4] = 0
    assert torch.equal(cut, expected)
