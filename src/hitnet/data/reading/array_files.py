"""NumPy's .npy and .npz files, after a look at their headers: no Python objects, no sizes beyond the file."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from hitnet.errors import HitNetError
from hitnet.runtime.files import check_regular

LARGEST = 32 << 30  # bytes, all arrays together
Array = npt.NDArray[Any]


def read_npy(path: Path) -> Array:
    """The array in a .npy file."""
    with _guarded(path, ".npy"):
        with path.open("rb") as stream:
            _claimed(stream, path.stat().st_size, path.name)
        return _checked(np.load(path, allow_pickle=False), path.name)


def read_npz(path: Path, names: Collection[str]) -> dict[str, Array]:
    """Those arrays of a .npz file that have one of these names."""
    with _guarded(path, ".npz"):
        with zipfile.ZipFile(path) as archive:
            wanted = [info for info in archive.infolist() if info.filename.removesuffix(".npy") in names]
            for info in wanted:
                with archive.open(info) as stream:
                    _claimed(stream, info.file_size, info.filename)
        total = sum(info.file_size for info in wanted)
        if total > LARGEST:
            raise HitNetError(f"it claims {total:,} bytes of arrays, more than {LARGEST:,}")
        with np.load(path, allow_pickle=False) as content:
            return {name: _checked(content[name], name) for name in content.files if name in names}


@contextmanager
def _guarded(path: Path, kind: str) -> Iterator[None]:
    """Errors that name the file; a damaged one makes zipfile, zlib and numpy raise almost anything."""
    check_regular(path, largest=LARGEST)
    try:
        yield
    except HitNetError as error:
        raise HitNetError(f"{path}: {error}.") from error
    except Exception as error:
        reason = str(error) or type(error).__name__
        if "pickle" in reason:  # numpy's words say how to load one
            reason = "it is damaged, or holds Python objects, which are not loaded"
        raise HitNetError(f"{path} is not a readable {kind} file ({reason}).") from error


def _claimed(stream: IO[bytes], size: int, name: str) -> None:
    """Raise HitNetError if the header of an array claims Python objects or more bytes than there are."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise HitNetError(f"{name} holds Python objects, which are not loaded. Save plain arrays")
    claimed = math.prod(shape) * dtype.itemsize
    if claimed > size or min(shape, default=0) < 0:
        raise HitNetError(f"{name} claims {claimed:,} bytes but holds {size:,}")


def _checked(array: Array, name: str) -> Array:
    """The array, once it is sure that its texts can be read: NumPy keeps any number as a letter."""
    if array.dtype.kind == "U" and array.size:
        codes = np.frombuffer(array.astype(array.dtype.newbyteorder("=")).tobytes(), np.uint32)
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF))).any():
            raise HitNetError(f"{name} holds text that is not Unicode; it is damaged")
    return array
