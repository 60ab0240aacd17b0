"""Masks beside images: which shapes are taken, and that they follow their images."""

import numpy as np
import pytest
import torch

from hitnet.data import Images, open_data, save_npz
from hitnet.errors import HitNetError


@pytest.fixture
def masked():
    pixels = torch.randint(0, 256, (10, 3, 4, 6), dtype=torch.uint8)
    masks = torch.randint(0, 2, (10, 1, 4, 6), dtype=torch.uint8) * 255
    labels = torch.arange(10) % 2
    return Images(pixels, labels, ("a", "b"), "masked", torch.arange(10), masks=masks)


def test_round_trip(masked, tmp_path):
    save_npz(masked, tmp_path / "a.npz")
    assert torch.equal(open_data(tmp_path / "a.npz").load("all").masks, masked.masks)
    train = open_data(tmp_path / "a.npz").load()
    assert torch.equal(train.masks, masked.masks[train.ids])


def test_masks_follow_selection_and_size(masked):
    assert torch.equal(masked.select([3, 1]).masks, masked.masks[[3, 1]])
    larger = open_data(masked, image_size=(8, 12)).load("all")
    assert larger.masks.shape == (10, 1, 8, 12)
    assert larger.shape == (3, 8, 12)


@pytest.mark.parametrize("shape", [(4, 5, 6), (4, 5, 6, 1), (4, 1, 5, 6)])
@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.float32])
def test_kinds_of_masks(tmp_path, shape, kind):
    masks = (np.arange(4 * 5 * 6) % 3).reshape(shape).astype(kind)
    images = np.zeros((4, 5, 6), np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(4) % 2, masks=masks)
    read = open_data(tmp_path / "a.npz").load("all").masks
    assert read.shape == (4, 1, 5, 6)
    assert torch.equal(read.flatten() != 0, torch.from_numpy(masks.reshape(-1) != 0))


@pytest.mark.parametrize("masks", [np.zeros((4, 5, 5)), np.zeros((3, 5, 6)), np.full((4, 5, 6), "x")])
def test_masks_that_do_not_fit(tmp_path, masks):
    np.savez(tmp_path / "a.npz", images=np.zeros((4, 5, 6), np.uint8), labels=np.arange(4) % 2, masks=masks)
    with pytest.raises(HitNetError, match="masks must be numbers of shape"):
        open_data(tmp_path / "a.npz").load()


def test_images_check_their_masks(masked):
    with pytest.raises(HitNetError, match="masks must be uint8 of shape"):
        Images(masked.pixels, masked.labels, ("a", "b"), "x", masked.ids, masks=masked.masks.float())
