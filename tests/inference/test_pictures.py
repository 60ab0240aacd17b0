"""The images of a prediction: the same pixels, however they are given."""

import numpy as np
import pytest
import torch
from PIL import Image

from hitnet import HitNetError, open_data
from hitnet.inference import pictures
from toy import colour_images, toy_images, write_images

SHAPE = (1, 12, 12)


def given(images, shape=SHAPE):
    names, pixels = [], [torch.empty(0, *shape, dtype=torch.uint8)]
    for some, part in pictures.batches_of(images, shape):
        names += some
        pixels.append(part)
    return names, torch.cat(pixels)


@pytest.mark.parametrize("batch", [2, 100])
def test_pictures_arrays_tensors_files_and_folders_give_the_same_pixels(tmp_path, monkeypatch, batch):
    monkeypatch.setattr(pictures, "evaluation_batch", lambda shape: batch)
    images = toy_images(6)
    folder = write_images(tmp_path / "set", images)
    (folder / "notes.txt").write_text("no image")
    arrays = images.pixels.numpy()
    files = sorted(folder.rglob("*.png"))
    for each in (
        images,
        open_data(images),
        arrays,
        images.pixels,
        arrays[:, 0],
        arrays.transpose(0, 2, 3, 1),
        images.pixels.float() / 255,
        list(arrays),
        [Image.fromarray(array[0]) for array in arrays],
    ):
        names, pixels = given(each)
        assert torch.equal(pixels, images.pixels)
        assert len(set(names)) == 6
    for each in (folder, str(folder), files):
        names, pixels = given(each)
        assert names == list(map(str, files))
        assert torch.equal(pixels, images.pixels[[0, 3, 1, 4, 2, 5]])
    assert given(files[0])[0] == [str(files[0])]
    assert given([])[0] == []


def test_other_sizes_and_colours_are_brought_to_the_shape_of_the_network():
    images = colour_images(3, side=24)
    expected = given([Image.fromarray(each) for each in images.pixels.permute(0, 2, 3, 1).numpy()])[1]
    assert expected.shape == (3, *SHAPE)
    assert torch.equal(given(images)[1], expected)
    assert torch.equal(given(images.pixels)[1], expected)


@pytest.mark.parametrize(
    ("images", "says"),
    [
        (np.zeros((12, 12), np.uint8), "`images` must hold several images"),
        ([np.full((12, 12), -5)], "image 0: "),
        ([3], "image 0: it must be a picture"),
    ],
)
def test_what_is_no_image_is_named(images, says):
    with pytest.raises(HitNetError, match=says):
        given(images)


def test_a_folder_without_images_is_named(tmp_path):
    with pytest.raises(HitNetError, match=f"{tmp_path} holds no image files"):
        given(tmp_path)
