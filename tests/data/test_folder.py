import logging
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hitnet.data import load, load_report
from hitnet.errors import HitNetError


def picture(path, *, size=(8, 8), value=100, mode="L"):
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = value if mode == "L" else (value, 0, 0)
    Image.new(mode, size, colour).save(path)


@pytest.fixture
def root(tmp_path):
    """Three classes of ten images each; the value of an image tells class and number."""
    for k, label in enumerate(["2", "10", "dog"]):
        for i in range(10):
            picture(tmp_path / "set" / label / f"{i}.png", value=50 * k + i)
    return tmp_path / "set"


def test_classes_ids_and_paths_follow_the_natural_order(root):
    images = load(root, "all")
    assert images.class_names == ("2", "10", "dog")
    assert images.labels.tolist() == [0] * 10 + [1] * 10 + [2] * 10
    assert images.ids.tolist() == list(range(30))
    assert images.paths[10] == "10/0.png"
    assert images.pixels[:, 0, 0, 0].tolist() == [50 * k + i for k in range(3) for i in range(10)]
    assert (images.name, images.flip, images.shape) == ("set", False, (1, 8, 8))


def test_fixed_split(root):
    train, test = load(root), load(root, "test")
    assert torch.bincount(train.labels).tolist() == [8, 8, 8]
    assert torch.bincount(test.labels).tolist() == [2, 2, 2]
    assert sorted(train.ids.tolist() + test.ids.tolist()) == list(range(30))
    assert train.class_names == test.class_names
    again = load(root, "test")
    assert torch.equal(again.ids, test.ids)
    moved = shutil.copytree(root, root.parent / "elsewhere")
    assert load(moved, "test").paths == test.paths


@pytest.mark.parametrize("other", ["test", "val", "Validation"])
def test_given_splits(tmp_path, other):
    for label in ("a", "b"):
        picture(tmp_path / "train" / label / "1.png")
        picture(tmp_path / "train" / label / "2.png")
    picture(tmp_path / other / "b" / "3.png")
    assert load(tmp_path).paths == ("train/a/1.png", "train/a/2.png", "train/b/1.png", "train/b/2.png")
    test = load(tmp_path, "test")
    assert test.paths == (f"{other}/b/3.png",)
    assert test.class_names == ("a", "b")
    assert test.labels.tolist() == [1]


def test_validation_beside_test_is_in_all_alone(tmp_path):
    for split in ("train", "val", "test"):
        for label in ("a", "b"):
            picture(tmp_path / split / label / "1.png")
    assert load(tmp_path).paths == ("train/a/1.png", "train/b/1.png")
    assert load(tmp_path, "test").paths == ("test/a/1.png", "test/b/1.png")
    assert len(load(tmp_path, "all")) == 6


def test_train_and_test_may_be_classes(tmp_path):
    picture(tmp_path / "train" / "1.png")
    picture(tmp_path / "test" / "1.png")
    assert load(tmp_path, "all").class_names == ("test", "train")


def test_a_folder_beside_train_and_test_is_left_out(tmp_path):
    for split in ("train", "val"):
        for label in ("a", "b"):
            picture(tmp_path / split / label / "1.png")
    picture(tmp_path / "unlabelled" / "1.png")
    report = load_report(tmp_path, "all")
    assert report.images.class_names == ("a", "b")
    assert [item.path for item in report.skipped] == ["unlabelled"]
    assert "train and val" in report.skipped[0].reason


@pytest.mark.parametrize("other", ["bus", "test"])
def test_a_class_named_train_may_hold_folders(tmp_path, other):
    picture(tmp_path / "train" / "steam" / "1.png")
    picture(tmp_path / "car" / "1.png")
    picture(tmp_path / other / "1.png")
    assert set(load(tmp_path, "all").class_names) == {"train", "car", other}


def test_nested_hidden_and_other_files(root):
    picture(root / "dog" / "deep" / "down" / "x.PNG")
    picture(root / "dog" / ".hidden.png")
    picture(root / "dog" / ".cache" / "x.png")
    picture(root / ".git" / "x.png")
    (root / "dog" / "notes.txt").write_text("hello")
    (root / "readme.md").write_text("hello")
    report = load_report(root, "all")
    assert len(report.images) == 31
    assert "dog/deep/down/x.PNG" in report.images.paths
    assert report.skipped == ()
    assert report.ignored == {".txt": 1}


def test_odd_files_are_left_out_and_named(root, caplog):
    (root / "2" / "0.png").write_bytes(b"no image")
    (root / "2" / "1.png").write_bytes(b"")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8), np.uint8)).save(root / "2" / "2.png")
    (root / "2" / "2.png").write_bytes((root / "2" / "2.png").read_bytes()[:70])
    os.mkfifo(root / "2" / "pipe.png")
    (root / "empty").mkdir()
    report = load_report(root, "all")
    assert {item.path: item.reason.split(" (")[0] for item in report.skipped} == {
        "empty": "the class folder holds no image",
        "2/0.png": "it is not an image, or of a kind that is not read",
        "2/1.png": "it is empty",
        "2/2.png": "it is damaged",
        "2/pipe.png": "it is not a regular file",
    }
    assert report.images.class_names == ("2", "10", "dog")
    # Ids count what lies there, so that they do not depend on what can be read.
    assert report.images.ids.tolist() == [*range(3, 10), *range(11, 31)]
    with caplog.at_level(logging.WARNING, "hitnet"):
        load(root, "all")
    assert "left out 5" in caplog.text
    assert "2/1.png: it is empty" in caplog.text


