from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from hitnet.data import Images, check_data, open_data, save_npz
from hitnet.data.split import even_draw
from hitnet.errors import HitNetError


@pytest.fixture
def images():
    pixels = np.random.default_rng(0).integers(0, 256, (50, 10, 8, 3), dtype=np.uint8)
    return Images.from_arrays(pixels, np.arange(50) % 5, name="memory")


def test_images_in_memory_are_a_source(images):
    assert open_data(images).load("all") is images
    train, test = open_data(images).load(), open_data(images).load("test")
    assert torch.bincount(train.labels).tolist() == [8] * 5
    assert torch.bincount(test.labels).tolist() == [2] * 5
    assert torch.equal(images.pixels[test.ids], test.pixels)
    assert len(open_data(images, limit=7).load("all")) == 7


@pytest.mark.parametrize("limit", [1, 7, 50, 60])
def test_a_limit_of_images_in_memory_is_an_even_draw(images, limit):
    few, rest = images.select(even_draw([str(i) for i in images.ids.tolist()], limit)), images.first(10)
    assert len(few.labels.unique()) == {1: 1, 7: 4}.get(limit, 5)
    assert open_data(images, limit=limit).load("all").ids.tolist() == few.ids.tolist()
    assert open_data(images, limit=limit).training_sets(lambda: 0)[0].ids.tolist() == few.ids.tolist()
    for split in ("train", "test"):
        whole = open_data(images).load(split)
        drawn = even_draw([str(i) for i in whole.ids.tolist()], limit)
        assert torch.equal(open_data(images, limit=limit).load(split).ids, whole.ids[drawn])
    given = open_data(images, limit=limit, test=rest)
    train, test = given.training_sets(lambda: 0)
    assert train.ids.tolist() == given.load("train").ids.tolist() == few.ids.tolist()
    assert test is rest  # a limit does not act on the images to test on in training
    assert len(given.load("test")) == min(limit, 10)


@pytest.mark.parametrize("as_tensors", [False, True])
def test_a_pair_of_arrays_is_a_source(as_tensors):
    x, y = np.random.default_rng(0).random((20, 3, 6, 7), np.float32), np.arange(20) % 4
    pair = (torch.from_numpy(x), torch.from_numpy(y)) if as_tensors else (x, y)
    data = open_data(pair, limit=15)
    images = data.load("all")
    assert (len(images), images.shape, images.class_names) == (15, (3, 6, 7), ("0", "1", "2", "3"))
    assert (data.name, data.in_memory) == ("arrays", True)
    whole = open_data(pair).load("all")
    assert np.array_equal(whole.pixels.numpy(), np.rint(x * 255))
    assert whole.labels.tolist() == y.tolist()
    assert len(open_data(pair, test=whole.first(3)).load("test")) == 3


@pytest.mark.parametrize("names", [["b", "a", "", "b"], pd.Series(["b", "a", None, "b"])])
def test_labels_of_a_pair_may_be_names_and_may_be_missing(names):
    report = open_data((np.zeros((4, 5, 5), np.uint8), names)).report("all")
    assert (report.images.class_names, report.images.labels.tolist()) == (("a", "b"), [1, 0, 1])
    assert [item.path for item in report.skipped] == ["image 2"]


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ((np.zeros((4, 9)), np.arange(4)), r"\(X, y\): images must be \(N, H, W\).*got \(4, 9\)"),
        ((np.zeros((4, 5, 5)), np.arange(3)), r"\(X, y\): 4 images but 3 labels"),
        ((np.full((4, 5, 5), 2.0), np.arange(4)), "float64 pixels run from 2 to 2, outside 0 to 1"),
        ((np.zeros((4, 5, 5)), np.eye(4)), "Take the argmax"),
    ],
)
def test_a_pair_that_is_no_set_is_refused(pair, says):
    with pytest.raises(HitNetError, match=says):
        open_data(pair).load("all")


def test_size(images):
    assert open_data(images, image_size=(10, 8)).load("all") is images
    fitted = open_data(images, image_size=20).load("all")
    assert fitted.shape == (3, 20, 20)
    assert int(fitted.pixels[..., :2].sum()) == int(fitted.pixels[..., 18:].sum()) == 0
    assert open_data("mnist-sample", limit=3, image_size=14).load("test").shape == (1, 14, 14)


def test_one_report_for_every_source(images):
    report = open_data(images).report("all")
    assert (report.images, report.skipped, report.ignored) == (images, (), {})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"limit": 0}, "limit must be at least 1; got 0"),
        ({"limit": -3}, "limit must be at least 1; got -3"),
        ({"image_size": 0}, "`image_size` must be from 1 to 4096"),
        ({"image_size": (10**6, 4)}, "`image_size` must be from 1 to 4096"),
    ],
)
def test_wrong_options(images, change, says):
    with pytest.raises(HitNetError, match=says):
        open_data(images, **change)
    with pytest.raises(HitNetError, match="split must be one of"):
        open_data(images).load("val")


def test_sources_that_do_not_exist(tmp_path):
    with pytest.raises(HitNetError, match="Did you mean 'cifar10'"):
        open_data("cifar-10")
    with pytest.raises(HitNetError, match="does not exist"):
        open_data(tmp_path / "none")
    with pytest.raises(HitNetError, match="does not exist"):
        open_data("table.csv")
    with pytest.raises(HitNetError, match="Data cannot be opened from int"):
        open_data(3)


def test_opened_data_is_returned_as_it_is(images):
    data = open_data(images, limit=7)
    assert open_data(data) is data
    with pytest.raises(HitNetError, match="open already"):
        open_data(data, limit=3)
    assert len(data.reopen(limit=3).load("all")) == 3
    assert data.reopen().options == data.options


def test_images_to_test_on(images, tmp_path):
    few = images.first(10)
    data = open_data(images, test=few)
    assert data.load("train") is images
    assert data.load("test") is few
    save_npz(images, tmp_path / "memory.npz")
    with pytest.raises(HitNetError, match="`test` is for images in memory"):
        open_data(tmp_path / "memory.npz", test=few)


@pytest.mark.parametrize("flip", [None, False, True])
def test_whether_images_may_be_mirrored(images, flip):
    for known in (False, True):
        loaded = open_data(replace(images, flip=known), flip=flip).load("all")
        assert loaded.flip is (known if flip is None else flip)


def test_a_check_reads_your_own_data(images):
    check = check_data(images)
    assert check.report.images is images
    assert (check.files, check.sound) == ((), True)


def test_images_and_opened_data_are_shown_in_one_line(toy, tmp_path):
    assert repr(toy) == "<Images: toy, 96 of shape (1, 12, 12) in 3 classes>"
    assert repr(open_data(toy)) == "<MemoryData: toy, toy>"
    save_npz(toy, tmp_path / "bands.npz")
    assert repr(open_data(tmp_path / "bands.npz")) == f"<NpzData: bands, {tmp_path / 'bands.npz'}>"
