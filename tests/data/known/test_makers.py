"""The formats of the known sets' makers: idx, CIFAR-10's records, Matlab files."""

import contextlib
import gzip
import random
import struct

import numpy as np
import pytest
from scipy.io import savemat

from hitnet.data.known.makers import RECORD, read_cifar, read_idx, read_matlab, read_svhn
from hitnet.errors import HitNetError


def idx_bytes(array, *, kind=0x08, shape=None):
    shape = array.shape if shape is None else shape
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + array.tobytes()


@pytest.fixture
def array():
    return np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_reads_packed_and_unpacked(tmp_path, array, pack):
    (tmp_path / "x").write_bytes(pack(idx_bytes(array)))
    assert (read_idx(tmp_path / "x", ndim=3) == array).all()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "two zero bytes"),
        (b"\x89PNG\r\n", "two zero bytes"),
        (bytes([0, 0, 8, 3, 0, 0]), "within its header"),
        (idx_bytes(np.zeros(5, np.uint8)), "1 dimensions"),
        (idx_bytes(np.zeros((1, 2, 2), np.float32), kind=0x0D), "type 0x0d"),
        (idx_bytes(np.zeros((1, 2, 2), np.uint8), shape=(2**20, 2**10, 2**10)), "hold 1,099,511,627,776 .* holds 4"),
        (idx_bytes(np.zeros((1, 2, 2), np.uint8), shape=(2**20, 32, 32)), "holds 4"),
        (idx_bytes(np.zeros((3, 2, 2), np.uint8), shape=(2, 2, 2)), "holds 12"),
        (b"\x1f\x8b" + b"garbage" * 9, "cannot be read as an idx file"),
        (gzip.compress(idx_bytes(np.zeros((9, 9, 9), np.uint8)), mtime=0)[:-12], "cannot be read as an idx file"),
    ],
)
def test_damaged_files_are_named(tmp_path, content, says):
    (tmp_path / "odd.gz").write_bytes(content)
    with pytest.raises(HitNetError, match=says) as caught:
        read_idx(tmp_path / "odd.gz", ndim=3)
    assert "odd.gz" in str(caught.value)


def test_a_missing_idx_file(tmp_path):
    with pytest.raises(HitNetError, match="No such file"):
        read_idx(tmp_path / "none", ndim=1)


def test_cifar_batches_are_read_in_order(tmp_path):
    rng = np.random.default_rng(0)
    records = rng.integers(0, 256, (5, RECORD), dtype=np.uint8)
    records[:, 0] = [3, 1, 9, 0, 2]
    (tmp_path / "a.bin").write_bytes(records[:2].tobytes())
    (tmp_path / "b.bin").write_bytes(records[2:].tobytes())
    x, y = read_cifar([tmp_path / "a.bin", tmp_path / "b.bin"])
    assert y.tolist() == [3, 1, 9, 0, 2]
    # Red comes first, row after row.
    assert x[4, 0, 1, 2] == records[4, 1 + 32 + 2]
    assert x[4, 2, 31, 31] == records[4, -1]


@pytest.mark.parametrize("content", [b"", b"x" * (RECORD - 1), b"x" * (RECORD + 1)])
def test_cifar_of_a_wrong_length(tmp_path, content):
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(HitNetError, match=r"a\.bin holds .* no whole number of records"):
        read_cifar([tmp_path / "a.bin"])


def test_a_cifar_label_out_of_range(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\x0b" * RECORD)
    with pytest.raises(HitNetError, match="label 11"):
        read_cifar([tmp_path / "a.bin"])


def test_a_missing_cifar_file(tmp_path):
    with pytest.raises(HitNetError, match="cannot be read"):
        read_cifar([tmp_path / "a.bin"])


@pytest.mark.usefixtures("matlab_here")
def test_svhn_zero_is_stored_as_ten(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 4), dtype=np.uint8)
    savemat(tmp_path / "t.mat", {"X": x, "y": np.array([[10], [1], [9], [10]], np.uint8)}, do_compression=True)
    images, digits = read_svhn(tmp_path / "t.mat")
    assert digits.tolist() == [0, 1, 9, 0]
    assert images.shape == (4, 3, 32, 32)
    assert images[2, 1, 5, 7] == x[5, 7, 1, 2]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"X": np.zeros((32, 32, 3, 2), np.uint8)}, "no variable 'y'"),
        ({"X": np.zeros((32, 32, 2), np.uint8), "y": np.ones((2, 1))}, "X must be uint8"),
        ({"X": np.zeros((32, 32, 3, 2)), "y": np.ones((2, 1))}, "X must be uint8"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.ones((3, 1))}, "X must be uint8"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[0], [11]])}, "from 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1.0], [2.5]])}, "from 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[1.0], [np.nan]])}, "from 1 to 10"),
        ({"X": np.zeros((32, 32, 3, 1), np.uint8), "y": np.array(["a"])}, "no variable 'y'"),
    ],
)
@pytest.mark.usefixtures("matlab_here")
def test_svhn_wrong_contents(tmp_path, content, says):
    savemat(tmp_path / "t.mat", content)
    with pytest.raises(HitNetError, match=says):
        read_svhn(tmp_path / "t.mat")


