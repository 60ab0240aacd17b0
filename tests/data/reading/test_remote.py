"""Folders and tables on other machines, played by fsspec's file system in memory."""

import csv
import io

import fsspec
import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import hitnet
from hitnet import open_data
from hitnet.data import Relabelling
from hitnet.data.reading.stored import RemotePath, is_remote
from hitnet.errors import HitNetError
from hitnet.models.backbones import open_backbone
from toy import TinyBackbone, colour_images, toy_images, write_images


@pytest.fixture
def memory():
    """An empty file system in memory."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def upload(system, folder, target):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            system.pipe(f"{target}/{path.relative_to(folder).as_posix()}", path.read_bytes())


@pytest.fixture
def local(tmp_path):
    return write_images(tmp_path / "bands", toy_images(30))


def test_a_remote_folder_is_read_as_a_local_one(memory, local):
    upload(memory, local, "/bucket/bands")
    for split in ("train", "test", "all"):
        remote, expected = open_data("memory://bucket/bands/").load(split), open_data(local).load(split)
        assert remote.paths == expected.paths
        assert remote.class_names == expected.class_names
        assert remote.name == expected.name == "bands"
        assert torch.equal(remote.pixels, expected.pixels)
        assert torch.equal(remote.labels, expected.labels)


def test_images_are_streamed(memory, local):
    upload(memory, local, "/bands")
    [images] = open_data("memory://bands", stream=True).image_sets(["all"], lambda: 0)
    [expected] = open_data(local, stream=True).image_sets(["all"], lambda: 0)
    assert images.fingerprint == expected.fingerprint
    assert torch.equal(next(images.read([torch.tensor([3])])), next(expected.read([torch.tensor([3])])))


def test_splits_and_odd_files_are_treated_as_in_a_local_folder(memory, local, tmp_path):
    folder = tmp_path / "set"
    for split in ("train", "val"):
        (folder / split).mkdir(parents=True)
        write_images(folder / split, toy_images(6))
    (folder / "train" / "band 0" / "note.txt").write_text("x")
    (folder / "train" / "band 0" / "x.jxl").write_text("x")
    (folder / "train" / "band 0" / "broken.png").write_text("x")
    (folder / "train" / ".hidden").mkdir()
    (folder / "train" / ".hidden" / "x.png").write_text("x")
    (folder / "train" / "outside.png").write_text("x")
    upload(memory, folder, "/set")
    remote, expected = open_data("memory://set").report("all"), open_data(folder).report("all")
    assert remote.images.paths == expected.images.paths
    assert remote.skipped == expected.skipped
    assert remote.ignored == expected.ignored
    assert open_data("memory://set").load("test").paths == open_data(folder).load("test").paths


def table_of(local):
    rows = [(f"bands/{path.relative_to(local).as_posix()}", path.parent.name) for path in sorted(local.rglob("*.png"))]
    return pd.DataFrame(rows, columns=["path", "label"])


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_a_remote_table_is_read_as_a_local_one(memory, local, suffix):
    write = {
        "csv": lambda frame, path: frame.to_csv(path, index=False),
        "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
        "parquet": lambda frame, path: frame.to_parquet(path, index=False),
    }[suffix]
    path = local.parent / f"labels.{suffix}"
    write(table_of(local), path)
    upload(memory, local.parent, "/set")
    remote, expected = open_data(f"memory://set/labels.{suffix}"), open_data(path)
    assert torch.equal(remote.load("all").pixels, expected.load("all").pixels)
    assert (remote.name, remote.address) == ("labels", f"memory://set/labels.{suffix}")


def test_a_local_table_may_name_remote_images(memory, local, tmp_path):
    upload(memory, local, "/set/bands")
    frame = table_of(local)
    frame["path"] = [f"memory://set/{path}" if i % 2 else path for i, path in enumerate(frame["path"])]
    frame.to_csv(tmp_path / "labels.csv", index=False)
    data = open_data(tmp_path / "labels.csv")
    assert len(data.load("all")) == 30
    images = data.images_to_correct("all")
    path, _ = data.write_corrected(
        Relabelling(images, images.labels, list(range(29)), images.class_names), tmp_path / "n"
    )
    copied = [row["path"] for row in csv.DictReader(io.StringIO(path.read_text()))]
    assert copied == frame["path"].tolist()[:29]
    assert len(open_data(path).load("all")) == 29


def test_a_corrected_copy_gives_the_addresses(memory, local, tmp_path):
    table_of(local).to_csv(local.parent / "labels.csv", index=False)
    upload(memory, local.parent, "/set")
    for i, source in enumerate(("memory://set/bands", "memory://set/labels.csv")):
        data = open_data(source)
        images = data.images_to_correct("all")
        labels = images.labels.clone()
        labels[0] = 2
        relabelling = Relabelling(images, labels, list(range(28)), images.class_names)
        path, _ = data.write_corrected(relabelling, tmp_path / f"new{i}")
        corrected = open_data(path).load("all")
        assert corrected.labels.tolist() == labels[:28].tolist()
        assert corrected.paths[0] == "memory://set/bands/band 0/000.png"
        assert torch.equal(corrected.pixels, data.load("all").pixels[:28])


def test_features_are_those_of_local_files(memory, tmp_path, monkeypatch):
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    folder = write_images(tmp_path / "colours", colour_images(9, side=40))
    upload(memory, folder, "/colours")
    backbone = open_backbone(TinyBackbone(), input_size=32)
    features = [
        hitnet.extract_features(source, out=tmp_path / f"{i}.npy", backbone=backbone, device="cpu")
        for i, source in enumerate((folder, "memory://colours"))
    ]
    assert torch.equal(*features)
    assert np.abs(features[0].numpy()).sum() > 0


def test_what_has_a_scheme():
    assert is_remote("s3://bucket/photos")
    assert is_remote("memory://x")
    for local in ("photos", "/photos", "C:/photos", "C:\\photos", "a::b", "simplecache::s3://x"):
        assert not is_remote(local)


def test_addresses_are_joined():
    root = RemotePath("s3://bucket/set/")
    assert str(root) == "s3://bucket/set"
    assert str(root / "a b/c.png") == "s3://bucket/set/a b/c.png"
    assert str(root / "/etc/passwd") == "s3://bucket/set/etc/passwd"
    assert str(root / "gs://other/x.png") == "gs://other/x.png"
    assert (root.name, str((root / "t.csv").parent), (root / "t.csv").suffix) == ("set", "s3://bucket/set", ".csv")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("memory://nothing", "memory://nothing holds no image in a class folder"),
        ("memory://nothing/labels.csv", "memory://nothing/labels.csv cannot be read"),
        ("nosuchscheme://x", "nosuchscheme://x cannot be opened"),
        ("file:///etc", "Write the path of a local file without a scheme"),
        ("reference://x", "its scheme is none of"),
    ],
)
def test_mistakes_are_named(memory, source, message):
    with pytest.raises(HitNetError, match=message):
        open_data(source).load("all")


def test_a_folder_without_images_says_what_it_holds(memory):
    memory.pipe("memory://texts/a/1.txt", b"text")
    memory.pipe("memory://texts/a/2.jxl", b"picture")
    with pytest.raises(HitNetError, match=r"the first a/2\.jxl: images of type \.jxl .*\. Ignored: 1 \.txt\.$"):
        open_data("memory://texts").load("all")


def test_a_picture_that_is_gone_is_left_out(memory, local, tmp_path):
    frame = table_of(local)
    frame.loc[0, "path"] = "memory://gone.png"
    frame.to_csv(tmp_path / "labels.csv", index=False)
    report = open_data(tmp_path / "labels.csv").report("all")
    assert [(item.path, item.reason) for item in report.skipped] == [("memory://gone.png", "there is no such file")]


def test_a_row_that_leads_to_a_local_file_by_a_scheme_is_left_out(memory, local, tmp_path):
    frame = table_of(local)
    frame.loc[0, "path"] = f"file://{tmp_path / frame.loc[0, 'path']}"
    frame.to_csv(tmp_path / "labels.csv", index=False)
    [left_out] = open_data(tmp_path / "labels.csv").report("all").skipped
    assert left_out.path == frame.loc[0, "path"]
    assert "its scheme is none of" in left_out.reason


def test_a_remote_table_that_is_too_large_is_refused(memory, monkeypatch):
    memory.pipe("/labels.csv", b"path,label\n")
    monkeypatch.setattr("hitnet.data.formats.table_rows.LARGEST", 5)
    with pytest.raises(HitNetError, match="has 11 bytes, more than the 5"):
        open_data("memory://labels.csv").load("all")


def test_pictures_are_sound_after_the_way_through_memory(memory):
    content = io.BytesIO()
    Image.new("L", (3, 2), 7).save(content, "PNG")
    memory.pipe("/x.png", content.getvalue())
    assert RemotePath("memory://x.png").read_bytes() == content.getvalue()
