"""Parquet files, after a look at the sizes they claim: a small file may stand for a table that fills the memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hitnet.data.reading.stored import AnyPath, check_readable, opened
from hitnet.errors import HitNetError

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 16 << 30  # bytes of the file, and of its cells in memory
PER_CELL = 16  # bytes; a cell of a repeated value takes nearly none in the file


def read_parquet(path: AnyPath) -> pd.DataFrame:
    """Read a table; raises HitNetError for a file that is damaged or claims too much."""
    import pandas as pd  # takes a second to import

    return _read(path, lambda: pd.read_parquet(opened(path)))


def read_arrow(path: AnyPath, columns: Sequence[str] | None = None) -> Any:
    """Read a table as pyarrow's, or only these columns of it."""
    import pyarrow.parquet as pq

    return _read(path, lambda: pq.read_table(opened(path), columns=columns))


def _read(path: AnyPath, read: Any) -> Any:
    import pyarrow.parquet as pq

    check_readable(path, largest=LARGEST)
    try:
        with pq.ParquetFile(opened(path)) as file:
            about = file.metadata
            groups = [about.row_group(i) for i in range(about.num_row_groups)]
            claimed = sum(group.total_byte_size for group in groups) + PER_CELL * about.num_rows * about.num_columns
        if claimed <= LARGEST:
            return read()
    # A damaged file makes the reader raise almost anything.
    except Exception as error:
        raise HitNetError(f"{path} is not a readable .parquet file ({error or type(error).__name__}).") from error
    raise HitNetError(f"{path} claims {about.num_rows:,} rows, more than are read. It is damaged, or too large.")
