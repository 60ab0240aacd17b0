import numpy as np
import pytest
import torch

from hitnet.data import Images, load, load_report
from hitnet.errors import HitNetError


@pytest.fixture
def images():
    pixels = np.random.default_rng(0).integers(0, 256, (50, 10, 8, 3), dtype=np.uint8)
    return Images.from_arrays(pixels, np.arange(50) % 5, name="memory")


def test_images_in_memory_are_a_source(images):
    assert load(images, "all") is images
    train, test = load(images), load(images, "test")
    assert torch.bincount(train.labels).tolist() == [8] * 5
    assert torch.bincount(test.labels).tolist() == [2] * 5
    assert torch.equal(images.pixels[test.ids], test.pixels)
    assert len(load(images, "all", limit=7)) == 7


def test_size(images):
    assert load(images, "all", image_size=(10, 8)) is images
    fitted = load(images, "all", image_size=20)
    assert fitted.shape == (3, 20, 20)
    assert int(fitted.pixels[..., :2].sum()) == int(fitted.pixels[..., 18:].sum()) == 0
    assert load("mnist-sample", "test", limit=3, image_size=14).shape == (1, 14, 14)


def test_one_report_for_every_source(images):
    report = load_report(images, "all")
    assert (report.images, report.skipped, report.ignored) == (images, (), {})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"split": "val"}, "split must be one of"),
        ({"limit": 0}, "limit must be at least 1; got 0"),
        ({"limit": -3}, "limit must be at least 1; got -3"),
        ({"image_size": 0}, "shape"),
        ({"image_size": (10**6, 4)}, "shape"),
    ],
)
def test_wrong_options(images, change, says):
    with pytest.raises(HitNetError, match=says):
        load(images, **change)


def test_sources_that_do_not_exist(tmp_path):
    with pytest.raises(HitNetError, match="Did you mean 'cifar10'"):
        load("cifar-10")
    with pytest.raises(HitNetError, match="does not exist"):
        load(tmp_path / "none")
    with pytest.raises(HitNetError, match="does not exist"):
        load("table.csv")
