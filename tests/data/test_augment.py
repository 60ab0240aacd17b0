"""Shifts, mirroring and cutout against plain loops."""

import pytest
import torch

from hitnet import HitNetError
from hitnet.data.augment import Augmentation, cutout, shift


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
    found = shift(pixels, dy, dx, most=2)
    assert found.dtype == torch.uint8
    for image, moved, (a, b) in zip(pixels, found, moves, strict=True):
        assert torch.equal(moved, naive_shift(image, a, b))


def test_draws_cover_all_shifts_evenly_and_each_image_has_its_own():
    draws = Augmentation(2).draw(50_000, (28, 28), torch.Generator().manual_seed(0))
    counts = torch.bincount((draws[:, 0] + 2) * 5 + draws[:, 1] + 2, minlength=25)
    assert len(counts) == 25
    assert counts.min() > 1800
    assert counts.max() < 2200


def test_every_epoch_draws_anew_and_the_same_seed_the_same():
    def draw(seed):
        return Augmentation(2).draw(100, (9, 9), torch.Generator().manual_seed(seed))

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))


def test_flip_mirrors_the_drawn_images_alone():
    pixels = torch.randint(0, 256, (4, 3, 5, 6), dtype=torch.uint8)
    draws = torch.zeros(4, 5, dtype=torch.long)
    draws[1, 2] = draws[3, 2] = 1
    found = Augmentation(0, flip=True).apply(pixels, draws)
    for i in range(4):
        assert torch.equal(found[i], pixels[i].flip(-1) if i in (1, 3) else pixels[i])


def test_cutout_zeroes_a_square_cut_off_at_the_border():
    pixels = torch.ones(3, 1, 8, 8)
    found = cutout(pixels, torch.tensor([4, 0, 7]), torch.tensor([4, 0, 7]), side=4)
    expected = torch.ones(3, 1, 8, 8)
    expected[0, :, 2:6, 2:6] = 0
    expected[1, :, 0:2, 0:2] = 0
    expected[2, :, 5:8, 5:8] = 0
    assert torch.equal(found, expected)


def test_nothing_asked_nothing_done():
    pixels = torch.randint(0, 256, (2, 1, 4, 4), dtype=torch.uint8)
    none = Augmentation(0)
    assert torch.equal(none.apply(pixels, none.draw(2, (4, 4), torch.Generator())), pixels)
    with pytest.raises(HitNetError, match="must not be negative"):
        Augmentation(-1)
