"""Files of arrays and tables, after a look at what they claim: a small file may stand for one that fills the memory.

NumPy's .npy and .npz files hold no Python objects and no sizes beyond the file; Parquet files no more than is read.
"""

from __future__ import annotations

import json
import math
import sys
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import psutil

from hitnet.data.reading.stored import AnyPath, check_readable, opened
from hitnet.errors import HitNetError
from hitnet.runtime.files import check_regular

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 32 << 30  # bytes, all arrays together
LARGEST_TABLE = 16 << 30  # bytes of a Parquet file, and of its cells in memory
HUGGING_FACE = b"huggingface"  # the key of its metadata in a schema
PER_CELL = 16  # bytes; a cell of a repeated value takes nearly none in the file
ROWS, CELLS = 2**16, 2**22  # of features in Parquet, that are read at once
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
    with _parquet(path, LARGEST_TABLE) as file:
        about = file.metadata
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        claimed = sum(group.total_byte_size for group in groups) + PER_CELL * about.num_rows * about.num_columns
        if claimed > LARGEST_TABLE:
            raise HitNetError(
                f"{path} claims {about.num_rows:,} rows, more than are read. It is damaged, or too large."
            )
        table = file.read()
        table.validate(full=True)  # texts that are not UTF-8 would fail where they are first looked at
        return convert(table)


@contextmanager
def _parquet(path: AnyPath, largest: int) -> Iterator[Any]:
    """An open Parquet file; a damaged one makes the reader raise almost anything."""
    import pyarrow.parquet as pq

    check_readable(path, largest=largest)
    try:
        with pq.ParquetFile(opened(path)) as file:
            yield file
    except HitNetError:
        raise
    except Exception as error:
        raise HitNetError(f"{path} is not a readable .parquet file ({error or type(error).__name__}).") from error


def read_numbers(paths: Sequence[Path], keys: Collection[str]) -> tuple[Array, Array, str]:
    """Columns of numbers (N, D) of Parquet files, the first of the columns `keys` (N,) that they have, and its name.

    Numbers are float16 if they are so in all files, else float32. They are read into one array, some rows and columns
    at a time; raises HitNetError, before memory is taken, if there is none for it.
    """
    (rows, names, half), *others = (_about_numbers(path, keys) for path in paths)
    for path, (more, own, halves) in zip(paths[1:], others, strict=True):
        if odd := {*names} ^ {*own}:
            raise HitNetError(f"{path} must have the same columns as {paths[0].name}: only one of them has {min(odd)}.")
        rows, half = rows + more, half and halves
    kind, width, free = np.dtype("e" if half else "f"), len(names) - 1, psutil.virtual_memory().available
    if (needed := rows * (kind.itemsize * width + PER_CELL)) > free:
        raise HitNetError(
            f"{paths[0]}: {rows:,} rows of {width:,} numbers take {needed / 1e9:,.1f} GB of memory, but only "
            f"{free / 1e9:,.1f} GB are free. It is too large, or damaged."
        )
    values, named, end = np.empty((rows, width), kind), [np.empty(0, object)], 0
    for path in paths:
        with _parquet(path, sys.maxsize) as file, np.errstate(over="ignore"):  # what is too large becomes infinite
            for group in range(file.num_row_groups):
                start, end = end, end + file.metadata.row_group(group).num_rows
                size = max(1, CELLS // max(1, end - start))
                for left in range(0, len(names), size):
                    some, place = names[left : left + size], start
                    for batch in file.iter_batches(ROWS, row_groups=[group], columns=some):
                        batch.validate(full=True)  # texts that are not UTF-8
                        for number, name in enumerate(some, left):
                            column = batch.column(name).to_numpy(zero_copy_only=False)
                            if number:
                                values[place : place + len(batch), number - 1] = column
                            else:
                                named.append(column)
                        place += len(batch)
                    if place != end:
                        raise ValueError("it does not hold as many rows as it claims")
    return values, np.concatenate(named[1:] or named), names[0]


def _about_numbers(path: Path, keys: Collection[str]) -> tuple[int, list[str], bool]:
    """The number of rows, the names of the key and of all columns of numbers, and whether all these are float16."""
    from pyarrow import types

    with _parquet(path, sys.maxsize) as file:
        schema = file.schema_arrow
        key = next((key for key in keys if key in schema.names), None)
        if key is None:
            wanted = " or ".join(f"`{each}`" for each in keys)
            raise HitNetError(f"{path} must have a column {wanted}; it has {', '.join(schema.names)}.")
        index = [each for each in (schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(each, str)]
        others = (each for each in schema if each.name not in (*keys, *index))
        numbers = [each for each in others if types.is_floating(each.type) or types.is_integer(each.type)]
        rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        if min(rows, default=0) < 0:
            raise ValueError("it claims fewer than no rows")
        return sum(rows), [key, *(each.name for each in numbers)], all(types.is_float16(each.type) for each in numbers)


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
