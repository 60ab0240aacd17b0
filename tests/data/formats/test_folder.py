import logging
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hitnet.data import open_data
from hitnet.data.reading.entries import list_ignored
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
    images = open_data(root).load("all")
    assert images.class_names == ("2", "10", "dog")
    assert images.labels.tolist() == [0] * 10 + [1] * 10 + [2] * 10
    assert images.ids.tolist() == list(range(30))
    assert images.paths[10] == "10/0.png"
    assert images.pixels[:, 0, 0, 0].tolist() == [50 * k + i for k in range(3) for i in range(10)]
    assert (images.name, images.flip, images.shape) == ("set", False, (1, 8, 8))


def test_fixed_split(root):
    train, test = open_data(root).load(), open_data(root).load("test")
    assert torch.bincount(train.labels).tolist() == [8, 8, 8]
    assert torch.bincount(test.labels).tolist() == [2, 2, 2]
    assert sorted(train.ids.tolist() + test.ids.tolist()) == list(range(30))
    assert train.class_names == test.class_names
    again = open_data(root).load("test")
    assert torch.equal(again.ids, test.ids)
    moved = shutil.copytree(root, root.parent / "elsewhere")
    assert open_data(moved).load("test").paths == test.paths


@pytest.mark.parametrize("other", ["test", "val", "Validation"])
def test_given_splits(tmp_path, other):
    for label in ("a", "b"):
        picture(tmp_path / "train" / label / "1.png")
        picture(tmp_path / "train" / label / "2.png")
    picture(tmp_path / other / "b" / "3.png")
    assert open_data(tmp_path).load().paths == ("train/a/1.png", "train/a/2.png", "train/b/1.png", "train/b/2.png")
    test = open_data(tmp_path).load("test")
    assert test.paths == (f"{other}/b/3.png",)
    assert test.class_names == ("a", "b")
    assert test.labels.tolist() == [1]


def test_validation_beside_test_is_in_all_alone(tmp_path):
    for split in ("train", "val", "test"):
        for label in ("a", "b"):
            picture(tmp_path / split / label / "1.png")
    assert open_data(tmp_path).load().paths == ("train/a/1.png", "train/b/1.png")
    assert open_data(tmp_path).load("test").paths == ("test/a/1.png", "test/b/1.png")
    assert len(open_data(tmp_path).load("all")) == 6


def test_a_split_of_an_unknown_name_is_told(tmp_path, caplog):
    for split in ("holdout", "train"):
        for label in ("a", "b"):
            picture(tmp_path / split / label / "1.png")
    assert open_data(tmp_path).load("all").class_names == ("holdout", "train")
    assert "holdout, train are taken as classes. If they are splits, call them train and test." in caplog.text


def test_train_and_test_may_be_classes(tmp_path):
    picture(tmp_path / "train" / "1.png")
    picture(tmp_path / "test" / "1.png")
    assert open_data(tmp_path).load("all").class_names == ("test", "train")


def test_a_folder_beside_train_and_test_is_left_out(tmp_path):
    for split in ("train", "val"):
        for label in ("a", "b"):
            picture(tmp_path / split / label / "1.png")
    picture(tmp_path / "unlabelled" / "1.png")
    report = open_data(tmp_path).report("all")
    assert report.images.class_names == ("a", "b")
    assert [item.path for item in report.skipped] == ["unlabelled"]
    assert "train and val" in report.skipped[0].reason


@pytest.mark.parametrize("other", ["bus", "test"])
def test_a_class_named_train_may_hold_folders(tmp_path, other):
    picture(tmp_path / "train" / "steam" / "1.png")
    picture(tmp_path / "car" / "1.png")
    picture(tmp_path / other / "1.png")
    assert set(open_data(tmp_path).load("all").class_names) == {"train", "car", other}


def test_nested_hidden_and_other_files(root):
    picture(root / "dog" / "deep" / "down" / "x.PNG")
    picture(root / "dog" / ".hidden.png")
    picture(root / "dog" / ".cache" / "x.png")
    picture(root / ".git" / "x.png")
    (root / "dog" / "notes.txt").write_text("hello")
    (root / "readme.md").write_text("hello")
    report = open_data(root).report("all")
    assert len(report.images) == 31
    assert "dog/deep/down/x.PNG" in report.images.paths
    assert report.skipped == ()
    assert report.ignored == {".txt": 1}


@pytest.fixture
def phone(root):
    """The three classes, with pictures of types that are not read, one image beside the class folders, and others."""
    for i in range(5):
        (root / "dog" / f"{i}.JXL").write_bytes(b"x")
    (root / "10" / "scan.jp2").write_bytes(b"x")
    picture(root / "stray.png")
    for name in ("notes.txt", "labels.json", "Thumbs.db", ".DS_Store", "raw"):
        (root / "dog" / name).write_bytes(b"x")
    (root / "readme.md").write_text("hello")
    return root


