"""Map-style data sets of PyTorch and torchvision."""

import gzip

import numpy as np
import pandas as pd
import pytest
import torch
import torchvision
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, Subset

from hitnet import open_data
from hitnet.data import Relabelling
from hitnet.errors import HitNetError
from toy import colour_images, toy_images, write_images, write_mnist

IMAGES = toy_images(12)


class Items(Dataset):
    """Items by functions of a row."""

    def __init__(self, image, label=lambda row: int(IMAGES.labels[row]), count=12, **attributes):
        self.image, self.label, self.count = image, label, count
        vars(self).update(attributes)

    def __len__(self):
        return self.count

    def __getitem__(self, row):
        if row >= self.count:
            raise IndexError
        return self.image(row), self.label(row)


def as_picture(row):
    return Image.fromarray(IMAGES.pixels[row, 0].numpy())


@pytest.mark.parametrize(
    "image",
    [
        as_picture,
        lambda row: IMAGES.pixels[row],
        lambda row: IMAGES.pixels[row, 0].numpy(),
        lambda row: IMAGES.pixels[row].permute(1, 2, 0).numpy(),
        lambda row: IMAGES.pixels[row] / 255,
    ],
)
def test_images_of_every_kind_are_read(image):
    images = open_data(Items(image, classes=list(IMAGES.class_names))).load("all")
    assert torch.equal(images.pixels, IMAGES.pixels)
    assert torch.equal(images.labels, IMAGES.labels)
    assert images.class_names == IMAGES.class_names
    assert images.name == "Items"


def test_colour_images_keep_their_channels():
    colours = colour_images(12)
    data = open_data(Items(lambda row: colours.pixels[row], lambda row: "ab"[row % 2]))
    assert torch.equal(data.load("all").pixels, colours.pixels)
    assert data.load("all").class_names == ("a", "b")


def test_labels_may_be_tensors_and_classes_unnamed():
    images = open_data(Items(as_picture, lambda row: IMAGES.labels[row])).load("all")
    assert images.class_names == ("0", "1", "2")


@pytest.mark.parametrize("classes", [{}, {"classes": ["0", "1", "2"]}])
@pytest.mark.parametrize("none", [-1, None, ""])
def test_items_without_a_label_are_left_out(classes, none):
    report = open_data(Items(as_picture, lambda row: row % 3 if row else none, **classes)).report("all")
    assert report.images.class_names == ("0", "1", "2")
    assert [(item.path, item.reason) for item in report.skipped] == [("0", "it has no label (empty or -1)")]


def test_several_data_sets_are_splits():
    data = open_data({"train": Items(as_picture), "test": Items(as_picture, count=6)})
    assert data.load("train").paths == tuple(f"train/{i}" for i in range(12))
    assert len(data.load("test")) == 6


def test_a_subset_has_the_classes_of_the_whole():
    whole = Items(as_picture, classes=["a", "b", "c"])
    images = open_data(Subset(whole, [1, 2, 4, 5])).load("all")
    assert images.class_names == ("b", "c")
    assert torch.equal(images.pixels, IMAGES.pixels[[1, 2, 4, 5]])


def test_torchvisions_folder_is_read_as_ours(tmp_path):
    folder = write_images(tmp_path / "bands", IMAGES)
    images = open_data(torchvision.datasets.ImageFolder(folder)).load("all")
    expected = open_data(folder).load("all")
    assert images.class_names == expected.class_names
    assert torch.equal(images.labels, expected.labels)
    assert torch.equal(images.pixels, torch.cat([expected.pixels] * 3, dim=1))  # torchvision's folder gives RGB


@pytest.mark.parametrize("part", [False, True])
def test_images_of_torchvisions_folder_have_the_names_of_their_files(tmp_path, part):
    folder = write_images(tmp_path / "bands", IMAGES)
    whole = torchvision.datasets.ImageFolder(folder)
    data = open_data({"train": Subset(whole, range(3, 12)) if part else whole, "test": whole})
    expected = open_data(folder).load("all").paths
    assert data.load("train").paths == tuple(f"train/{path}" for path in expected[3 if part else 0 :])
    assert data.load("test").paths == tuple(f"test/{path}" for path in expected)
    images = data.images_to_correct("all")
    relabelling = Relabelling(images, images.labels, list(range(5)), images.class_names)
    path, _ = data.write_corrected(relabelling, tmp_path / "new")
    assert torch.equal(open_data(path).load("all").pixels, data.load("all").pixels[:5, :1].repeat(1, 3, 1, 1))


class Duck:
    """Neither of PyTorch nor of Hugging Face."""

    def __len__(self):
        return 12

    def __getitem__(self, row):
        return IMAGES.pixels[row, 0].numpy(), int(IMAGES.labels[row])


