"""The formats of the known sets' makers: idx (MNIST), records of bytes (CIFAR-10), Matlab files (SVHN)."""

import gzip
import math
import os
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hitnet.data.reading.array_files import read_npy
from hitnet.errors import HitNetError
from hitnet.runtime.files import check_regular

UNSIGNED_BYTE = 0x08  # of idx
LARGEST = 8 << 30  # bytes of a file's content; the largest of these sets holds 512 MB
LARGEST_IDX = 1 << 28  # the same of idx files; the largest holds 47 MB
RECORD = 1 + 3 * 32 * 32  # bytes of an image of CIFAR-10: its label, then 3 x 32 x 32 pixels
MATLAB_READER = Path(__file__).with_name("matlab_reader.py")

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]


def read_idx(path: Path, *, ndim: int) -> Bytes:
    """The array of `ndim` dimensions in an idx file, gzipped or not: a big-endian header of sizes, then bytes."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path) if zipped else path.open("rb") as stream:
            content = bytearray(stream.read(LARGEST_IDX))  # whatever its header claims
    except (OSError, EOFError, zlib.error) as error:
        raise HitNetError(f"{path} cannot be read as an idx file: {error}. Fetch it again.") from error
    if len(content) < 4 or content[:2] != b"\0\0":
        raise HitNetError(f"{path} is not an idx file: it does not begin with two zero bytes. Fetch it again.")
    if content[2] != UNSIGNED_BYTE or content[3] != ndim:
        raise HitNetError(
            f"{path} holds idx type {content[2]:#04x} in {content[3]} dimensions; "
            f"expected unsigned bytes ({UNSIGNED_BYTE:#04x}) in {ndim}. Is it the file its name says?"
        )
    start = 4 + 4 * ndim
    if len(content) < start:
        raise HitNetError(f"{path} ends within its header. Fetch it again.")
    shape = struct.unpack_from(f">{ndim}I", content, 4)
    count, held = math.prod(shape), len(content) - start
    if count != held:
        raise HitNetError(f"{path} should hold {count:,} bytes, shape {shape}, but holds {held:,}. Fetch it again.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_cifar(paths: Sequence[Path]) -> tuple[Bytes, Bytes]:
    """Images (N, 3, 32, 32) and labels (N,) of files of CIFAR-10's binary version, in their order."""
    parts = []
    for path in paths:
        try:
            size = path.stat().st_size
            if size == 0 or size % RECORD or size > LARGEST:
                raise HitNetError(
                    f"{path} holds {size:,} bytes, which is no whole number of records of {RECORD:,} bytes. "
                    "Fetch the binary version of CIFAR-10 again."
                )
            parts.append(np.fromfile(path, np.uint8).reshape(-1, RECORD))
        except OSError as error:
            raise HitNetError(f"{path} cannot be read: {error.strerror}.") from error
        if (highest := parts[-1][:, 0].max()) >= 10:
            raise HitNetError(
                f"{path} has label {highest}, but CIFAR-10 has 10 classes. "
                "Fetch the binary version of CIFAR-10 (not CIFAR-100) again."
            )
    records = np.concatenate(parts)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def read_svhn(path: Path) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Images (N, 3, 32, 32) and digits (N,) of an SVHN file; the digit 0, stored as class 10, is 0."""
    content = read_matlab(path, "X", "y")
    x, y = content["X"], content["y"]
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3) or y.size != x.shape[3]:
        raise HitNetError(f"{path}: X must be uint8 (32, 32, 3, N), y (N, 1); got {x.dtype} {x.shape} and {y.shape}.")
    if not y.size or not np.isin(y, np.arange(1, 11)).all():
        raise HitNetError(f"{path}: labels must be whole numbers from 1 to 10.")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), y.reshape(-1).astype(np.int64) % 10


def read_matlab(path: Path, *names: str) -> dict[str, Array]:
    """Variables of numbers of a Matlab file, and the fields of a structure as NAME.FIELD; see matlab_reader.py."""
    check_regular(path, largest=LARGEST)
    with tempfile.TemporaryDirectory(prefix="hitnet-") as folder:
        command = [sys.executable, "-P", str(MATLAB_READER), str(path.absolute()), folder, str(LARGEST), *names]
        alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # whose threads would take memory
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=alone)
        if ended.returncode:
            reason = (ended.stderr.strip().splitlines() or ["it makes the reader crash"])[-1]
            raise HitNetError(f"{path} is not a readable Matlab file ({reason}). Fetch it again.")
        content = {file.stem: read_npy(file) for file in Path(folder).glob("*.npy")}
    missing = [name for name in names if not any(found.partition(".")[0] == name for found in content)]
    if missing:
        raise HitNetError(f"{path} has no variable {missing[0]!r}. Check that it is the file its name says.")
    return content