IGNORED = {".txt": 1, ".json": 1, ".db": 1, "without suffix": 1}


def test_pictures_that_are_not_read_are_left_out_and_others_ignored(phone, caplog):
    report = open_data(phone).report("all")
    assert len(report.images) == 30
    assert [(item.path, item.reason) for item in report.skipped] == [
        ("stray.png", "it lies outside the class folders"),
        ("10/scan.jp2", "images of type .jp2 are not read; convert it to PNG or JPEG"),
        *((f"dog/{i}.JXL", "images of type .jxl are not read; convert it to PNG or JPEG") for i in range(5)),
    ]
    assert report.ignored == IGNORED
    with caplog.at_level(logging.INFO, "hitnet"):
        open_data(phone).load("all")
    assert "left out 7:\n  stray.png: it lies outside" in caplog.text
    assert f"set: ignored: {list_ignored(IGNORED)}\n" in caplog.text
    with pytest.raises(HitNetError, match=r"stray\.png: it lies outside the class folders\. Fix or remove it"):
        open_data(phone, strict=True).load()
    (phone / "stray.png").unlink()
    with pytest.raises(HitNetError, match=r"10/scan\.jp2: images of type \.jp2 are not read; convert it"):
        open_data(phone, strict=True).load()


def test_what_was_list_ignored():
    assert list_ignored({".db": 1, ".txt": 3, "without suffix": 2}) == "3 .txt, 2 without suffix, 1 .db"
    numbered = {f".{i:03}": 1 for i in range(500)}
    assert list_ignored(numbered).endswith("1 .009, 490 of other types")


@pytest.mark.parametrize("streamed", [True, False])
def test_what_was_ignored_is_told_once(phone, caplog, streamed):
    with caplog.at_level(logging.INFO, "hitnet"):
        open_data(phone, stream=streamed).image_sets(["train", "test"], lambda: 0)
    assert caplog.text.count("ignored: ") == 1
    assert caplog.text.count("stray.png") == 1


def test_ordinary_files_do_not_matter(root, caplog):
    for name in ("notes.txt", "Thumbs.db", ".DS_Store"):
        (root / "dog" / name).write_bytes(b"x")
        (root / name).write_bytes(b"x")
    with caplog.at_level(logging.INFO, "hitnet"):
        assert len(open_data(root, strict=True).load("all")) == 30
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "set: ignored: 1 .db, 1 .txt")
    ]


def test_images_beside_the_classes_of_a_split_are_left_out(tmp_path):
    for split in ("train", "test"):
        for label in ("a", "b"):
            picture(tmp_path / split / label / "1.png")
    for name in ("1.png", "train/2.png", "train/10.jxl", ".hidden.png"):
        (tmp_path / name).write_bytes(b"x")
    report = open_data(tmp_path).report("all")
    assert [item.path for item in report.skipped] == ["1.png", "train/2.png", "train/10.jxl"]
    assert report.ignored == {}


def test_a_class_of_pictures_that_are_not_read_is_named(root):
    (root / "cat").mkdir()
    (root / "cat" / "1.jxl").write_bytes(b"x")
    report = open_data(root).report("all")
    assert [(item.path, item.reason.split(";")[0]) for item in report.skipped] == [
        ("cat/1.jxl", "images of type .jxl are not read"),
        ("cat", "the class folder holds no image that can be read"),
    ]


def test_names_of_what_is_ignored_can_be_printed(root):
    for name in (b"dog/caf\xe9.jxl", b"dog/x.caf\xe9", b"caf\xe9.png"):
        open(os.path.join(os.fsencode(root), name), "wb").close()
    report = open_data(root).report("all")
    assert [item.path for item in report.skipped] == ["caf\ufffd.png", "dog/caf\ufffd.jxl"]
    assert list_ignored(report.ignored) == "1 .caf\ufffd"


def test_odd_files_are_left_out_and_named(root, caplog):
    (root / "2" / "0.png").write_bytes(b"no image")
    (root / "2" / "1.png").write_bytes(b"")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8), np.uint8)).save(root / "2" / "2.png")
    (root / "2" / "2.png").write_bytes((root / "2" / "2.png").read_bytes()[:70])
    os.mkfifo(root / "2" / "pipe.png")
    (root / "empty").mkdir()
    report = open_data(root).report("all")
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
        open_data(root).load("all")
    assert "left out 5" in caplog.text
    assert "2/1.png: it is empty" in caplog.text


def test_the_warning_names_ten(root, caplog):
    for i in range(25):
        (root / "dog" / f"bad{i}.png").write_bytes(b"")
    open_data(root).load("all")
    assert caplog.text.count("it is empty") == 10
    assert "and 15 more" in caplog.text


