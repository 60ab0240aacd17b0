"""Parquet files with the images in them, as Hugging Face writes them."""

import io
import json

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

import hitnet
from hitnet import Judges, choose_recipe, open_data
from hitnet.data import Relabelling
from hitnet.errors import HitNetError
from hitnet.review.server import open_review
from toy import toy_images

NAMES = ["band 0", "band 1", "band 2"]


def encoded(pixels):
    content = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(content, "PNG")
    return content.getvalue()


def hub_file(path, count=12, **columns):
    """A file as `Dataset.to_parquet` writes it."""
    images = toy_images(count)
    kinds = {"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES), "note": datasets.Value("string")}
    rows = {
        "image": [{"bytes": encoded(p[0]), "path": f"{i}.png"} for i, p in enumerate(images.pixels)],
        "label": images.labels.tolist(),
        "note": [f"note {i}" for i in range(count)],
    }
    datasets.Dataset.from_dict({**rows, **columns}, features=datasets.Features(kinds)).to_parquet(path)
    return path


def test_images_labels_and_classes_are_those_of_the_file(tmp_path):
    data = open_data(hub_file(tmp_path / "bands.parquet"))
    images, expected = data.load("all"), toy_images(12)
    assert torch.equal(images.pixels, expected.pixels)
    assert torch.equal(images.labels, expected.labels)
    assert (images.class_names, images.name) == (tuple(NAMES), "bands")
    assert images.paths == tuple(str(i) for i in range(12))
    assert data.address == str(tmp_path / "bands.parquet")
    [streamed] = open_data(data.address, stream=True).image_sets(["all"], lambda: 0)
    assert streamed.fingerprint == images.fingerprint


@pytest.mark.parametrize("struct", [False, True])
def test_a_file_without_metadata_is_read_too(tmp_path, struct):
    images = toy_images(12)
    cells = [{"bytes": encoded(p[0])} if struct else encoded(p[0]) for p in images.pixels]
    splits = ["train", "test"] * 6
    frame = pd.DataFrame({"picture": cells, "labels": [3, -1, 7] * 4, "split": splits})
    frame.to_parquet(tmp_path / "x.parquet")
    report = open_data(tmp_path / "x.parquet").report("all")
    assert report.images.class_names == ("3", "7")
    assert [item.path for item in report.skipped] == ["1", "4", "7", "10"]
    assert open_data(tmp_path / "x.parquet").load("test").paths == ("3", "5", "9", "11")


def test_other_columns_of_bytes_are_no_images(tmp_path):
    images = toy_images(4)
    for i, pixels in enumerate(images.pixels):
        (tmp_path / f"{i}.png").write_bytes(encoded(pixels[0]))
    frame = pd.DataFrame({"hash": [b"abc"] * 4, "path": [f"{i}.png" for i in range(4)], "label": list("abab")})
    frame.to_parquet(tmp_path / "x.parquet")
    assert open_data(tmp_path / "x.parquet").load("all").paths == ("0.png", "1.png", "2.png", "3.png")


def test_an_image_may_be_a_path_beside_the_file(tmp_path):
    images = toy_images(12)
    cells = [{"bytes": encoded(p[0]), "path": None} for p in images.pixels]
    (tmp_path / "5.png").write_bytes(cells[5]["bytes"])
    cells[5] = {"bytes": None, "path": "5.png"}
    cells[6] = {"bytes": None, "path": None}
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    table = pa.table({"image": pa.array(cells, kind), "label": images.labels.tolist()})
    pq.write_table(table, tmp_path / "x.parquet")
    report = open_data(tmp_path / "x.parquet").report("all")
    assert torch.equal(report.images.pixels, images.pixels[[i for i in range(12) if i != 6]])
    assert [(item.path, item.reason) for item in report.skipped] == [("6", "it has no image")]


def test_a_corrected_copy_keeps_columns_types_and_metadata(tmp_path):
    data = open_data(hub_file(tmp_path / "x.parquet"))
    images = data.images_to_correct("all")
    labels = images.labels.clone()
    labels[1], labels[7] = 0, 3
    keep = [i for i in range(12) if i != 2]
    path, _ = data.write_corrected(Relabelling(images, labels, keep, (*NAMES, "other")), tmp_path / "new")
    copy, before = datasets.Dataset.from_parquet(str(path)), toy_images(12).labels.tolist()
    assert copy.features["label"].names == [*NAMES, "other"]
    assert copy["label"][:] == [{1: 0, 7: 3}.get(i, before[i]) for i in keep]
    assert copy["note"][:] == [f"note {i}" for i in keep]
    assert np.array_equal(np.asarray(copy[1]["image"]), toy_images(12).pixels[1, 0].numpy())
    assert open_data(path).load("all").class_names == (*NAMES, "other")


def test_numbers_without_names_stay_numbers(tmp_path):
    cells = [encoded(p[0]) for p in toy_images(4).pixels]
    pd.DataFrame({"image": cells, "label": [3, 7, 3, 7]}).to_parquet(tmp_path / "x.parquet")
    data = open_data(tmp_path / "x.parquet")
    images = data.images_to_correct("all")
    for k, (name, expected) in enumerate({"9": [3, 9, 3, 7], "other": ["3", "other", "3", "7"]}.items()):
        labels = torch.tensor([0, 2, 0, 1])
        path, _ = data.write_corrected(Relabelling(images, labels, [0, 1, 2, 3], ("3", "7", name)), tmp_path / str(k))
        assert pd.read_parquet(path)["label"].tolist() == expected


def test_it_is_audited_reviewed_and_corrected(tmp_path):
    source = hub_file(tmp_path / "x.parquet", 30)
    judges = Judges(model="hitnet-small", networks=1, recipe=choose_recipe("fast", epochs=1))
    audit = hitnet.audit_labels(source, judges=judges, out=tmp_path / "audit", device="cpu")
    review = open_review(audit, reviewer="me")
    shown = Image.open(io.BytesIO(review.pictures.original(0).content))
    assert np.array_equal(np.asarray(shown), toy_images(30).pixels[int(audit.table["path"].iloc[0]), 0].numpy())


def odd(metadata):
    return {b"huggingface": metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()}


@pytest.mark.parametrize(
    "metadata", [b"[" * 100_000, b"no", {}, {"info": 3}, {"info": {"features": {"label": {"names": [1]}}}}]
)
def test_odd_metadata_does_not_matter(tmp_path, metadata):
    table = pq.read_table(hub_file(tmp_path / "x.parquet")).replace_schema_metadata(odd(metadata))
    pq.write_table(table, tmp_path / "y.parquet")
    assert open_data(tmp_path / "y.parquet").load("all").class_names == ("0", "1", "2")


def test_files_that_are_no_set_are_refused(tmp_path):
    pq.write_table(pa.table({"image": [b"x"], "other": [1]}), tmp_path / "a.parquet")
    with pytest.raises(HitNetError, match=r"has no column of labels.*found image, other"):
        open_data(tmp_path / "a.parquet").load("all")
    pq.write_table(pa.table({"image": [b"x", b"y"], "label": [1, 2]}), tmp_path / "b.parquet")
    with pytest.raises(HitNetError, match=r"b holds no readable image.*0: it is not an image"):
        open_data(tmp_path / "b.parquet").load("all")
