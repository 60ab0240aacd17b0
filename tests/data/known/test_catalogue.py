import gzip
import hashlib
import io
import struct
import tarfile
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from hitnet.data import check_data, data_folder, fetch_data, list_data, open_data
from hitnet.data.known import catalogue
from hitnet.data.known.catalogue import KNOWN_SETS, SetFiles, known_set, recorded_folder
from hitnet.data.known.makers import RECORD
from hitnet.errors import HitNetError


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def unreachable(*args, **kwargs):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", unreachable)
    fashion = replace(KNOWN_SETS["fashion-mnist"], also=())
    monkeypatch.setitem(KNOWN_SETS, "fashion-mnist", fashion)


def idx(path, array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(head + array.tobytes()))


def write_idx_set(folder, train=20, test=10):
    rng = np.random.default_rng(0)
    for part, count in (("train", train), ("t10k", test)):
        idx(folder / f"{part}-images-idx3-ubyte.gz", rng.integers(0, 256, (count, 28, 28), dtype=np.uint8))
        idx(folder / f"{part}-labels-idx1-ubyte.gz", (np.arange(count) % 10).astype(np.uint8))


def write_cifar(folder, count=4):
    folder.mkdir(parents=True)
    records = np.random.default_rng(0).integers(0, 256, (6 * count, RECORD), dtype=np.uint8)
    records[:, 0] = np.arange(6 * count) % 10
    names = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    for name, part in zip(names, np.split(records, 6), strict=True):
        (folder / name).write_bytes(part.tobytes())
    return names


@pytest.mark.parametrize(("name", "flip"), [("mnist", False), ("fashion-mnist", True)])
def test_idx_sets(tmp_path, name, flip):
    write_idx_set(tmp_path / name)
    train, test = open_data(name, data_dir=tmp_path).load(), open_data(name, data_dir=tmp_path).load("test")
    assert (len(train), len(test)) == (20, 10)
    assert train.flip is flip
    assert train.labels.tolist() == [i % 10 for i in range(20)]
    assert len(train.class_names) == 10
    both = open_data(name, data_dir=tmp_path).load("all")
    assert torch.equal(both.pixels, torch.cat([train.pixels, test.pixels]))
    assert both.ids.tolist() == list(range(30))
    assert len(open_data(name, data_dir=tmp_path, limit=25).load("all")) == 25
    assert open_data(name, data_dir=tmp_path, limit=7).load().ids.tolist() == list(range(7))


def test_unpacked_idx_files_serve(tmp_path):
    write_idx_set(tmp_path / "mnist")
    packed = tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz"
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    assert len(open_data("mnist", data_dir=tmp_path).load("test")) == 10


