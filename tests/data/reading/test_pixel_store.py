"""Decoded images kept on disk: each file is decoded once, and nothing that differs from what was decoded is used."""

import errno
import gc
import os
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from hitnet import HitNetError, open_data
from hitnet.data.reading import decode, pixel_store
from hitnet.data.reading.pixel_store import PixelFile, decoded_once

COUNT = 24


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """JPEG files of several sizes, and one of another shape."""
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for i in range(COUNT):
        folder = tmp_path / "photos" / f"class {i % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        size = (9, 30) if i == 7 else (12 + i % 3, 12 + i % 3)
        Image.fromarray(random.integers(0, 256, (*size, 3), np.uint8)).save(folder / f"{i:03}.jpg")
    return tmp_path / "photos"


@pytest.fixture
def decodes(monkeypatch):
    """How often each file is decoded."""
    counts, real = Counter(), decode.decode
    monkeypatch.setattr(
        decode, "decode", lambda file, *rest, **more: (counts.update([file]), real(file, *rest, **more))[1]
    )
    return counts


def streamed(photos):
    [images] = open_data(photos, stream=True, image_size=12).image_sets(["all"], lambda: 0)
    return images


def passes(images, number=1):
    """All images, in another order in each pass, brought back into that of the set."""
    for seed in range(number):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))
        read = torch.cat(list(images.read(order.split(5))))
        yield read[order.argsort()]


def test_each_file_is_decoded_once(photos, decodes):
    images = streamed(photos)
    expected = images.in_memory().pixels
    decodes.clear()
    with decoded_once() as file:
        stored = images.stored_in(file)
        for read in passes(stored, 3):
            assert torch.equal(read, expected)
        assert (len(decodes), set(decodes.values())) == (COUNT, {1})
        assert not list((photos.parent / "cache").iterdir())  # nothing to remove if the process is killed
    assert os.fstat(file.file.fileno()).st_size == 0
    decodes.clear()
    assert torch.equal(next(passes(stored)), expected)  # whoever still reads decodes again
    assert len(decodes) == COUNT
    assert file.end == expected.nbytes
    assert stored.select([3, 1]).store is None  # other images are at these places


def test_sets_do_not_share_places(photos):
    images = streamed(photos)
    expected = images.in_memory().pixels
    with decoded_once() as file:
        one, other = images.stored_in(file), images.select(range(9, 20)).stored_in(file)
        for _ in range(2):
            assert torch.equal(next(passes(one)), expected)
            assert torch.equal(next(passes(other)), expected[9:20])


@pytest.mark.parametrize("damage", ["byte", "cut", "other image"])
def test_what_was_damaged_is_decoded_again(photos, decodes, damage):
    images = streamed(photos)
    expected = images.in_memory().pixels
    size = expected[0].nbytes
    with decoded_once() as file:
        stored, handle = images.stored_in(file), file.file.fileno()
        list(passes(stored))
        decodes.clear()
        if damage == "byte":
            byte = os.pread(handle, 1, 5 * size + 17)[0]
            os.pwrite(handle, bytes([byte ^ 1]), 5 * size + 17)
        elif damage == "cut":
            os.ftruncate(handle, COUNT * size - 1)
        else:
            os.pwrite(handle, os.pread(handle, size, 4 * size), 5 * size)
        for read in passes(stored, 2):
            assert torch.equal(read, expected)
        changed = images.entries[COUNT - 1 if damage == "cut" else 5].file
        assert decodes == {changed: 1}


def test_a_half_written_image_is_not_used(photos, decodes, monkeypatch):
    images = streamed(photos)
    expected = images.in_memory().pixels
    decodes.clear()
    write = os.pwrite
    with decoded_once() as file:
        stored = images.stored_in(file)
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", lambda handle, pixels, offset: write(handle, pixels.tobytes()[:100], offset))
            assert torch.equal(next(passes(stored)), expected)
        for read in passes(stored, 2):
            assert torch.equal(read, expected)
    assert set(decodes.values()) == {2}


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_on_a_full_disk_the_rest_is_decoded_again(photos, decodes, monkeypatch, caplog, problem):
    images = streamed(photos)
    expected = images.in_memory().pixels
    decodes.clear()
    written, write = [], os.pwrite

    def limited(handle, pixels, offset):
        if len(written) >= 10:
            raise OSError(problem, os.strerror(problem))
        written.append(offset)
        return write(handle, pixels, offset)

    monkeypatch.setattr(os, "pwrite", limited)
    with decoded_once() as file:
        stored, test = images.stored_in(file), images.stored_in(file)
        for read in passes(stored, 3):
            assert torch.equal(read, expected)
        assert sorted(decodes.values()) == [1] * len(written) + [3] * (COUNT - len(written))
        assert torch.equal(next(passes(test)), expected)
    [warning] = [record.getMessage() for record in caplog.records]
    assert os.strerror(problem) in warning
    assert "decoded in every epoch" in warning


def test_half_of_the_disk_stays_free(photos, decodes, monkeypatch, caplog):
    images = streamed(photos)
    size = images.in_memory().pixels[0].nbytes
    decodes.clear()
    free = iter(range(20 * size, 0, -size))  # room for one image fewer at each look
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_frsize=1, f_bavail=next(free)))
    with decoded_once() as file:
        list(passes(images.stored_in(file), 2))
    assert sorted(decodes.values()) == [1] * 9 + [2] * (COUNT - 9)  # the first look is at the empty disk
    first, full = caplog.messages
    assert first.startswith(
        f"Decoded images need up to 0.0 GB in {file.folder}; there is room for 0.0 GB. The others are"
    )
    assert "half of the space that was free" in full


def test_much_room_is_told(photos, monkeypatch, caplog):
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_frsize=1, f_bavail=8 * 10**9))
    with decoded_once() as file, caplog.at_level("INFO"):
        for count, told in ((999, 0), (2, 1), (3000, 2)):
            file.store(count, (1, 1000, 1000))
            assert len(caplog.messages) == told
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert caplog.messages[1].startswith(
        f"Decoded images need up to 4.0 GB in {file.folder}; there is room for 4.0 GB."
    )


def test_without_a_place_nothing_is_kept(photos, monkeypatch, caplog):
    (photos.parent / "file").touch()
    monkeypatch.setenv("HITNET_CACHE", str(photos.parent / "file" / "cache"))
    with decoded_once() as file:
        assert file is None
    assert caplog.text.count("No more decoded images are kept on disk") == 1
    monkeypatch.setattr(pixel_store, "CAN_READ_AT", False)
    with decoded_once() as file:
        assert file is None
    assert len(caplog.records) == 1


def test_what_cannot_be_decoded_is_an_error_every_time(photos):
    images = streamed(photos)
    path = photos / images.entries[3].path
    content = path.read_bytes()
    path.write_bytes(b"no image")
    with decoded_once() as file:
        stored = images.stored_in(file)
        for _ in range(2):
            with pytest.raises(HitNetError, match="it is not an image"):
                list(passes(stored))
        path.write_bytes(content)
        assert torch.equal(next(passes(stored)), images.in_memory().pixels)


def test_the_file_is_closed_with_its_last_user(photos):
    file = PixelFile()
    stored, opened = streamed(photos).stored_in(file), file.file
    del file
    gc.collect()
    assert not opened.closed
    del stored
    gc.collect()
    assert opened.closed
