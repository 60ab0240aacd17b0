import io
import zipfile

import numpy as np
import pytest
import torch

from hitnet.data import Images, Relabelling, open_data, save_npz
from hitnet.errors import HitNetError


def arrays(count=10, **changed):
    images = np.random.default_rng(0).integers(0, 256, (count, 5, 6), dtype=np.uint8)
    return {"images": images, "labels": np.arange(count) % 2, **changed}


@pytest.mark.parametrize("paths", [None, [f"{i}.png" for i in range(10)]])
def test_round_trip(tmp_path, paths):
    pixels = torch.randint(0, 256, (10, 3, 4, 4), dtype=torch.uint8)
    labels = torch.arange(10) % 3
    names = ["zebra", "ant", "mule", "none"]
    images = Images.from_arrays(pixels, labels, class_names=names, name="zoo", flip=True, paths=paths)
    images = images.select([7, 1, 2, 5, 4])
    save_npz(images, tmp_path / "zoo.npz")
    back = open_data(tmp_path / "zoo.npz").load("all")
    for field in ("pixels", "labels", "ids"):
        assert torch.equal(getattr(back, field), getattr(images, field))
    for field in ("class_names", "name", "paths", "flip"):
        assert getattr(back, field) == getattr(images, field)


def test_arrays_may_be_read_backwards():
    """Photographs of OpenCV are BGR: their channels are often turned around without a copy."""
    bgr = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    images = Images.from_arrays(bgr[..., ::-1], np.array([1, 0])[::-1])
    assert images.labels.tolist() == [0, 1]
    assert np.array_equal(images.pixels.numpy(), np.stack([bgr[..., 2], bgr[..., 1], bgr[..., 0]], axis=1))


def test_splits(tmp_path):
    images = Images.from_arrays(np.zeros((4, 3, 3), np.uint8), [0, 1, 0, 1])
    save_npz(images, tmp_path / "x.npz", split=["train", "test", "train", "train"])
    assert open_data(tmp_path / "x.npz").load().ids.tolist() == [0, 2, 3]
    assert open_data(tmp_path / "x.npz").load("test").ids.tolist() == [1]
    with pytest.raises(HitNetError, match="4 images but 1 splits"):
        save_npz(images, tmp_path / "x.npz", split=["train"])
    with pytest.raises(HitNetError, match=r"ends in \.npz"):
        save_npz(images, tmp_path / "x.zip")


def test_without_splits_a_fifth_tests(tmp_path):
    np.savez(tmp_path / "x.npz", **arrays(100))
    train, test = open_data(tmp_path / "x.npz").load(), open_data(tmp_path / "x.npz").load("test")
    assert torch.bincount(test.labels).tolist() == [10, 10]
    assert sorted(train.ids.tolist() + test.ids.tolist()) == list(range(100))


def test_pairs(tmp_path):
    x = arrays(6)["images"]
    np.savez(tmp_path / "x.npz", x_train=x[:4], y_train=[[1], [0], [1], [5]], x_test=x[4:], y_test=[0, 1])
    train, test = open_data(tmp_path / "x.npz").load(), open_data(tmp_path / "x.npz").load("test")
    assert train.class_names == test.class_names == ("0", "1", "5")
    assert train.labels.tolist() == [1, 0, 1, 2]
    assert test.ids.tolist() == [4, 5]
    assert (test.pixels[:, 0].numpy() == x[4:]).all()


def test_the_names_of_scikit_learn(tmp_path):
    content = arrays(6)
    np.savez(tmp_path / "x.npz", X=content["images"], y=content["labels"], other=np.zeros(3))
    images = open_data(tmp_path / "x.npz").load("all")
    assert np.array_equal(images.pixels[:, 0].numpy(), content["images"])
    assert images.labels.tolist() == content["labels"].tolist()


@pytest.mark.parametrize(
    ("images", "pixel"),
    [
        (np.array([[[0, 300]], [[65_535, 32_896]]], np.uint16).repeat(3, 1).repeat(3, 2), 1),
        (np.full((2, 4, 4), 200, np.uint16), 200),
        (np.full((2, 4, 4), 0.5, np.float32), 128),
        (np.full((2, 4, 4), 77, np.int64), 77),
        (np.ones((2, 4, 4), bool), 255),
        (np.full((2, 4, 5, 3), 9, np.uint8), 9),
    ],
)
def test_kinds_of_images(tmp_path, images, pixel):
    np.savez(tmp_path / "x.npz", images=images, labels=[0, 1])
    read = open_data(tmp_path / "x.npz").load("all")
    assert read.shape == ((3, 4, 5) if images.ndim == 4 else (1, *images.shape[1:]))
    assert int(read.pixels[0, 0, -1, -1]) == pixel


def test_labels_may_be_names(tmp_path):
    np.savez(tmp_path / "x.npz", **arrays(3, labels=np.array(["dog", "10", "9"])))
    assert open_data(tmp_path / "x.npz").load("all").class_names == ("9", "10", "dog")
    np.savez(tmp_path / "x.npz", **arrays(2, labels=np.array(["b", "a"]), class_names=np.array(["c", "b", "a"])))
    assert open_data(tmp_path / "x.npz").load("all").labels.tolist() == [1, 2]


