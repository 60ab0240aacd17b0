"""`clothing`: photographs that are fetched once and then read as a folder."""

import io
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import hitnet
from hitnet.data.known.catalogue import KNOWN_SETS, content_hash
from hitnet.errors import HitNetError

SPLITS = ("train", "validation", "test")
NAMES = [f"{split}/{label}/{i}a-{i}.jpg" for split in SPLITS for label in ("dress", "hat") for i in range(2)]


def picture(seed):
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (12, 9, 3), dtype=np.uint8)).save(out, "JPEG")
    return out.getvalue()


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """An archive as GitHub makes it, with things that must not be unpacked."""
    others = ["README.md", "train/dress/notes.txt", "train/other/0.jpg", "../../train/dress/0.jpg", "/etc/dress/0.jpg"]
    path = tmp_path / "archive.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for i, name in enumerate([*NAMES, *others]):
            content = picture(i)
            member = tarfile.TarInfo(name if name.startswith("/") else f"clothing-dataset-small-1196/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("clothing-dataset-small-1196/train/dress/9.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    known = replace(KNOWN_SETS["clothing"], mirrors=(f"{tmp_path.as_uri()}/",), archive={path.name: "0" * 64})
    monkeypatch.setitem(KNOWN_SETS, "clothing", known)
    return path


@pytest.fixture
def known(archive, tmp_path, monkeypatch):
    """The archive holds what it should."""
    folder = tmp_path / "expected"
    for i, name in enumerate(NAMES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(picture(i))
    checksum = {archive.name: content_hash(folder)}
    monkeypatch.setitem(KNOWN_SETS, "clothing", replace(KNOWN_SETS["clothing"], archive=checksum))


def test_it_is_fetched_and_read_as_a_folder(known, tmp_path):
    data = tmp_path / "data"
    assert not next(row for row in hitnet.list_data(data) if row["name"] == "clothing")["here"]
    images = hitnet.open_data("clothing", data_dir=data).load("all")
    assert sorted(images.paths) == sorted(NAMES)
    assert images.class_names == ("dress", "hat")
    assert images.flip
    assert sorted(path.relative_to(data / "clothing").as_posix() for path in data.rglob("*.*")) == sorted(NAMES)
    assert next(row for row in hitnet.list_data(data) if row["name"] == "clothing")["here"]
    assert not hitnet.open_data("clothing", data_dir=data, flip=False).load("train").flip
    assert len(hitnet.open_data("clothing", data_dir=data, download=False).load("train")) == 4


def test_fetch_names_the_folder(known, tmp_path):
    assert hitnet.fetch_data("clothing", tmp_path / "data") == tmp_path / "data" / "clothing"
    assert hitnet.fetch_data("clothing", tmp_path / "data") == tmp_path / "data" / "clothing"


def test_other_photographs_are_refused_and_nothing_is_written(archive, tmp_path):
    with pytest.raises(HitNetError, match="does not hold the photographs that are known as `clothing`"):
        hitnet.fetch_data("clothing", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_a_cut_archive_is_refused(archive, tmp_path):
    archive.write_bytes(archive.read_bytes()[:-300])
    with pytest.raises(HitNetError, match="cannot be unpacked"):
        hitnet.fetch_data("clothing", tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_without_download_the_error_says_what_to_do(tmp_path):
    with pytest.raises(HitNetError, match=r"Clone https://github\.com/.* to that place"):
        hitnet.open_data("clothing", data_dir=tmp_path, download=False).load("train")