def test_strict_stops(root):
    (root / "10" / "3.png").write_bytes(b"no image")
    with pytest.raises(HitNetError, match=r"10/3\.png: it is not an image"):
        open_data(root, strict=True).load()


def test_strict_stops_at_damaged_pixels(root):
    path = root / "10" / "3.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(HitNetError, match=r"10/3\.jpg: it is damaged"):
        open_data(root, strict=True).load("all")


def test_grey_and_colour(root):
    assert open_data(root).load().shape[0] == 1
    picture(root / "dog" / "red.png", mode="RGB", value=200)
    images = open_data(root).load("all")
    assert images.shape[0] == 3
    red = images.paths.index("dog/red.png")
    assert images.pixels[red, :, 0, 0].tolist() == [200, 0, 0]
    assert images.pixels[1, :, 0, 0].tolist() == [1, 1, 1]
    # A split without the only colour image has three channels too.
    assert open_data(root).load("test").shape == open_data(root).load("train").shape


def test_the_commonest_size_counts(root, caplog):
    picture(root / "dog" / "big.png", size=(30, 15), value=255)
    with caplog.at_level(logging.INFO, "hitnet"):
        images = open_data(root).load("all")
    assert images.shape == (1, 8, 8)
    assert "read at 8 x 8" in caplog.text
    assert "1 of 31 have another size" in caplog.text
    big = images.pixels[images.paths.index("dog/big.png"), 0]
    assert big[:, 0].tolist() == [0, 0, 255, 255, 255, 255, 0, 0]


def test_the_commonest_size_is_that_of_more_than_half(tmp_path):
    for name, size in {"a/1": (20, 10), "a/2": (20, 10), "b/1": (40, 30), "b/2": (40, 32)}.items():
        picture(tmp_path / f"{name}.png", size=size)
    assert open_data(tmp_path).load("all").shape == (1, 20, 30)
    picture(tmp_path / "a" / "3.png", size=(20, 10))
    assert open_data(tmp_path).load("all").shape == (1, 10, 20)


def test_images_of_all_sizes_are_read_at_the_median(tmp_path, caplog):
    for i in range(11):
        picture(tmp_path / "ab"[i % 2] / f"{i}.jpg", size=(400 + 10 * i, 200 + 7 * i))
    for i in range(2):
        picture(tmp_path / "ab"[i] / "thumbnail.png", size=(12, 12))
    with caplog.at_level(logging.INFO, "hitnet"):
        images = open_data(tmp_path).load("all")
    assert images.shape == (1, 33, 64)  # 228 x 440, the seventh of thirteen
    assert "images are read at 33 x 64 (height x width); 13 of 13 have another size" in caplog.text
    assert open_data(tmp_path).load().shape == open_data(tmp_path).load("test").shape == images.shape
    assert open_data(tmp_path, image_size=12).load("all").shape == (1, 12, 12)
    [streamed] = open_data(tmp_path, stream=True).image_sets(["all"], lambda: 0)
    assert streamed.shape == images.shape
    table = tmp_path / "table.csv"
    table.write_text("path,label\n" + "".join(f"{path},{path[0]}\n" for path in images.paths))
    assert open_data(table).load("all").shape == images.shape


def test_upright_and_lying_photographs_meet_in_a_square(tmp_path):
    for i in range(4):
        picture(tmp_path / "a" / f"{i}.jpg", size=(300, 200))
        picture(tmp_path / "b" / f"{i}.jpg", size=(200, 300))
    assert open_data(tmp_path).load().shape == (1, 64, 64)


def test_small_images_of_mixed_sizes_are_not_enlarged(tmp_path):
    for i in range(5):
        picture(tmp_path / "ab"[i % 2] / f"{i}.png", size=(10 + i, 20 + i))
    assert open_data(tmp_path).load().shape == (1, 22, 12)


def test_large_images_become_64_at_most(tmp_path):
    for label in ("a", "b"):
        for i in range(3):
            picture(tmp_path / label / f"{i}.jpg", size=(200, 100))
    assert open_data(tmp_path).load().shape == (1, 32, 64)
    assert open_data(tmp_path, image_size=20).load().shape == (1, 20, 20)
    assert open_data(tmp_path, image_size=(10, 24)).load().shape == (1, 10, 24)


def test_a_limit_draws_from_all_classes(root):
    images = open_data(root, limit=12).load("all")
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
    report = open_data(root).report("all")
    assert len(report.images) == 31
    assert "dog/more/linked.png" in report.images.paths
    assert [item.path for item in report.skipped] == ["dog/dangling.png"]


def test_names_that_are_not_unicode_are_left_out(root):
    with open(os.fsencode(root / "dog") + b"/caf\xe9.png", "wb") as file:
        file.write((root / "dog" / "1.png").read_bytes())
    report = open_data(root).report("all")
    assert len(report.images) == 30
    assert "UTF-8" in report.skipped[0].reason


