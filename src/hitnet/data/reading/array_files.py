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

    A column of lists, all of one length, counts as one column for each number of a list. Numbers are float16 if they
    are so in all files, else float32. They are read into one array, some rows and columns at a time; raises
    HitNetError, before memory is taken, if there is none for it.
    """
    abouts = [_about_numbers(path, keys) for path in paths]
    first = next((place for place, about in enumerate(abouts) if about[0]), 0)  # a part may be empty
    key, widths = abouts[first][1:3]
    for path, (count, name, own, _) in zip(paths, abouts, strict=True):
        if odd := {key, *widths} ^ {name, *own}:
            raise HitNetError(
                f"{path} must have the same columns as {paths[first].name}: only one of them has {min(odd)}."
            )
        if uneven := [each for each in own if count and own[each] != widths[each]]:
            raise _uneven(path, uneven[0], widths[uneven[0]])
    rows, half = sum(about[0] for about in abouts), all(about[3] for about in abouts)
    kind, width, free = np.dtype("e" if half else "f"), sum(widths.values()), psutil.virtual_memory().available
    if (needed := rows * (kind.itemsize * width + PER_CELL)) > free:
        raise HitNetError(
            f"{paths[0]}: {rows:,} rows of {width:,} numbers take {needed / 1e9:,.1f} GB of memory, but only "
            f"{free / 1e9:,.1f} GB are free. It is too large, or damaged."
        )
    values, named, end = np.empty((rows, width), kind), [np.empty(0, object)], 0
    ends = dict(zip(widths, np.cumsum(list(widths.values())).tolist(), strict=True))
    for path in paths:
        with _parquet(path, sys.maxsize) as file, np.errstate(over="ignore"):  # what is too large becomes infinite
            for group in range(file.num_row_groups):
                start, end = end, end + file.metadata.row_group(group).num_rows
                for some in _together(widths, end - start, key):
                    place, most = start, max(widths.get(name, 1) for name in some)
                    for batch in file.iter_batches(max(1, min(ROWS, CELLS // most)), row_groups=[group], columns=some):
                        batch.validate(full=True)  # texts that are not UTF-8
                        for name in some:
                            column = batch.column(name)
                            if name == key:
                                named.append(column.to_numpy(zero_copy_only=False))
                                continue
                            if (numbers := _matrix(column, widths[name])) is None:
                                raise _uneven(path, name, widths[name])
                            values[place : place + len(batch), ends[name] - widths[name] : ends[name]] = numbers
                        place += len(batch)
                    if place != end:
                        raise ValueError("it does not hold as many rows as it claims")
    return values, np.concatenate(named[1:] or named), key


def _uneven(path: Path, name: str, width: int) -> HitNetError:
    return HitNetError(f"{path}: each row of `{name}` must have as many numbers as the first row of all, {width:,}.")


def _together(widths: dict[str, int], rows: int, key: str) -> Iterator[list[str]]:
    """The names of columns that are read at once: few columns where rows are many."""
    together, cells = [key], rows
    for name, width in widths.items():
        cells += width * rows
        if cells > CELLS:
            yield together
            together, cells = [], width * rows
        together.append(name)
    yield together


def _matrix(column: Any, width: int) -> Array | None:
    """Numbers or lists of numbers in pyarrow's array as numbers (n, width); None: lists of other lengths."""
    column, lengths = _lists(column)
    if lengths is not None:
        if not all(length == width for length in lengths):
            return None
        column = column.flatten()
    numbers: Array = column.to_numpy(zero_copy_only=False).reshape(-1, width)
    return numbers


def _lists(column: Any) -> tuple[Any, list[int | None] | None]:
    """pyarrow's array as it is stored, and how long its lists are; None: these are no lists."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    return column, pc.list_value_length(column).to_pylist() if pa.types.is_nested(column.type) else None


def _about_numbers(path: Path, keys: Collection[str]) -> tuple[int, str, dict[str, int], bool]:
    """The number of rows, the name of the key, all columns of numbers with their widths, and whether all are float16.

    The width of a column is 1, or the length of its first list.
    """
    import pyarrow as pa
    from pyarrow import types

    with _parquet(path, sys.maxsize) as file:
        schema = file.schema_arrow
        key = next((key for key in keys if key in schema.names), None)
        if key is None:
            wanted = " or ".join(f"`{each}`" for each in keys)
            raise HitNetError(f"{path} must have a column {wanted}; it has {', '.join(schema.names)}.")
        index = [each for each in (schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(each, str)]
        widths, kinds = dict[str, int](), []
        for field in schema:
            kind = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
            listed = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
            number = kind.value_type if listed else kind
            if field.name not in (*keys, *index) and (types.is_floating(number) or types.is_integer(number)):
                few = file.iter_batches(1, columns=[field.name]) if listed else ()
                widths[field.name] = next(
                    ((_lists(each.column(0))[1] or [0])[0] or 0 for each in few), 0 if listed else 1
                )
                kinds.append(number)
        rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        if min(rows, default=0) < 0:
            raise ValueError("it claims fewer than no rows")
        return sum(rows), key, widths, all(map(types.is_float16, kinds))


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
