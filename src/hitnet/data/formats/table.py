"""A table of image files: a .csv, .tsv or .parquet with a column of paths and one or more of labels.

Paths are relative to the table, or absolute; a .parquet may hold the images themselves, as Hugging Face writes them.
Several people's labels are columns (label_1, label_2 ... or annotator_*) or rows: the majority's label counts, in a tie
the first. A label column takes precedence over columns of votes.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from hitnet.data.formats.image_files import FileData
from hitnet.data.opened import Relabelling
from hitnet.data.reading.array_files import read_arrow, with_class_names
from hitnet.data.reading.copying import check_target, copy_set, inside, is_within, links_note
from hitnet.data.reading.entries import Listing
from hitnet.data.reading.stored import RemotePath, Root, is_remote, path_or_address
from hitnet.errors import HitNetError
from hitnet.runtime.files import new_folder

if TYPE_CHECKING:
    import pandas as pd

    from hitnet.data.formats.table_rows import Table

TABLES = (".csv", ".tsv", ".parquet")  # a table's endings
OUTCOME = "label"  # the new column of a corrected table of votes: the label that counts
Cells = dict[str, dict[int, str]]  # the cells that change: by column, then by row


class TableData(FileData):
    """A table of image files."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        path = path_or_address(source) if isinstance(source, str | Path) else None
        if path is None or path.suffix.lower() not in TABLES:
            return False
        return isinstance(path, RemotePath) or (path.exists() and not path.is_dir())

    @property
    def root(self) -> Root:
        return self.table.root

    @cached_property
    def table(self) -> Table:
        from hitnet.data.formats.table_rows import read_table  # pandas takes a second to import

        return read_table(self.path)

    @cached_property
    def listing(self) -> Listing:
        return self.table.listing()

    def annotations(self) -> pd.DataFrame | None:
        agreement = self.table.agreement()
        return agreement if int(agreement["votes"].max()) > 1 else None

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        """Copy the table in its own format, and the files that it names inside its own folder.

        Files outside that folder, also those that a link in it leads to, stay where they are: the copy gives their
        absolute paths. Rows without an image are copied unchanged.
        """
        root, paths = self.root, relabelling.paths
        if not isinstance(root, Path):
            check_target(out, originals=[])
            files = self.table.files() if isinstance(root, RemotePath) else []
            return self._write(relabelling, out, {file: str(self.file(file)) for file in files if file}, {})
        folders = {(root / path).parent.resolve() for path in paths} - {root.resolve()}
        check_target(out, originals=sorted(folders))
        others = {file for file in self.table.files() if file} - {*paths, *relabelling.dropped}
        local = {file for file in (*paths, *others) if not is_remote(file)}
        outside = {file for file in local if not is_within(root, file)}
        there = {file for file in others & local - outside if (root / file).is_file()}
        gone = [path for path in paths if path in outside and not (root / path).is_file()]
        if gone:
            raise HitNetError(f"{root / gone[0]} is not there any more. Nothing was written.")
        kept = sorted((({*paths} & local) - outside) | there)
        renamed = {file: os.path.abspath(root / file) for file in outside}
        return self._write(relabelling, out, renamed, {file: inside(file) for file in kept})

    def _write(
        self, relabelling: Relabelling, out: Path, renamed: Mapping[str, str], copied: Mapping[str, PurePosixPath]
    ) -> tuple[Path, str]:
        """Write the corrected table, with new paths for files that stay where they are, and copy the others."""
        cells, note = _changed_cells(self.table, relabelling, renamed)
        dropped, lost = relabelling.dropped, []
        rows = [i for i, file in enumerate(self.table.files()) if file not in dropped]
        with new_folder(out) as folder:
            if isinstance(self.root, Path):
                lost = copy_set(self.root, copied, folder)
            target = folder / self.path.name
            if self.path.suffix.lower() == ".parquet":
                _write_parquet(self.table, target, cells, rows, _class_names(self.table, relabelling))
            else:
                _write_text(self.table, target, cells, rows)
        return out / self.path.name, "; ".join(filter(None, [note, links_note(lost)]))


