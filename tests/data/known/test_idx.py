import gzip
import struct

import numpy as np
import pytest

from hitnet.data.known.idx import read_idx
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
        (idx_bytes(np.zeros((1, 2, 2), np.uint8), shape=(2**20, 2**10, 2**10)), "claims 1,099,511,627,776"),
        (idx_bytes(np.zeros((1, 2, 2), np.uint8), shape=(2**20, 32, 32)), "holds only 4"),
        (idx_bytes(np.zeros((3, 2, 2), np.uint8), shape=(2, 2, 2)), "holds more"),
        (b"\x1f\x8b" + b"garbage" * 9, "cannot be read as an idx file"),
        (gzip.compress(idx_bytes(np.zeros((9, 9, 9), np.uint8)), mtime=0)[:-12], "cannot be read as an idx file"),
    ],
)
def test_damaged_files_are_named(tmp_path, content, says):
    (tmp_path / "odd.gz").write_bytes(content)
    with pytest.raises(HitNetError, match=says) as caught:
        read_idx(tmp_path / "odd.gz", ndim=3)
    assert "odd.gz" in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(HitNetError, match="No such file"):
        read_idx(tmp_path / "none", ndim=1)