@pytest.mark.usefixtures("matlab_here")
def test_not_a_matlab_file(tmp_path):
    whole = tmp_path / "whole.mat"
    savemat(whole, {"X": np.zeros((32, 32, 3, 9), np.uint8), "y": np.ones((9, 1))}, do_compression=True)
    for content in (b"", b"nothing of the kind" * 50, whole.read_bytes()[:200], whole.read_bytes()[:-40]):
        (tmp_path / "t.mat").write_bytes(content)
        with pytest.raises(HitNetError, match=r"t\.mat"):
            read_svhn(tmp_path / "t.mat")
    with pytest.raises(HitNetError, match="does not exist"):
        read_svhn(tmp_path / "none.mat")


def svhn_file(path, **options):
    images = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 3), dtype=np.uint8)
    savemat(path, {"X": images, "y": np.array([[1], [2], [10]], np.float64)}, **options)
    return images


@pytest.mark.parametrize("compressed", [False, True])
def test_matlab_files_are_read_as_scipy_writes_them(tmp_path, compressed):
    images = svhn_file(tmp_path / "t.mat", do_compression=compressed)
    pixels, digits = read_svhn(tmp_path / "t.mat")
    assert np.array_equal(pixels, images.transpose(3, 2, 0, 1))
    assert digits.tolist() == [1, 2, 0]
    others = {"text": "caption", "cell": np.array([[1], ["a"]], object), "deep": {"a": 1}}
    picture = np.arange(3200, dtype=np.uint64).reshape(1600, 2).astype(np.uint8)
    content = {**others, "image": picture, "label_int": np.array([[3, 4]], np.int32)}
    savemat(tmp_path / "a.mat", {"other": 1, "set": content}, do_compression=compressed)
    read = read_matlab(tmp_path / "a.mat", "set")
    assert np.array_equal(read["set.image"], picture)
    assert read["set.label_int"].tolist() == [[3, 4]]


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_matlab_files_are_refused_or_read(tmp_path, compressed):
    """Bytes of the first part, which holds all sizes and types, take other values. Some of these make scipy crash."""
    svhn_file(tmp_path / "t.mat", do_compression=compressed)
    sound = (tmp_path / "t.mat").read_bytes()
    path = tmp_path / "x.mat"
    for place in random.Random(0).sample(range(124, 300), 2):
        for value in (0, 255):
            path.write_bytes(sound[:place] + bytes([value]) + sound[place + 1 :])
            with contextlib.suppress(HitNetError):
                assert read_svhn(path)[0].shape[1:] == (3, 32, 32)


def test_a_matlab_file_that_makes_scipy_crash_is_refused(tmp_path):
    """The type of the values in a structure's field leads scipy beyond its table of types."""
    content = {"image": np.zeros((1600, 2), np.uint8), "label_int": np.array([[3, 4]], np.int32)}
    savemat(tmp_path / "t.mat", {"set": content})
    sound = (tmp_path / "t.mat").read_bytes()
    place = sound.index(struct.pack("<II", 2, 3200))  # unsigned bytes, 3,200 of them
    (tmp_path / "t.mat").write_bytes(sound[:place] + b"\xff" + sound[place + 1 :])
    with pytest.raises(HitNetError, match=r"t\.mat is not a readable Matlab file"):
        read_matlab(tmp_path / "t.mat", "set")


def test_a_matlab_file_that_claims_too_much_takes_no_memory(tmp_path):
    svhn_file(tmp_path / "t.mat")
    content = bytearray((tmp_path / "t.mat").read_bytes())
    content[132:136] = (2**32 - 8).to_bytes(4, "little")
    (tmp_path / "t.mat").write_bytes(content)
    with pytest.raises(HitNetError, match=r"t\.mat (is not a readable Matlab file|has no variable)"):
        read_svhn(tmp_path / "t.mat")


@pytest.mark.usefixtures("matlab_here")
def test_a_matlab_file_of_more_than_may_be_read_is_refused(tmp_path, monkeypatch):
    content = {"X": np.zeros((32, 32, 3, 3), np.uint8), "y": np.ones((3, 1))}
    savemat(tmp_path / "t.mat", content, do_compression=True)
    monkeypatch.setattr("hitnet.data.known.makers.LARGEST", 9000)
    with pytest.raises(HitNetError, match=r"it claims 9,219 values"):
        read_svhn(tmp_path / "t.mat")
