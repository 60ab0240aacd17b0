"""Parquet files, after a look at the sizes they claim: a small file may stand for a table that fills the memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hitnet.data.reading.stored import AnyPath, check_readable, opened
from hitnet.errors import HitNetError

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 16 << 30  # bytes of the file, and of its cells in memory
HUGGING_FACE = b"huggingface"  # the key of its metadata in a schema
PER_CELL = 16  # bytes; a cell of a repeated value takes nearly none in the file


def read_parquet(path: AnyPath) -> pd.DataFrame:
    """Read a table; raises HitNetError for a file that is damaged or claims too much."""
    return read_arrow(path, convert=lambda table: table.to_pandas())


def read_arrow(path: AnyPath, convert: Callable[[Any], Any] = lambda table: table) -> Any:
    """Read a table as pyarrow's, or as what `convert` makes of it."""
    import pyarrow.parquet as pq

    check_readable(path, largest=LARGEST)
    try:
        with pq.ParquetFile(opened(path)) as file:
            about = file.metadata
            groups = [about.row_group(i) for i in range(about.num_row_groups)]
            claimed = sum(group.total_byte_size for group in groups) + PER_CELL * about.num_rows * about.num_columns
        if claimed <= LARGEST:
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
