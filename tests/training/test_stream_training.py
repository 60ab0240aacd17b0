"""Training from files on disk ends with the weights of training from memory, also after a kill in mid-epoch."""

import os
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from killed import train_until_killed
from PIL import Image

import hitnet
from hitnet import choose_recipe, open_data
from hitnet.data.images import Streamed
from hitnet.data.reading import decode, pixel_store
from hitnet.runtime import device
from hitnet.runtime.progress import Progress
from hitnet.training import RunFolder, engine, scheduler
from toy import toy_images

RECIPE = {"epochs": 2, "batch_size": 16, "ghosts": 1, "ghost_probability": 0.5}
OPTIONS = {
    "model": "hitnet-small",
    "device": "cpu",
    "recipe": choose_recipe(**RECIPE),
}


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    images = toy_images(90)
    for i, k in enumerate(images.labels.tolist()):
        folder = tmp_path / "photos" / images.class_names[k]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images.pixels[i, 0].numpy()).save(folder / f"{i:03}.jpg")
    return tmp_path / "photos"


def same(run, other):
    a, b = run.model.state_dict(), other.model.state_dict()
    return all(torch.equal(a[name], b[name]) for name in a)


def noted_files(monkeypatch):
    """The files of decoded images, as they are opened."""
    files, real = [], pixel_store.PixelFile
    monkeypatch.setattr(pixel_store, "PixelFile", lambda: (files.append(real()), files[-1])[1])
    return files


def timeless(run):
    return [{key: value for key, value in row.items() if "second" not in key} for row in run.history]


def test_streamed_training_is_training_in_memory(photos, monkeypatch):
    memory = hitnet.train(open_data(photos, stream=False), **OPTIONS)
    fed = []
    feed = engine.Feed.__init__
    monkeypatch.setattr(
        "hitnet.training.batches.Feed.__init__",
        lambda self, images, *rest, **more: (fed.append(type(images)), feed(self, images, *rest, **more))[1],
    )
    streamed = hitnet.train(open_data(photos, stream=True), **OPTIONS)
    assert fed == [Streamed, Streamed]
    assert same(memory, streamed)
    assert timeless(memory) == timeless(streamed)
    assert memory.config == streamed.config


def test_files_are_decoded_in_one_epoch_only(photos, monkeypatch):
    """With the same weights as if they were decoded in each."""
    decodes, real = Counter(), decode.decode
    monkeypatch.setattr(
        decode, "decode", lambda file, *rest, **more: (decodes.update([file]), real(file, *rest, **more))[1]
    )
    options = OPTIONS | {"recipe": choose_recipe(**RECIPE | {"epochs": 3})}
    before = hitnet.train(open_data(photos, stream=True), **options)
    classes = len(before.class_names)  # an image of each is decoded to see that there is one
    assert sum(decodes.values()) == classes + 2 * 90  # of all, to find those that are damaged; and to train or test
    decodes.clear()
    monkeypatch.setattr(pixel_store, "CAN_READ_AT", False)
    after = hitnet.train(open_data(photos, stream=True), **options)
    assert sum(decodes.values()) == classes + 4 * 90
    assert same(before, after)
    assert timeless(before) == timeless(after)


@pytest.mark.parametrize(("epochs", "seeds", "kept"), [(1, 1, False), (2, 1, True), (1, 2, True)])
def test_images_are_kept_only_if_they_are_read_again(photos, monkeypatch, epochs, seeds, kept):
    files = noted_files(monkeypatch)
    options = OPTIONS | {"recipe": choose_recipe(**RECIPE | {"epochs": epochs})}
    for stream in (True, False):
        files.clear()
        hitnet.train_many(open_data(photos, stream=stream), seeds=seeds, **options)
        assert bool(files) is (kept and stream)


def test_an_interrupted_training_leaves_no_file(photos, monkeypatch):
    class Interrupted(Progress):
        def epoch(self, training):
            assert os.fstat(files[0].file.fileno()).st_size > 0
            raise KeyboardInterrupt

    files = noted_files(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        hitnet.train(open_data(photos, stream=True), progress=Interrupted(), **OPTIONS)
    assert os.fstat(files[0].file.fileno()).st_size == 0
    assert not list((photos.parent / "cache").iterdir())


def test_hybrid_images_are_the_same_from_disk(photos, source):
    options = OPTIONS | {"recipe": choose_recipe(augment="hybrid", **RECIPE), "augment_from": source}
    memory = hitnet.train(open_data(photos, stream=False), **options)
    streamed = hitnet.train(open_data(photos, stream=True), **options)
    assert same(memory, streamed)
    assert timeless(memory) == timeless(streamed)
    assert not same(memory, hitnet.train(open_data(photos, stream=False), **OPTIONS))


def test_it_streams_by_itself_where_memory_is_short(photos, monkeypatch, caplog):
    caplog.set_level("INFO", logger="hitnet")
    monkeypatch.setattr("hitnet.training.api.room_for_images", lambda device: 5000)
    hitnet.train(photos, **OPTIONS | {"recipe": choose_recipe(**RECIPE | {"epochs": 1})})
    assert "72 train images" in caplog.text  # 72 x 144 bytes are too many
    assert "test images" not in caplog.text  # 18 x 144 are not


def test_processes_on_one_machine_share_its_memory(monkeypatch):
    monkeypatch.setattr(device.psutil, "virtual_memory", lambda: SimpleNamespace(available=8000))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert device.room_for_images(torch.device("cpu")) == 4000
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert device.room_for_images(torch.device("cpu")) == 1000


def test_networks_side_by_side_stream_each_in_its_own_order(photos, monkeypatch):
    monkeypatch.setitem(scheduler.AT_ONCE, "cpu", 2)
    for run in hitnet.train_many(open_data(photos, stream=True), seeds=2, **OPTIONS):
        assert same(run, hitnet.train(open_data(photos, stream=False), seed=run.config.seed, **OPTIONS))


@pytest.mark.slow
def test_killed_in_mid_epoch_it_resumes_to_the_same_weights(photos, tmp_path):
    """Streamed until kill -9 after seven of ten steps; then from memory, which is the same run."""
    train_until_killed(photos, tmp_path / "cut", step=8, recipe=RECIPE, stream=True)
    assert RunFolder(tmp_path / "cut").position() == (1, 2)
    whole = hitnet.train(photos, out=tmp_path / "whole", **OPTIONS)
    resumed = hitnet.train(photos, out=tmp_path / "cut", resume=True, **OPTIONS)
    assert same(whole, resumed)
    assert timeless(whole) == timeless(resumed)
