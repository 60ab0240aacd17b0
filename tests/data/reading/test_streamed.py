"""Streamed images: the same images in the same order as in memory, with a bounded number of them decoded ahead."""

import time

import pytest
import torch
from PIL import Image

from hitnet import HitNetError
from hitnet.data import images as streaming
from hitnet.data import open_data, save_npz
from hitnet.data.images import Images, Streamed
from toy import toy_images


@pytest.fixture
def photos(tmp_path):
    """60 JPEG files in class folders, two of them damaged: one from its first byte on, one in its pixels."""
    images = toy_images(60, shape=(1, 12, 12))
    for i, k in enumerate(images.labels.tolist()):
        folder = tmp_path / "photos" / images.class_names[k]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images.pixels[i, 0].numpy()).save(folder / f"{i:03}.jpg")
    (tmp_path / "photos" / "band 1" / "damaged.jpg").write_bytes(b"no image")
    whole = (tmp_path / "photos" / "band 2" / "002.jpg").read_bytes()
    (tmp_path / "photos" / "band 2" / "zz-cut.jpg").write_bytes(whole[:-30])
    return tmp_path / "photos"


def opened(photos, *, stream=True, room=0, **options):
    [images] = open_data(photos, stream=stream, **options).image_sets(["all"], lambda: room)
    return images


@pytest.mark.parametrize("streamed", [True, False])
def test_several_splits_are_those_that_load_gives(photos, caplog, streamed):
    caplog.set_level("INFO", logger="hitnet")
    train, test = open_data(photos, stream=streamed, limit=20, image_size=8).image_sets(["train", "test"], lambda: 0)
    assert caplog.text.count("damaged.jpg") == 1
    for images, split, limit in ((train, "train", 20), (test, "test", None)):
        assert images.fingerprint == open_data(photos, limit=limit, image_size=8).load(split).fingerprint


def test_the_same_images_as_in_memory(photos, caplog):
    memory = open_data(photos).load("all")
    assert "left out 2" in caplog.text
    caplog.clear()
    streamed = opened(photos)
    assert isinstance(streamed, Streamed)
    assert "left out 2" in caplog.text
    assert (len(streamed), streamed.shape, streamed.num_classes) == (len(memory), memory.shape, memory.num_classes)
    assert (streamed.class_names, streamed.name) == (memory.class_names, memory.name)
    assert torch.equal(streamed.labels, memory.labels)
    assert streamed.fingerprint == memory.fingerprint
    order = torch.randperm(len(memory))
    for part, pixels in zip(order.split(7), streamed.read(order.split(7)), strict=True):
        assert torch.equal(pixels, memory.pixels[part])


def test_few_images_are_decoded_ahead(photos, monkeypatch):
    streamed = opened(photos)
    monkeypatch.setattr(streaming, "AHEAD_BYTES", 0)
    monkeypatch.setattr(streaming, "thread_count", lambda: 2)
    done = []
    real = streaming.tried
    monkeypatch.setattr(streaming, "tried", lambda *given: (done.append(1), real(*given))[1])
    reading = streamed.read(torch.arange(len(streamed)).split(5))
    for batch in range(1, 4):
        next(reading)
        time.sleep(0.1)  # the threads have time for more
        assert 5 * batch <= len(done) <= 5 * batch + 4
    reading.close()
    time.sleep(0.1)
    assert len(done) <= 15 + 4


def test_room_decides(photos, caplog):
    caplog.set_level("INFO", logger="hitnet")
    assert isinstance(opened(photos, stream=None, room=61 * 144), Images)
    assert isinstance(opened(photos, stream=False), Images)
    assert "read from disk during training" not in caplog.text
    assert isinstance(opened(photos, stream=None, room=61 * 144 - 1), Streamed)
    assert "61 all images would take 0.0 GB of memory, so they are read from disk during training" in caplog.text


def test_a_file_that_vanishes_is_named(photos):
    streamed = opened(photos)
    (photos / streamed.entries[3].path).unlink()
    with pytest.raises(HitNetError, match=r"band 0/009\.jpg: there is no such file; it could be read before"):
        list(streamed.read([torch.arange(10)]))


@pytest.mark.parametrize("stream", [True, False, None])
@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one_is_refused(photos, stream, limit):
    with pytest.raises(HitNetError, match=f"limit must be at least 1; got {limit}"):
        opened(photos, stream=stream, limit=limit)


def test_what_cannot_be_streamed(photos, tmp_path):
    save_npz(toy_images(), tmp_path / "toy.npz")
    with pytest.raises(HitNetError, match="Only a folder or a table"):
        opened(tmp_path / "toy.npz")
    with pytest.raises(HitNetError, match="damaged"):
        opened(photos, strict=True)
