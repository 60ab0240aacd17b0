"""Files of arrays and tables, after a look at what they claim: a small file may stand for one that fills the memory.

NumPy's .npy and .npz files hold no Python objects and no sizes beyond the file; Parquet files no more than is read.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hitnet.data.reading.stored import AnyPath, check_readable, opened
from hitnet.errors import HitNetError
from hitnet.runtime.files import check_regular

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 32 << 30  # bytes, all arrays together
LARGEST_TABLE = 16 << 30  # bytes of a Parquet file, and of its cells in memory
HUGGING_FACE = b"huggingface"  # the key of its metadata in a schema
PER_CELL = 16  # bytes; a cell of a repeated value takes nearly none in the file
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


def read_parquet(path: AnyPath) -> pd.DataFrame:
    """Read a table; raises HitNetError for a file that is damaged or claims too much."""
    return read_arrow(path, convert=lambda table: table.combine_chunks().to_pandas())  # few rows of one chunk are fast


def read_arrow(path: AnyPath, convert: Callable[[Any], Any] = lambda table: table) -> Any:
    """Read a table as pyarrow's, or as what `convert` makes of it."""
    import pyarrow.parquet as pq

    check_readable(path, largest=LARGEST_TABLE)
    try:
        with pq.ParquetFile(opened(path)) as file:
            about = file.metadata
            groups = [about.row_group(i) for i in range(about.num_row_groups)]
            claimed = sum(group.total_byte_size for group in groups) + PER_CELL * about.num_rows * about.num_columns
        if claimed <= LARGEST_TABLE:
            table = pq.read_table(opened(path))
            table.validate(full=True)  # texts that are not UTF-8 would fail where they are first looked at
            return convert(table)
    # A damaged file makes the reader raise almost anything.
    except Exception as error:
        raise HitNetError(f"{path} is not a readable .parquet file ({error or type(error).__name__}).") from error
    raise HitNetError(f"{path} claims {about.num_rows:,} rows, more than are read. It is damaged, or too large.")


def class_names(path: AnyPath, column: str) -> list[str] | None:
    """The names of a column of type `ClassLabel`, from what Hugging Face writes into the schema."""
    import pyarrow.parquet as pq

    try:
        about = json.loads((pq.read_schema(opened(path)).metadata or {})[HUGGING_FACE])
        names = about["info"]["features"][column]["names"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def with_class_names(table: Any, column: str, names: list[str]) -> Any:
    """pyarrow's table with other names of such a column."""
    about = json.loads(table.schema.metadata[HUGGING_FACE])
    about["info"]["features"][column]["names"] = names
    return table.replace_schema_metadata({**table.schema.metadata, HUGGING_FACE: json.dumps(about)})
