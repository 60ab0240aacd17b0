"""Streams of images on disk: whole or not at all, and nothing overwritten."""

import resource
from dataclasses import replace

import pytest
import torch

from hitnet import HitNetError, Images
from hitnet.data import open_data
from hitnet.synthesis import ImageStream, write_images
from toy import Counted, toy_images


def stream(images, *, total=None, fail=False, names=None):
    def batches():
        yield "train", images.select(range(10))
        if fail:
            raise RuntimeError("stop")
        yield "test", images.select(range(10, len(images)))

    return ImageStream(
        batches(), len(images) if total is None else total, names or images.class_names, images.shape, "made", True
    )


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 12, 15)])
def test_arrays_come_back(tmp_path, shape):
    images, written = toy_images(16, shape=shape), Counted()
    write_images(stream(images), tmp_path / "a.npz", progress=written)
    loaded = open_data(tmp_path / "a.npz").load("all")
    assert torch.equal(loaded.pixels, images.pixels)
    assert torch.equal(loaded.labels, images.labels)
    assert (loaded.name, loaded.flip, loaded.class_names) == ("made", True, images.class_names)
    assert len(open_data(tmp_path / "a.npz").load("train")) == 10
    assert (written.parts, written.steps) == ([("images", 16, "images")], [10, 6])


def test_colour_folders_come_back(tmp_path):
    images = toy_images(16, shape=(3, 12, 12))
    write_images(stream(images), tmp_path / "new")
    loaded = open_data(tmp_path / "new").load("test")
    assert loaded.shape == (3, 12, 12)
    assert sorted(map(bytes, loaded.pixels.numpy())) == sorted(map(bytes, images.pixels[10:].numpy()))


@pytest.mark.parametrize("name", ["a.npz", "folder"])
def test_what_breaks_off_leaves_nothing(tmp_path, name):
    with pytest.raises(RuntimeError, match="stop"):
        write_images(stream(toy_images(16), fail=True), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_may_be_filled(tmp_path):
    write_images(stream(toy_images(16)), tmp_path)
    assert len(open_data(tmp_path).load("all")) == 16


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.txt").write_text("keep")
    for name in ("file", "a.npz", "b.NPZ"):
        (tmp_path / name).write_text("keep")
    with pytest.raises(HitNetError, match="is not an empty folder"):
        write_images(stream(toy_images(16)), tmp_path / "mine")
    with pytest.raises(HitNetError, match="is not an empty folder"):
        write_images(stream(toy_images(16)), tmp_path / "file")
    for name in ("a.npz", "b.NPZ"):
        with pytest.raises(HitNetError, match="exists already"):
            write_images(stream(toy_images(16)), tmp_path / name)
    assert {path.read_text() for path in tmp_path.rglob("*") if path.is_file()} == {"keep"}


def test_too_few_images(tmp_path):
    with pytest.raises(HitNetError, match="20 images but gave 16"):
        write_images(stream(toy_images(16), total=20), tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["a/b", "..", "", "con:", "dot."])
def test_names_that_can_be_no_folder(tmp_path, name):
    images = toy_images(16)
    renamed = Images(images.pixels, images.labels, ("x", "y", name), "odd", images.ids)
    with pytest.raises(HitNetError, match=r"cannot be a folder name.*\.npz"):
        write_images(stream(renamed), tmp_path / "new")


def masked(count=16):
    images = toy_images(count)
    return replace(images, masks=(images.pixels > 100).to(torch.uint8) * 255)


def test_masks_come_back(tmp_path):
    images = masked()
    write_images(stream(images), tmp_path / "a.npz")
    assert torch.equal(open_data(tmp_path / "a.npz").load("all").masks, images.masks)


def test_a_folder_says_once_that_it_holds_no_masks(tmp_path, caplog):
    write_images(stream(masked()), tmp_path / "new")
    assert ["masks are not written" in message for message in caplog.messages] == [True]


def test_a_full_disk_is_said_in_a_sentence(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(HitNetError, match="Cannot write"):
            write_images(stream(toy_images(200)), tmp_path / "a.npz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