@pytest.mark.parametrize(
    "labels",
    [
        {"labels": np.array([0, -1, 1, 0, -1, 1])},
        {"labels": np.array([0, -1, 1, 0, -1, 1]), "class_names": ["0", "1"]},
        {"labels": np.array(["0", "-1", "1", "0", "", "1"])},
    ],
)
def test_images_without_a_label_are_left_out(tmp_path, caplog, labels):
    splits = ["train", "train", "test", "train", "test", "train"]
    content = arrays(6, **labels, masks=np.arange(6 * 30).reshape(6, 5, 6) % 7)
    np.savez(tmp_path / "x.npz", **content, split=splits)
    data = open_data(tmp_path / "x.npz")
    report = data.report("all")
    assert (report.images.class_names, report.images.labels.tolist()) == (("0", "1"), [0, 1, 0, 1])
    assert report.images.ids.tolist() == [0, 2, 3, 5]
    assert (report.images.pixels[:, 0].numpy() == content["images"][[0, 2, 3, 5]]).all()
    assert report.images.masks.ne(0).sum().item() == (content["masks"][[0, 2, 3, 5]] != 0).sum()
    assert [(item.path, item.reason) for item in report.skipped] == [
        ("image 1", "it has no label (empty or -1)"),
        ("image 4", "it has no label (empty or -1)"),
    ]
    assert not data.check().sound
    train, test = data.image_sets(["train", "test"], lambda: 0)
    assert (train.ids.tolist(), test.ids.tolist()) == ([0, 3, 5], [2])
    assert caplog.text.count("image 4") == 1
    with pytest.raises(HitNetError, match=r"x: image 1: it has no label \(empty or -1\)\. Fix or remove it"):
        open_data(tmp_path / "x.npz", strict=True).load()


def test_a_corrected_copy_says_that_images_without_a_label_are_missing(tmp_path):
    np.savez(tmp_path / "x.npz", **arrays(6, labels=np.array([0, -1, 1, 0, -1, 1])))
    data = open_data(tmp_path / "x.npz", strict=True)
    images = data.images_to_correct("all")
    relabelling = Relabelling(images, torch.tensor([1, 1, 0, 1]), [0, 1, 2, 3], images.class_names)
    path, note = data.write_corrected(relabelling, tmp_path / "out")
    assert note == "images without a label, which the copy does not have: 2"
    assert open_data(path).load("all").labels.tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"data": np.zeros(3), "other": np.zeros(2)}, r"must hold .*images, labels, or X, y; it holds data, other"),
        (arrays(images=np.zeros((10, 4))), "images must be"),
        (arrays(images=np.zeros((0, 4, 4)), labels=np.zeros(0, int)), r"holds no images: .* shape \(0, 4, 4\)"),
        (arrays(images=np.full((10, 4, 4), 1.5)), "from 1.5 to 1.5"),
        (arrays(images=np.full((10, 4, 4), np.nan)), "nan"),
        (arrays(images=np.full((10, 4, 4), -1)), "from -1"),
        (arrays(images=np.full((10, 4, 4), "x")), "must be numbers"),
        (arrays(images=np.zeros((10, 4, 4, 2), np.uint8)), "1 or 3"),
        (arrays(labels=np.eye(10)), "argmax"),
        (arrays(labels=np.zeros(10)), "whole numbers or names; got float64"),
        (arrays(labels=np.arange(9)), "10 images but 9 labels"),
        (arrays(split=["train"] * 9), "10 images but 9 splits"),
        (arrays(split=["holdout"] * 10), "unknown split"),
        (arrays(labels=np.array([-1, 1] * 5)), "at least two classes.*empty or -1 have none"),
        (arrays(labels=np.arange(10) - 2, class_names=list("abcdefgh")), "run from -2 to 7"),
        (arrays(class_names=["a"]), "run from 0 to 1 but there are 1"),
        (arrays(class_names=["a", "a"]), "name of its own"),
        (arrays(labels=np.zeros(10, int)), "at least two classes"),
        (arrays(labels=np.array(["q"] * 10), class_names=["a", "b"]), "'q' is not one of"),
        (arrays(ids=np.zeros(10)), "ids must be whole"),
        (arrays(ids=np.arange(9)), "9 ids"),
        (arrays(paths=["x"]), "1 paths"),
        (arrays(labels=np.array([0, 1] * 5, object)), "Python objects"),
    ],
)
def test_errors_say_what_is_wrong(tmp_path, content, says):
    np.savez(tmp_path / "x.npz", **content)
    with pytest.raises(HitNetError, match=says):
        open_data(tmp_path / "x.npz").load()


def npy(shape, data):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return out.getvalue() + data


@pytest.mark.parametrize("shape", [(2**20, 2**10, 2**10), (10**6, 2, 2)])
def test_headers_that_lie(tmp_path, shape):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("images.npy", npy(shape, b"few"))
        archive.writestr("labels.npy", npy((3,), b"abc"))
    with pytest.raises(HitNetError, match="claims"):
        open_data(tmp_path / "x.npz").load()


def test_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("hitnet.data.reading.array_files.LARGEST", 1000)
    np.savez_compressed(tmp_path / "x.npz", images=np.zeros((2, 50, 50), np.uint8), labels=[0, 1])
    with pytest.raises(HitNetError, match="more than 1,000"):
        open_data(tmp_path / "x.npz").load()


def test_damaged_files(tmp_path):
    np.savez(tmp_path / "whole.npz", **arrays())
    whole = (tmp_path / "whole.npz").read_bytes()
    for content in (b"", b"no zip", whole[: len(whole) // 2], whole[:60] + b"!!!!" + whole[64:]):
        (tmp_path / "x.npz").write_bytes(content)
        with pytest.raises(HitNetError, match=r"x\.npz is not a readable"):
            open_data(tmp_path / "x.npz").load()
