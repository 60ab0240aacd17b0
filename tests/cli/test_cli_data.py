"""`hitnet data list`, `fetch` and `check`."""

import json
import logging

import pytest
from cli_samples import write_folder
from PIL import Image

from hitnet.data import save_npz
from hitnet.data.known import catalogue
from hitnet.data.known.catalogue import KNOWN_SETS
from toy import toy_images


@pytest.fixture
def photos(tmp_path):
    """A folder of three classes with one image that cannot be read and one file that is none."""
    root = write_folder(tmp_path / "photos", toy_images(30))
    (root / "band 1" / "broken.png").write_bytes(b"\x89PNG, but not for long")
    (root / "band 2" / "notes.txt").write_text("hello")
    return root


def test_list(command, tmp_path):
    ended = command("data", "list", "--data-dir", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    lines = {line.split()[0]: line.split()[1] for line in ended.out.splitlines()}
    assert set(KNOWN_SETS) < set(lines)
    assert (lines["mnist-sample"], lines["mnist"]) == ("yes", "no")
    assert ended.out.splitlines()[-1] == f"data folder: {tmp_path}"


def test_list_as_json(command, tmp_path):
    rows = json.loads(command("data", "list", "--data-dir", tmp_path, "--json").out)
    assert [row["name"] for row in rows] == list(KNOWN_SETS)
    assert all(row["licence"] and row["about"] and row["page"].startswith("http") for row in rows)


def test_fetch_asks_for_each_missing_file(command, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(catalogue, "fetch_file", lambda urls, target, is_sound: asked.append(target))
    ended = command("data", "fetch", "mnist", "--data-dir", tmp_path)
    assert (ended.code, ended.out) == (0, f"mnist is complete in {tmp_path / 'mnist'}\n")
    assert len(asked) == 4
    assert {path.parent for path in asked} == {tmp_path / "mnist"}


@pytest.mark.parametrize(("name", "files"), [("mnist-sample", 2), ("clothing-sample", 1)])
def test_the_samples_need_no_fetching(command, name, files):
    assert command("data", "fetch", name).code == 0
    ended = command("data", "check", name)
    assert ended.code == 0
    assert ended.out.count(" ok ") == files


def test_check_of_a_known_set_that_is_not_here(command, tmp_path):
    ended = command("data", "check", "mnist", "--data-dir", tmp_path)
    assert ended.code == 1
    assert ended.out.count("missing") == 4
    ended = command("data", "check", "mnist", "--data-dir", tmp_path, "--json")
    assert ended.code == 1
    assert {row["state"] for row in json.loads(ended.out)} == {"missing"}


def test_check_of_a_sound_set(command, tmp_path):
    save_npz(toy_images(30), tmp_path / "bands.npz")
    ended = command("data", "check", tmp_path / "bands.npz")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[0] == "toy: 30 images of (1, 12, 12), 3 classes"
    assert [line.split() for line in ended.out.splitlines()[2:]] == [["band", str(k), "10"] for k in range(3)]


def test_check_at_another_size(command, photos, caplog):
    caplog.set_level(logging.INFO, "hitnet")
    Image.new("L", (12, 20)).save(photos / "band 1" / "high.png")
    command("data", "check", photos)
    assert "1 of 31 have another size and are scaled to fit, centred on black. Set `image_size`" in caplog.text
    caplog.clear()
    ended = command("data", "check", photos, "--image-size", 20)
    assert ended.out.splitlines()[0] == "photos: 31 images of (1, 20, 20), 3 classes"
    assert caplog.text == ""  # the size was asked for


@pytest.mark.parametrize("size", [0, 5000])
def test_a_size_out_of_bounds_is_named_by_its_option(command, photos, size):
    ended = command("data", "check", photos, "--image-size", size)
    assert ended.code == 1
    assert f"--image-size must be from 1 to 4096; got {size}." in ended.err


def test_check_names_what_was_left_out(command, photos):
    ended = command("data", "check", photos)
    assert ended.code == 1
    assert ended.out.splitlines()[0] == "photos: 30 images of (1, 12, 12), 3 classes"
    (left_out,) = [line for line in ended.out.splitlines() if line.startswith("left out: ")]
    assert left_out.startswith("left out: band 1/broken.png: ")


def test_check_counts_what_was_ignored(command, photos):
    (photos / "band 1" / "broken.png").unlink()
    ended = command("data", "check", photos)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-1] == "ignored: 1 .txt"
    (photos / "band 2" / "a.jxl").write_bytes(b"x")
    (photos / "b.png").write_bytes(b"x")
    ended = command("data", "check", photos)
    assert ended.code == 1
    assert ended.out.splitlines()[-3:] == [
        "left out: b.png: it lies outside the class folders",
        "left out: band 2/a.jxl: images of type .jxl are not read; convert it to PNG or JPEG",
        "ignored: 1 .txt",
    ]
    report = json.loads(command("data", "check", photos, "--json").out)
    assert report["ignored"] == {".txt": 1}


def test_check_as_json(command, photos):
    ended = command("data", "check", photos, "--json")
    assert ended.code == 1
    report = json.loads(ended.out)
    assert (report["images"], report["shape"]) == (30, [1, 12, 12])
    assert report["classes"] == {"band 0": 10, "band 1": 10, "band 2": 10}
    assert [item["path"] for item in report["left_out"]] == ["band 1/broken.png"]
    assert report["ignored"] == {".txt": 1}


def test_strict_stops_at_the_first_broken_image(command, photos, tmp_path):
    ended = command("train", photos, "--strict", "--out", tmp_path / "run", "--device", "cpu")
    assert ended.code == 1
    assert "band 1/broken.png" in ended.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("train", ".", "--model", "hitnet-small", "--epochs", 1, "--device", "cpu"),
        (
            "train",
            ".",
            "--seeds",
            2,
            "--out",
            "band 0/runs",
            "--model",
            "hitnet-small",
            "--epochs",
            1,
            "--device",
            "cpu",
        ),
        ("audit", ".", "--device", "cpu"),
        ("extract", ".", "--out", "band 0/features.npy", "--device", "cpu"),
    ],
)
def test_nothing_is_written_among_the_images(command, photos, monkeypatch, words):
    monkeypatch.chdir(photos)
    before = sorted(photos.rglob("*"))
    ended = command(*words)
    assert ended.code == 1
    assert f"lies inside the original data {photos.resolve()}. " in ended.err
    assert "--out" in ended.err
    assert sorted(photos.rglob("*")) == before