def _class_names(table: Table, relabelling: Relabelling) -> list[str]:
    """What the numbers in the column of labels stand for in the corrected table; empty if they are not names."""
    return [] if table.class_names is None else list(dict.fromkeys([*table.class_names, *relabelling.class_names]))


def _changed_cells(table: Table, relabelling: Relabelling, renamed: Mapping[str, str]) -> tuple[Cells, str]:
    """The cells in which a corrected table differs, and a note on its labels (mostly empty)."""
    files = table.files()
    cells: Cells = {table.image: {i: renamed[file] for i, file in enumerate(files) if file in renamed}}
    note = ""
    if not table.stated:
        labels = dict(zip(relabelling.paths, relabelling.after, strict=True))
        cells[OUTCOME] = {i: labels.get(file, "") for i, file in enumerate(files)}
        note = f"votes are kept as they are; the new column {OUTCOME} says what counts"
    else:
        column = table.stated[0]
        spelt = dict(zip(table.labels(column), table.texts(column), strict=True))  # class 2 may be written 2.0
        if table.class_names is not None:
            spelt = {name: str(k) for k, name in enumerate(_class_names(table, relabelling))}
        new = relabelling.changed
        cells[column] = {i: spelt.get(new[file], new[file]) for i, file in enumerate(files) if file in new}
        if len(cells[column]) > len(new):
            note = "an image that has several rows is relabelled in all of them"
    return {column: changed for column, changed in cells.items() if changed}, note


def _write_text(table: Table, path: Path, cells: Cells, rows: list[int]) -> None:
    """Write a .csv or .tsv with the line ends and the byte order mark of the original."""
    original = table.path.read_bytes()
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    encoding = "utf-8-sig" if original.startswith(codecs.BOM_UTF8) else "utf-8"
    carriage = original.split(b"\n", 1)[0].endswith(b"\r")
    # Read the header again: pandas has renamed columns in the frame that had no name or the name of another.
    lines = csv.reader(io.StringIO(original.decode("utf-8-sig"), newline=""), delimiter=separator)
    header = next(filter(None, lines))
    frame = table.frame.copy()
    for column, changed in cells.items():
        old = frame[column] if column in frame else [""] * len(frame)
        frame[column] = [changed.get(i, cell) for i, cell in enumerate(old)]
    frame.columns = [*header, *frame.columns[len(table.frame.columns) :]]
    with path.open("w", encoding=encoding, newline="") as file:
        frame.iloc[rows].to_csv(
            file,
            sep=separator,
            index=False,
            # If lines end in \n only, the writer would put no quotes around a cell with a carriage return.
            quoting=csv.QUOTE_ALL if b"\r" in original and not carriage else csv.QUOTE_MINIMAL,
            lineterminator="\r\n" if carriage else "\n",
        )


def _write_parquet(table: Table, path: Path, cells: Cells, rows: list[int], class_names: list[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    copy = read_arrow(table.path)
    for column, changed in cells.items():
        if column in copy.column_names:
            place = copy.column_names.index(column)
            copy = copy.set_column(place, column, _replaced(copy[column], table.texts(column), changed))
        else:
            copy = copy.append_column(column, pa.array([changed[i] for i in range(len(copy))], pa.string()))
    if class_names:
        copy = with_class_names(copy, table.stated[0], class_names)
    pq.write_table(copy.take(rows), path)


def _replaced(column: Any, texts: list[str], changed: Mapping[int, str]) -> Any:
    """pyarrow's column with some cells replaced, where possible by cells of equal text: numbers stay numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    like = {text: i for i, text in reversed(list(enumerate(texts)))}
    if all(text in like for text in changed.values()):
        return column.take([like[changed[i]] if i in changed else i for i in range(len(texts))])
    new = pa.array([changed.get(i, text) or None for i, text in enumerate(texts)], pa.string())
    try:
        return pc.if_else(pa.array([i in changed for i in range(len(texts))]), new.cast(column.type), column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return new