def test_images_and_labels_must_match(tmp_path):
    write_idx_set(tmp_path / "mnist")
    idx(tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz", np.zeros(9, np.uint8))
    with pytest.raises(HitNetError, match=r"10 images but .* 9 labels"):
        open_data("mnist", data_dir=tmp_path).load("test")


def test_fashion_is_found_where_debian_puts_it(tmp_path, monkeypatch):
    write_idx_set(tmp_path / "share")
    monkeypatch.setitem(KNOWN_SETS, "fashion-mnist", replace(KNOWN_SETS["fashion-mnist"], also=(tmp_path / "share",)))
    assert len(open_data("fashion-mnist", data_dir=tmp_path / "none").load("test")) == 10


def test_cifar10(tmp_path):
    write_cifar(tmp_path / "cifar10")
    train, test = open_data("cifar10", data_dir=tmp_path).load(), open_data("cifar10", data_dir=tmp_path).load("test")
    assert (train.shape, len(train), len(test), train.flip) == ((3, 32, 32), 20, 4, True)
    assert test.labels.tolist() == [0, 1, 2, 3]
    assert test.class_names[3] == "cat"


def test_svhn(tmp_path):
    (tmp_path / "svhn").mkdir()
    x = np.zeros((32, 32, 3, 3), np.uint8)
    savemat(tmp_path / "svhn" / "test_32x32.mat", {"X": x, "y": np.array([[10], [1], [2]], np.uint8)})
    test = open_data("svhn", data_dir=tmp_path).load("test")
    assert test.labels.tolist() == [0, 1, 2]
    assert (test.class_names, test.flip) == (tuple("0123456789"), False)


def test_missing_files_say_what_to_put_where(tmp_path):
    target = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    with pytest.raises(HitNetError, match="no network") as caught:
        open_data("mnist", data_dir=tmp_path).load()
    assert f"put it at {target}" in str(caught.value)
    assert str(caught.value).count("https://") == 2
    with pytest.raises(HitNetError, match=r"svhn \(from http://ufldl"):
        open_data("svhn", data_dir=tmp_path, download=False).load()
    assert list(tmp_path.rglob("*.gz")) == []


def content_hash(packed):
    return hashlib.sha256(gzip.decompress(packed)).hexdigest()


def test_fetch_brings_what_is_missing(tmp_path, monkeypatch):
    served = {}
    write_idx_set(tmp_path / "away")
    for path in (tmp_path / "away").iterdir():
        served[path.name] = path.read_bytes()
    checksums = {name: content_hash(served[name]) for name in KNOWN_SETS["mnist"].files}
    monkeypatch.setitem(KNOWN_SETS, "mnist", replace(KNOWN_SETS["mnist"], files=checksums))
    asked = []

    class Answer(io.BytesIO):
        headers = {"Content-Length": "9"}  # noqa: RUF012

    def urlopen(request, timeout):
        asked.append(request.full_url.rsplit("/", 1)[-1])
        return Answer(served[asked[-1]])

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    assert len(open_data("mnist", data_dir=tmp_path).load("test")) == 10
    assert sorted(asked) == ["t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]
    assert fetch_data("mnist", tmp_path) == tmp_path / "mnist"
    assert len(asked) == 4
    fetch_data("mnist", tmp_path)
    assert len(asked) == 4


def test_fetch_names_the_folder_that_the_files_lie_in(tmp_path, monkeypatch):
    write_idx_set(tmp_path / "mnist")
    assert fetch_data("mnist", tmp_path) == tmp_path / "mnist"
    write_idx_set(tmp_path / "share")
    monkeypatch.setitem(KNOWN_SETS, "fashion-mnist", replace(KNOWN_SETS["fashion-mnist"], also=(tmp_path / "share",)))
    assert fetch_data("fashion-mnist", tmp_path) == tmp_path / "share"


def test_an_archive_that_was_brought_is_unpacked_and_kept(tmp_path):
    names = write_cifar(tmp_path / "away")
    (tmp_path / "cifar10").mkdir()
    with tarfile.open(tmp_path / "cifar10" / "cifar-10-binary.tar.gz", "w:gz") as tar:
        for name in names:
            tar.add(tmp_path / "away" / name, f"cifar-10-batches-bin/{name}")
    assert len(open_data("cifar10", data_dir=tmp_path).load("test")) == 4
    assert sorted(path.name for path in (tmp_path / "cifar10").iterdir()) == ["cifar-10-binary.tar.gz", *names]


def test_check_tells_original_other_damaged_and_missing(tmp_path):
    write_idx_set(tmp_path / "mnist")
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"garbage")
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").unlink()
    sample = Path(catalogue.__file__).with_name("sample") / "t10k-labels-idx1-ubyte.gz"
    # The same bytes in another packing are still the original.
    again = gzip.compress(gzip.decompress(sample.read_bytes()), compresslevel=1)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(again)
    states = {state.name.split("-idx")[0]: state for state in check_data("mnist", data_dir=tmp_path).files}
    assert {name: state.state for name, state in states.items()} == {
        "train-images": "damaged",
        "train-labels": "missing",
        "t10k-images": "other",
        "t10k-labels": "ok",
    }
    assert [state.usable for state in states.values()] == [False, False, True, True]
    assert states["t10k-labels"].size == len(again)
    assert "idx" in states["train-images"].note


def test_check_reads_other_files_whole(tmp_path):
    write_cifar(tmp_path / "cifar10")
    (tmp_path / "cifar10" / "data_batch_2.bin").write_bytes(b"short")
    (tmp_path / "svhn").mkdir()
    content = {"X": np.zeros((32, 32, 3, 3), np.uint8), "y": np.ones((3, 1), np.uint8)}
    savemat(tmp_path / "svhn" / "test_32x32.mat", content)

    def check(name):
        return SetFiles(known_set(name), tmp_path).check()

    assert [state.state for state in check("cifar10")] == ["other", "damaged", *["other"] * 4]
    assert [state.state for state in check("svhn")] == ["missing", "other"]
    assert check_data("cifar10", data_dir=tmp_path).files == check("cifar10")
    assert not check_data("cifar10", data_dir=tmp_path).sound


def test_the_sample_ships_whole():
    check = check_data("mnist-sample")
    assert [state.state for state in check.files] == ["ok", "ok"]
    assert check.sound


def test_the_list_says_which_sets_are_here(tmp_path):
    write_idx_set(tmp_path / "mnist")
    rows = {row["name"]: row for row in list_data(tmp_path)}
    assert list(rows) == list(KNOWN_SETS)
    assert [name for name, row in rows.items() if row["here"]] == ["mnist", "mnist-sample", "clothing-sample"]
    for name, row in rows.items():
        known = known_set(name)
        assert (row["about"], row["licence"], row["page"]) == (known.about, known.licence, known.page)


def test_data_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("HITNET_DATA", raising=False)
    monkeypatch.delenv("HITNET_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder() == tmp_path / "cache" / "hitnet" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_folder() == Path.home() / ".cache" / "hitnet" / "data"
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "own"))
    assert data_folder() == tmp_path / "own" / "data"
    monkeypatch.setenv("HITNET_DATA", str(tmp_path / "env"))
    assert data_folder() == tmp_path / "env"
    assert data_folder("~/x") == Path.home() / "x"