@pytest.mark.skipif(os.geteuid() == 0, reason="root can read every folder: run the tests as another user")
def test_folders_without_permission(root):
    (root / "dog").chmod(0)
    try:
        report = open_data(root).report("all")
        assert report.skipped[0].path == "dog"
        assert report.images.class_names == ("2", "10")
    finally:
        (root / "dog").chmod(0o755)


def test_a_folder_that_may_not_be_listed(root, monkeypatch):
    def scandir(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(HitNetError, match="cannot be read: Permission denied"):
        open_data(root).load()


def test_a_folder_that_may_be_listed_but_not_entered(root, monkeypatch):
    real = os.scandir

    def scandir(path):
        if Path(path) != root:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    message = r"holds no image .* Left out: 3, the first 2: the folder cannot be read \(Permission denied\)"
    with pytest.raises(HitNetError, match=message):
        open_data(root).load()


def test_errors_say_what_is_wrong(tmp_path):
    with pytest.raises(HitNetError, match="holds no image in a class folder"):
        open_data(tmp_path).load()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jxl").write_bytes(b"x")
    with pytest.raises(HitNetError, match=r"Left out: 2, the first a/x\.jxl: images of type \.jxl are not read"):
        open_data(tmp_path).load()
    picture(tmp_path / "a" / "1.png")
    with pytest.raises(HitNetError, match="only one class, 'a'"):
        open_data(tmp_path).load()
    (tmp_path / "a" / "x.jxl").unlink()
    (tmp_path / "a" / "1.png").write_bytes(b"x")
    with pytest.raises(HitNetError, match=r"no readable image.*a/1\.png"):
        open_data(tmp_path).load()


def test_an_extra_folder_around_the_classes_is_told(tmp_path):
    picture(tmp_path / "photos" / "a" / "1.png")
    picture(tmp_path / "photos" / "b" / "deep" / "1.png")
    message = rf"only one class, 'photos'; .* the folders in it \(a, b\) are the classes, give {tmp_path / 'photos'}\.$"
    with pytest.raises(HitNetError, match=message):
        open_data(tmp_path).load()
    picture(tmp_path / "photos" / "1.png")
    with pytest.raises(HitNetError, match=r"only one class, 'photos'; at least two are needed\.$"):
        open_data(tmp_path).load()


def test_errors_name_what_was_left_out_and_ignored(tmp_path):
    picture(tmp_path / "1.png")
    picture(tmp_path / "2.png")
    with pytest.raises(
        HitNetError, match=r"no image in a class folder\..* Left out: 2, the first 1\.png: it lies outside"
    ):
        open_data(tmp_path).load()
    picture(tmp_path / "a" / "1.png")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "1.jxl").write_bytes(b"x")
    (tmp_path / "b" / "1.txt").write_bytes(b"x")
    with pytest.raises(
        HitNetError, match=r"only one class, 'a'; .* Left out: 4, the first 1\.png: .*\. Ignored: 1 \.txt\.$"
    ):
        open_data(tmp_path).load()


def test_a_class_without_a_readable_image_is_no_class(root):
    (root / "cat").mkdir()
    (root / "cat" / "1.png").write_bytes(b"x")
    report = open_data(root).report("all")
    assert report.images.class_names == ("2", "10", "dog")
    assert ("cat", "no image of this class can be read") in [(s.path, s.reason) for s in report.skipped]


@pytest.mark.parametrize("split", ["train", "test", "all"])
def test_a_class_whose_images_cannot_be_decoded_is_no_class(root, split):
    for name in ("1.png", "2.png", "3.png"):
        picture(root / "zebra" / name)
        (root / "zebra" / name).write_bytes((root / "zebra" / name).read_bytes()[:45])
    report = open_data(root).report(split)
    assert report.images.class_names == ("2", "10", "dog")
    assert [(item.path, item.reason.split(" (")[0]) for item in report.skipped] == [
        *((f"zebra/{i}.png", "it is damaged") for i in (1, 2, 3)),
        ("zebra", "no image of this class can be read"),
    ]
    picture(root / "zebra" / "4.png")
    report = open_data(root).report("all")
    assert report.images.class_names == ("2", "10", "dog", "zebra")
    assert report.images.labels.bincount().tolist() == [10, 10, 10, 1]
    assert [item.path for item in report.skipped] == ["zebra/1.png", "zebra/2.png", "zebra/3.png"]


def test_no_image_in_the_split(tmp_path):
    picture(tmp_path / "a" / "1.png")
    picture(tmp_path / "b" / "1.png")
    with pytest.raises(HitNetError, match=r"no test images\. .* class of two or more"):
        open_data(tmp_path).load("test")