@pytest.mark.parametrize("source", [Duck(), [Duck()[row] for row in range(12)], {"train": Duck(), "test": Duck()}])
def test_anything_with_a_length_and_items_is_read(source):
    images = open_data(source).load("train" if isinstance(source, dict) else "all")
    assert torch.equal(images.pixels, IMAGES.pixels)
    assert torch.equal(images.labels, IMAGES.labels)


def test_items_of_16_bits_and_of_floats_are_dark_where_they_are_dark():
    deep = Items(lambda row: np.full((4, 4), 257 * row, np.uint16))
    floats = Items(lambda row: Image.fromarray(np.full((4, 4), row / 255, np.float32)))
    for items in (deep, floats):
        assert open_data(items).load("all").pixels[:, 0, 0, 0].tolist() == list(range(12))


def test_torchvisions_mnist_is_read(tmp_path):
    write_mnist(tmp_path / "MNIST" / "raw", toy_images(30, shape=(1, 28, 28)))
    for packed in (tmp_path / "MNIST" / "raw").glob("*.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
    sets = {}
    for split, train in (("train", True), ("test", False)):
        sets[split] = torchvision.datasets.MNIST(tmp_path, train=train, transform=torchvision.transforms.ToTensor())
    images = open_data(sets).load("train")
    assert torch.equal(images.pixels, toy_images(30, shape=(1, 28, 28)).pixels)
    assert images.class_names == ("0 - zero", "1 - one", "2 - two")


def test_labels_with_a_transform_are_read_from_the_items():
    items = Items(as_picture, targets=[9] * 12, target_transform=lambda value: value)
    assert open_data(items).load("all").class_names == ("0", "1", "2")
    assert open_data(Items(as_picture, targets=torch.arange(12) % 2)).load("all").class_names == ("0", "1")


def test_a_corrected_copy_is_a_folder_of_png_files(tmp_path):
    data = open_data({"train": Items(as_picture), "test": Items(as_picture, count=6)})
    images = data.images_to_correct("all")
    labels = images.labels.clone()
    labels[0] = 2
    relabelling = Relabelling(images, labels, list(range(17)), images.class_names)
    path, note = data.write_corrected(relabelling, tmp_path / "new")
    assert "PNG" in note
    assert (tmp_path / "new" / "train" / "2" / "0.png").is_file()
    corrected = open_data(path)
    assert (len(corrected.load("train")), len(corrected.load("test"))) == (12, 5)
    saved = np.asarray(Image.open(tmp_path / "new" / "train" / "2" / "0.png"))
    assert np.array_equal(saved, IMAGES.pixels[0, 0].numpy())


def test_the_users_pictures_stay_open():
    kept = [as_picture(row).convert("RGBA") for row in range(12)]
    open_data(Items(lambda row: kept[row])).load("all")
    assert kept[0].getpixel((0, 0))[3] == 255


class Endless(IterableDataset):
    def __iter__(self):
        yield as_picture(0), 0


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Endless(), "cannot be opened from Endless"),
        (Items(as_picture, lambda row: [0, 1]), "a label must be a number or a text; got list"),
        (Items(as_picture, classes=["a", "b"]), "label 2 is none of its 2 classes"),
        (Items(lambda row: "x.png"), "it must be a picture of Pillow, a tensor or an array; got str"),
        (Items(lambda row: torch.zeros(2, 3, 4, 5)), r"got \(2, 3, 4, 5\)"),
        (Items(lambda row: torch.full((1, 4, 4), 2.5)), "outside 0 to 1; leave out transforms that normalise"),
        ({}, "cannot be opened from dict"),
        ({"train": "x"}, "cannot be opened from dict"),
        (pd.DataFrame({"a": [1]}), "cannot be opened from DataFrame"),
        (np.zeros((4, 5, 5)), r"an item must be \(image, label, …\); got ndarray"),
    ],
)
def test_odd_data_sets_are_refused_in_words(source, message):
    with pytest.raises(HitNetError, match=message):
        open_data(source).load("all")


def test_items_must_be_pairs():
    class Single(Items):
        def __getitem__(self, row):
            return as_picture(row)

    with pytest.raises(HitNetError, match=r"an item must be \(image, label"):
        open_data(Single(as_picture)).load("all")


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "HSV", "LAB"])
def test_pictures_of_other_colour_spaces_are_read(mode):
    colours = colour_images(12)

    def picture(row):
        image = Image.fromarray(colours.pixels[row].permute(1, 2, 0).numpy())
        return Image.new("LAB", image.size, (200 - row, 130, 130)) if mode == "LAB" else image.convert(mode)

    images = open_data(Items(picture, lambda row: "ab"[row % 2])).load("all")
    assert images.pixels.shape == colours.pixels.shape
    if mode != "LAB":
        assert (images.pixels.float() - colours.pixels.float()).abs().mean() < 4
