"""The idx format of MNIST: a big-endian header of sizes, then bytes; gzipped or not."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from hitnet.errors import HitNetError

UNSIGNED_BYTE = 0x08
LARGEST = 8 << 30  # bytes; MNIST's largest file holds 47 MB


def read_idx(path: Path, *, ndim: int) -> npt.NDArray[np.uint8]:
    """The array of `ndim` dimensions in an idx file of unsigned bytes."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if not zipped:
                return _read(raw, path, ndim)
            with gzip.GzipFile(fileobj=raw) as stream:
                return _read(cast(IO[bytes], stream), path, ndim)
    except (OSError, EOFError, zlib.error) as error:
        raise HitNetError(f"{path} cannot be read as an idx file: {error}. Fetch it again.") from error


def _read(stream: IO[bytes], path: Path, ndim: int) -> npt.NDArray[np.uint8]:
    head = stream.read(4)
    if len(head) < 4 or head[:2] != b"\0\0":
        raise HitNetError(f"{path} is not an idx file: it does not begin with two zero bytes. Fetch it again.")
    if head[2] != UNSIGNED_BYTE or head[3] != ndim:
        raise HitNetError(
            f"{path} holds idx type {head[2]:#04x} in {head[3]} dimensions; "
            f"expected unsigned bytes ({UNSIGNED_BYTE:#04x}) in {ndim}. Is it the file its name says?"
        )
    sizes = stream.read(4 * ndim)
    if len(sizes) < 4 * ndim:
        raise HitNetError(f"{path} ends within its header. Fetch it again.")
    shape = struct.unpack(f">{ndim}I", sizes)
    count = math.prod(shape)
    if count > LARGEST:
        raise HitNetError(
            f"{path} claims {count:,} bytes of data, shape {shape}; its header is damaged. Fetch it again."
        )
    # Memory grows only with the bytes that are there: a header that claims too much costs nothing.
    data = bytearray()
    while len(data) < count and (block := stream.read(min(1 << 24, count - len(data)))):
        data += block
    if len(data) < count or stream.read(1):
        held = f"only {len(data):,}" if len(data) < count else "more"
        raise HitNetError(
            f"{path} should hold {count:,} bytes of data, shape {shape}, but holds {held}. Fetch it again."
        )
    return np.frombuffer(data, np.uint8).reshape(shape)
