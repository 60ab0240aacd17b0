"""Parquet files, after a look at the sizes they claim: a small file may stand for a table that fills the memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hitnet.data.reading.remote import RemotePath
from hitnet.errors import HitNetError
from hitnet.runtime.files import check_regular

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 16 << 30  # bytes of the file, and of its cells in memory
PER_CELL = 16  # bytes; a cell of a repeated value takes nearly none in the file


def opened(path: Path | RemotePath) -> Any:
    """What pandas and pyarrow read: a local path, or an open remote file."""
    return path if isinstance(path, Path) else path.open()


def check_readable(path: Path | RemotePath, *, largest: int) -> None:
    """Raise HitNetError unless a file may be read: a local one must be regular, and none may be too large."""
    if isinstance(path, Path):
        check_regular(path, largest=largest)
    elif (size := path.size()) > largest:
        raise HitNetError(f"{path} has {size:,} bytes, more than the {largest:,} that are read.")


def read_parquet(path: Path | RemotePath) -> pd.DataFrame:
    """Read a table; raises HitNetError for a file that is damaged or claims too much."""
    import pandas as pd  # takes a second to import
    import pyarrow.parquet as pq

    check_readable(path, largest=LARGEST)
    try:
        with pq.ParquetFile(opened(path)) as file:
            about = file.metadata
            groups = [about.row_group(i) for i in range(about.num_row_groups)]
            claimed = sum(group.total_byte_size for group in groups) + PER_CELL * about.num_rows * about.num_columns
        if claimed <= LARGEST:
            return pd.read_parquet(opened(path))
    # A damaged file makes the reader raise almost anything.
    except Exception as error:
        raise HitNetError(f"{path} is not a readable .parquet file ({error or type(error).__name__}).") from error
    raise HitNetError(f"{path} claims {about.num_rows:,} rows, more than are read. It is damaged, or too large.")
