"""Hugging Face's data sets: opened from memory and from disk, corrected with all their columns."""

import io
import sys

import datasets
import numpy as np
import pytest
import torch
from PIL import Image

import hitnet
from hitnet import Judges, open_data
from hitnet.data import Relabelling
from hitnet.data.reading.stored import StoredFile
from hitnet.errors import HitNetError
from hitnet.models.backbones import open_backbone
from hitnet.review.server import open_review
from toy import TinyBackbone, colour_images, toy_images, write_images

datasets.disable_progress_bars()
NAMES = ["band 0", "band 1", "band 2"]


def pictures(count):
    return [Image.fromarray(row[0].numpy()) for row in toy_images(count).pixels]


def dataset_of(count=12, **columns):
    images = toy_images(count)
    features = datasets.Features(
        {"note": datasets.Value("string"), "image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)}
    )
    rows = {"note": [f"note {i}" for i in range(count)], "image": pictures(count), "label": images.labels.tolist()}
    return datasets.Dataset.from_dict({**rows, **columns}, features=features)


def test_images_labels_and_classes_are_those_of_the_data_set():
    images = open_data(dataset_of()).load("all")
    expected = toy_images(12)
    assert images.class_names == tuple(NAMES)
    assert torch.equal(images.labels, expected.labels)
    assert torch.equal(images.pixels, expected.pixels)
    assert images.paths == tuple(str(i) for i in range(12))


def test_the_format_of_a_data_set_does_not_matter():
    images = open_data(dataset_of().with_format("numpy")).load("all")
    assert torch.equal(images.pixels, toy_images(12).pixels)


def test_splits_are_kept():
    both = datasets.DatasetDict({"train": dataset_of(9), "validation": dataset_of(6)})
    data = open_data(both)
    assert data.load("train").paths == tuple(f"train/{i}" for i in range(9))
    assert data.load("test").paths == tuple(f"validation/{i}" for i in range(6))


def test_without_splits_a_fifth_is_for_testing():
    data = open_data(dataset_of(30))
    train, test = data.load("train"), data.load("test")
    assert (len(train), len(test)) == (24, 6)
    assert {*train.paths, *test.paths} == {str(i) for i in range(30)}


def test_an_imagefolder_is_read_as_the_folder_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    folder = write_images(tmp_path / "bands", toy_images(12))
    loaded = datasets.load_dataset(
        "imagefolder", data_dir=str(folder), cache_dir=str(tmp_path / "cache"), split="train"
    )
    images, expected = open_data(loaded).load("all"), open_data(folder).load("all")
    assert images.class_names == expected.class_names
    assert torch.equal(images.pixels, expected.pixels)
    assert torch.equal(images.labels, expected.labels)
    assert images.name == "imagefolder"


def test_a_saved_data_set_is_opened_by_its_path(tmp_path):
    for name, content in {"one": dataset_of(), "two": datasets.DatasetDict({"train": dataset_of()})}.items():
        content.save_to_disk(tmp_path / name)
        data = open_data(tmp_path / name)
        assert (data.name, data.address) == (name, str(tmp_path / name))
        assert torch.equal(data.load("all").pixels, toy_images(12).pixels)


@pytest.mark.parametrize(
    "labels", [["3", "7", ""], ["3", "7", None], [3, 7, None], [3, 7, -1], [3.0, 7.0, None], [3.0, 7.0, np.nan]]
)
def test_labels_may_be_texts_or_numbers_and_may_be_missing(labels, tmp_path):
    dataset = dataset_of().remove_columns("label").add_column("label", labels * 4)
    data = open_data(dataset)
    report = data.report("all")
    assert report.images.class_names == ("3", "7")
    assert [(item.path, item.reason) for item in report.skipped] == [
        (str(i), "it has no label (empty or -1)") for i in range(2, 12, 3)
    ]
    images = data.images_to_correct("all")
    relabelling = Relabelling(images, torch.ones(8, dtype=torch.long), list(range(8)), ("3", "7"))
    path, _ = data.write_corrected(relabelling, tmp_path / "corrected")
    corrected = datasets.load_from_disk(path)
    assert corrected.features["label"] == dataset.features["label"]
    assert [label for i, label in enumerate(corrected["label"]) if i % 3 < 2] == [labels[1]] * 8


def test_rows_that_hold_no_picture_are_left_out():
    content = io.BytesIO()
    pictures(1)[0].save(content, "PNG")
    odd = [{"bytes": b"no picture", "path": None}, {"bytes": None, "path": None}, None]
    cells = [{"bytes": content.getvalue(), "path": None}] * 9 + odd
    dataset = dataset_of().cast_column("image", datasets.Image(decode=False))
    broken = dataset.remove_columns("image").add_column("image", cells, feature=datasets.Image())
    report = open_data(broken).report("all")
    assert [(item.path, item.reason) for item in report.skipped] == [
        ("9", "it is not an image, or of a kind that is not read"),
        ("10", "it has no image"),
        ("11", "it has no image"),
    ]
    assert len(report.images) == 9


def test_large_data_sets_are_streamed():
    [images] = open_data(dataset_of(), stream=True).image_sets(["all"], lambda: 0)
    assert torch.equal(next(images.read([torch.tensor([5, 1])])), toy_images(12).pixels[[5, 1]])


@pytest.mark.parametrize("saved", [False, True])
def test_a_corrected_copy_keeps_all_columns(tmp_path, saved):
    original = datasets.DatasetDict({"train": dataset_of(6), "test": dataset_of(4)})
    original.save_to_disk(tmp_path / "original")
    data = open_data(tmp_path / "original" if saved else original)
    images = data.images_to_correct("all")
    labels = images.labels.clone()
    labels[1] = 0
    labels[7] = 3
    keep = [i for i in range(10) if i != 2]
    relabelling = Relabelling(images, labels, keep, (*NAMES, "other"))
    path, _ = data.write_corrected(relabelling, tmp_path / "corrected")
    corrected = datasets.load_from_disk(path)
    assert corrected["train"]["note"][:] == ["note 0", "note 1", "note 3", "note 4", "note 5"]
    assert corrected["train"]["label"][:] == [0, 0, 0, 1, 2]
    assert corrected["test"]["label"][:] == [0, 3, 2, 0]
    assert corrected["train"].features["label"].names == [*NAMES, "other"]
    assert corrected["train"].column_names == original["train"].column_names
    assert np.array_equal(np.asarray(corrected["train"][1]["image"]), toy_images(6).pixels[1, 0].numpy())
    assert open_data(path).load("all").class_names == (*NAMES, "other")
    with pytest.raises(HitNetError, match="not an empty folder"):
        data.write_corrected(relabelling, tmp_path / "corrected")


def test_an_audit_gives_a_corrected_data_set(tmp_path):
    dataset = dataset_of(60)
    judges = Judges(model="hitnet-small", networks=1, epochs=1)
    audit = hitnet.audit_labels(dataset, judges=judges, out=tmp_path / "audit", device="cpu")
    assert set(audit.table["path"]) == {str(i) for i in range(60)}
    review = open_review(audit, reviewer="me")
    assert review.pictures.thumbnail(0).kind == "image/webp"
    assert review.pictures.original(0).kind == "image/png"
    row = audit.table.iloc[0]
    wrong = int(row["path"])
    label = next(name for name in NAMES if name != row["given"])
    (tmp_path / "c.csv").write_text(
        f"id,path,given,decision,label\n{row['id']},{wrong},{row['given']},relabel,{label}\n"
    )
    applied = audit.apply(tmp_path / "c.csv", out=tmp_path / "corrected", data=dataset)
    corrected = datasets.load_from_disk(applied.data)
    expected = dataset["label"][:]
    expected[wrong] = NAMES.index(label)
    assert corrected["label"][:] == expected


def test_odd_data_sets_are_refused_in_words(tmp_path):
    with pytest.raises(HitNetError, match="has no column of labels"):
        open_data(dataset_of().remove_columns("label")).load("all")
    several = dataset_of().remove_columns("label").add_column("label", [[0], [1, 2]] * 6)
    with pytest.raises(
        HitNetError, match=r"the column label must hold one label per row.* it is of type (List|Sequence)"
    ):
        open_data(several).load("all")
    with pytest.raises(HitNetError, match="has 0 columns of images"):
        open_data(dataset_of().remove_columns("image")).load("all")
    with pytest.raises(HitNetError, match="unknown split 'extra'"):
        open_data(datasets.DatasetDict({"train": dataset_of(), "extra": dataset_of()})).load("all")
    with pytest.raises(HitNetError, match="from a IterableDataset"):
        open_data(dataset_of().to_iterable_dataset()).load("all")
    dataset_of().save_to_disk(tmp_path / "saved")
    next((tmp_path / "saved").glob("*.arrow")).write_bytes(b"damaged")
    with pytest.raises(HitNetError, match="saved is not a readable dataset"):
        open_data(tmp_path / "saved").load("all")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    dataset_of().save_to_disk(tmp_path / "saved")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(HitNetError, match="need datasets: pip install datasets"):
        open_data(tmp_path / "saved").load("all")


def test_a_stored_file_is_opened_anew_each_time():
    file = StoredFile("x", lambda: b"abc")
    assert (file.read_bytes(), file.open("rb").read(1), file.open("rb").read(1), str(file)) == (b"abc", b"a", b"a", "x")


def test_features_are_those_of_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    folder = write_images(tmp_path / "colours", colour_images(12, side=40))
    order = [path.relative_to(folder) for path in sorted(folder.rglob("*.png"))]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    rows = {"image": [{"bytes": (folder / p).read_bytes(), "path": None} for p in order]}
    dataset = datasets.Dataset.from_dict(rows | {"label": [p.parts[0] for p in order]}, features=features)
    backbone = open_backbone(TinyBackbone(), input_size=32)
    of_files, of_rows = (
        hitnet.extract_features(source, out=tmp_path / f"{i}.npy", backbone=backbone, device="cpu")
        for i, source in enumerate((folder, dataset))
    )
    assert torch.equal(of_files, of_rows)
    assert of_rows.abs().sum() > 0