def test_a_recorded_folder_is_used_only_without_the_environments(monkeypatch, tmp_path):
    monkeypatch.delenv("HITNET_DATA", raising=False)
    assert recorded_folder(str(tmp_path)) == tmp_path
    assert recorded_folder(str(tmp_path / "gone")) is None
    assert recorded_folder(None) is None
    monkeypatch.setenv("HITNET_DATA", "")
    assert recorded_folder(str(tmp_path)) == tmp_path
    monkeypatch.setenv("HITNET_DATA", str(tmp_path / "env"))
    assert recorded_folder(str(tmp_path)) is None


def test_every_set_says_where_it_comes_from():
    assert set(KNOWN_SETS) == {
        "mnist",
        "fashion-mnist",
        "cifar10",
        "svhn",
        "clothing",
        "mnist-sample",
        "clothing-sample",
    }
    for known in KNOWN_SETS.values():
        assert known.licence
        assert known.page.startswith("http")
        for name, checksum in {**known.files, **known.archive}.items():
            assert len(checksum) in (32, 64), name
            assert all(mirror.startswith("http") and mirror.endswith("/") for mirror in known.mirrors)


def test_unknown_names():
    with pytest.raises(HitNetError, match="Did you mean 'mnist'"):
        open_data("mnits")
    with pytest.raises(HitNetError, match="no dataset named 'x'"):
        fetch_data("x")
    with pytest.raises(HitNetError, match="no dataset or folder named 'x'"):
        check_data("x")


def test_what_another_process_has_just_fetched_is_not_fetched_again(tmp_path, monkeypatch):
    """The processes of torchrun open a set at the same time."""
    fetched = []

    @contextmanager
    def after_another(path):
        write_idx_set(tmp_path / "mnist")
        yield

    monkeypatch.setattr(catalogue, "taking_turns", after_another)
    monkeypatch.setattr(catalogue, "fetch_file", lambda *given, **options: fetched.append(given))
    assert fetch_data("mnist", tmp_path) == tmp_path / "mnist"
    assert fetched == []