def test_the_warning_names_ten(root, caplog):
    for i in range(25):
        (root / "dog" / f"bad{i}.png").write_bytes(b"")
    load(root, "all")
    assert caplog.text.count("it is empty") == 10
    assert "and 15 more" in caplog.text


def test_strict_stops(root):
    (root / "10" / "3.png").write_bytes(b"no image")
    with pytest.raises(HitNetError, match=r"10/3\.png: it is not an image"):
        load(root, strict=True)


def test_strict_stops_at_damaged_pixels(root):
    path = root / "10" / "3.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(HitNetError, match=r"10/3\.jpg: it is damaged"):
        load(root, "all", strict=True)


def test_grey_and_colour(root):
    assert load(root).shape[0] == 1
    picture(root / "dog" / "red.png", mode="RGB", value=200)
    images = load(root, "all")
    assert images.shape[0] == 3
    red = images.paths.index("dog/red.png")
    assert images.pixels[red, :, 0, 0].tolist() == [200, 0, 0]
    assert images.pixels[1, :, 0, 0].tolist() == [1, 1, 1]
    # A split without the only colour image has three channels too.
    assert load(root, "test").shape == load(root, "train").shape


def test_the_commonest_size_counts(root, caplog):
    picture(root / "dog" / "big.png", size=(30, 15), value=255)
    with caplog.at_level(logging.INFO, "hitnet"):
        images = load(root, "all")
    assert images.shape == (1, 8, 8)
    assert "read at 8 x 8" in caplog.text
    assert "1 of 31 have another size" in caplog.text
    big = images.pixels[images.paths.index("dog/big.png"), 0]
    assert big[:, 0].tolist() == [0, 0, 255, 255, 255, 255, 0, 0]


def test_large_images_become_64_at_most(tmp_path):
    for label in ("a", "b"):
        for i in range(3):
            picture(tmp_path / label / f"{i}.jpg", size=(200, 100))
    assert load(tmp_path).shape == (1, 32, 64)
    assert load(tmp_path, image_size=20).shape == (1, 20, 20)
    assert load(tmp_path, image_size=(10, 24)).shape == (1, 10, 24)


def test_a_limit_draws_from_all_classes(root):
    images = load(root, "all", limit=12)
    assert len(images) == 12
    assert len(images.labels.unique()) == 3
    assert images.ids.tolist() == sorted(images.ids.tolist())


def test_links_are_followed_and_loops_end(root):
    other = root.parent / "other"
    picture(other / "linked.png")
    (root / "dog" / "more").symlink_to(other)
    (root / "dog" / "loop").symlink_to(root / "dog")
    (root / "dog" / "up").symlink_to(root)
    (root / "dog" / "dangling.png").symlink_to(root / "nowhere.png")
    report = load_report(root, "all")
    assert len(report.images) == 31
    assert "dog/more/linked.png" in report.images.paths
    assert [item.path for item in report.skipped] == ["dog/dangling.png"]


def test_names_that_are_not_unicode_are_left_out(root):
    with open(os.fsencode(root / "dog") + b"/caf\xe9.png", "wb") as file:
        file.write((root / "dog" / "1.png").read_bytes())
    report = load_report(root, "all")
    assert len(report.images) == 30
    assert "UTF-8" in report.skipped[0].reason


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_folders_without_permission(root):
    (root / "dog").chmod(0)
    try:
        report = load_report(root, "all")
        assert report.skipped[0].path == "dog"
        assert report.images.class_names == ("2", "10")
    finally:
        (root / "dog").chmod(0o755)


def test_a_folder_that_may_be_listed_but_not_entered(root, monkeypatch):
    real = Path.is_dir

    def is_dir(path):
        if path.parent == root:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "is_dir", is_dir)
    with pytest.raises(HitNetError, match="cannot be read: Permission denied"):
        load(root)


def test_errors_say_what_is_wrong(tmp_path):
    with pytest.raises(HitNetError, match="holds no image in a class folder"):
        load(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.heic").write_bytes(b"x")
    with pytest.raises(HitNetError, match=r"found: 1 \.heic"):
        load(tmp_path)
    picture(tmp_path / "a" / "1.png")
    with pytest.raises(HitNetError, match="one class only, 'a'"):
        load(tmp_path)
    (tmp_path / "a" / "1.png").write_bytes(b"x")
    with pytest.raises(HitNetError, match=r"no image that can be read.*a/1\.png"):
        load(tmp_path)


def test_a_class_without_a_readable_image_is_no_class(root):
    (root / "cat").mkdir()
    (root / "cat" / "1.png").write_bytes(b"x")
    report = load_report(root, "all")
    assert report.images.class_names == ("2", "10", "dog")
    assert ("cat", "no image of this class can be read") in [(s.path, s.reason) for s in report.skipped]


def test_no_image_in_the_split(tmp_path):
    picture(tmp_path / "a" / "1.png")
    picture(tmp_path / "b" / "1.png")
    with pytest.raises(HitNetError, match=r"no test images\. .* class of two or more"):
        load(tmp_path, "test")
