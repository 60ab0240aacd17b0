"""Sources that would hang, fill the memory or crash the interpreter: pipes, devices, bombs."""

import os
import threading
import time

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from hitnet.data import check_data, open_data
from hitnet.data.reading import decode
from hitnet.errors import HitNetError
from hitnet.features.dataset_features import read_features


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".npz"])
def test_pipes_are_not_waited_for_and_devices_not_read(tmp_path, suffix):
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(HitNetError, match=r"no regular file|of no known kind"):
            check_data(tmp_path / f"{name}{suffix}")


def test_a_table_larger_than_any_is_refused_by_its_size(tmp_path):
    with (tmp_path / "t.csv").open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(HitNetError, match=r"has 1,099,511,627,776 bytes, more than"):
        check_data(tmp_path / "t.csv")


def test_a_parquet_file_that_stands_for_a_huge_table_is_refused(tmp_path, monkeypatch):
    pd.DataFrame({"path": ["a"] * 10_000, "label": ["b"] * 10_000}).to_parquet(tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 5000
    monkeypatch.setattr("hitnet.data.reading.array_files.LARGEST_TABLE", 100_000)
    with pytest.raises(HitNetError, match="claims 10,000 rows, more than are read"):
        check_data(tmp_path / "t.parquet")


@pytest.mark.parametrize("code", [0x110000, 0xD800])
@pytest.mark.parametrize("name", ["labels", "class_names", "split", "paths", "name"])
def test_text_beyond_unicode_is_refused(tmp_path, name, code):
    arrays = {
        "images": np.zeros((4, 3, 3), np.uint8),
        "labels": np.array(["a", "b"] * 2),
        "class_names": np.array(["a", "b"]),
        "split": np.array(["train", "test"] * 2),
        "paths": np.array(list("abcd")),
        "name": np.array("set"),
    }
    broken = np.array([code] * arrays[name].size, np.uint32).view("<U1").reshape(arrays[name].shape)
    np.savez(tmp_path / "x.npz", **{**arrays, name: broken})
    with pytest.raises(HitNetError, match=f"{name} holds text that is not Unicode"):
        check_data(tmp_path / "x.npz")


def test_features_with_keys_beyond_unicode_are_refused(tmp_path):
    keys = np.array([0x110000, 1], np.uint32).view("<U1")
    np.savez(tmp_path / "f.npz", features=np.zeros((2, 3)), path=keys)
    with pytest.raises(HitNetError, match="path holds text that is not Unicode"):
        read_features(tmp_path / "f.npz", None)


def test_pixels_in_flight_are_counted_over_all_threads(tmp_path, monkeypatch):
    paths = [tmp_path / f"{i}.png" for i in range(6)]
    for path in paths:
        Image.new("L", (30, 30), 7).save(path)
    monkeypatch.setattr(decode, "IN_FLIGHT", 2000)
    inside, most, lock, flat = 0, 0, threading.Lock(), decode._flat

    def watched(image, *, grey):
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.05)
        result = flat(image, grey=grey)
        with lock:
            inside -= 1
        return result

    monkeypatch.setattr(decode, "_flat", watched)
    threads = [threading.Thread(target=decode.decode, args=(path, (1, 8, 8))) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 2
    assert decode._held == 0


def test_a_picture_larger_than_what_may_be_in_flight_is_decoded_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(decode, "IN_FLIGHT", 10)
    Image.new("L", (30, 30), 7).save(tmp_path / "x.png")
    assert int(decode.decode(tmp_path / "x.png", (1, 30, 30)).max()) == 7


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "I;16", "1", "CMYK"])
@pytest.mark.parametrize("channels", [1, 3])
def test_large_pictures_are_converted_in_strips_to_the_same_pixels(tmp_path, monkeypatch, mode, channels):
    values = np.random.default_rng(0).integers(0, 256, (21, 13, 4), dtype=np.uint8)
    if mode == "I;16":
        image = Image.fromarray(values[:, :, 0].astype(np.uint16) * 257)
    else:
        image = Image.fromarray(values, "RGBA").convert("RGB" if mode in ("P", "CMYK") else mode).convert(mode)
    suffix = "tif" if mode == "CMYK" else "png"
    image.save(tmp_path / f"x.{suffix}")
    whole = decode.decode(tmp_path / f"x.{suffix}", (channels, 21, 13))
    monkeypatch.setattr(decode, "STRIP", 40)
    assert np.array_equal(decode.decode(tmp_path / f"x.{suffix}", (channels, 21, 13)), whole)


def test_a_hostile_table_names_no_file_that_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    rows = "pipe.png,a\n/dev/zero,b\n" + "".join(f"{i}.png,{'ab'[i % 2]}\n" for i in range(4))
    for i in range(4):
        Image.new("L", (4, 4), i).save(tmp_path / f"{i}.png")
    (tmp_path / "t.csv").write_text("path,label\n" + rows)
    report = open_data(tmp_path / "t.csv").report("all")
    assert {item.path for item in report.skipped} == {"pipe.png", "/dev/zero"}
    assert len(report.images) == 4
