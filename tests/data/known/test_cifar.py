import numpy as np
import pytest

from hitnet.data.known.cifar import RECORD, read_batches
from hitnet.errors import HitNetError


def test_reads_batches_in_order(tmp_path):
    rng = np.random.default_rng(0)
    records = rng.integers(0, 256, (5, RECORD), dtype=np.uint8)
    records[:, 0] = [3, 1, 9, 0, 2]
    (tmp_path / "a.bin").write_bytes(records[:2].tobytes())
    (tmp_path / "b.bin").write_bytes(records[2:].tobytes())
    x, y = read_batches([tmp_path / "a.bin", tmp_path / "b.bin"])
    assert y.tolist() == [3, 1, 9, 0, 2]
    # Red comes first, row after row.
    assert x[4, 0, 1, 2] == records[4, 1 + 32 + 2]
    assert x[4, 2, 31, 31] == records[4, -1]


@pytest.mark.parametrize("content", [b"", b"x" * (RECORD - 1), b"x" * (RECORD + 1)])
def test_wrong_length(tmp_path, content):
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(HitNetError, match=r"a\.bin holds .* no whole number of records"):
        read_batches([tmp_path / "a.bin"])


def test_label_out_of_range(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\x0b" * RECORD)
    with pytest.raises(HitNetError, match="label 11"):
        read_batches([tmp_path / "a.bin"])


def test_missing_file(tmp_path):
    with pytest.raises(HitNetError, match="cannot be read"):
        read_batches([tmp_path / "a.bin"])
