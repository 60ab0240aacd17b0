"""A corrected copy of a table: the same columns and rows in the same format, except for what was decided."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from hitnet.data.formats.table_rows import Table
from hitnet.data.reading.parquet import opened

Cells = dict[str, dict[int, str]]  # the cells that change: by column, then by row
OUTCOME = "label"  # the new column of a table of votes: the label that counts


def write_table(
    table: Table,
    path: Path,
    *,
    labels: Mapping[str, str],
    relabelled: Set[str],
    dropped: Set[str],
    renamed: Mapping[str, str],
) -> str:
    """Write the copy.

    Args:
        table: The original.
        path: Where to write the copy.
        labels: The label of each image, by its path.
        relabelled: Paths of the images with a new label.
        dropped: Paths whose rows are left out.
        renamed: Paths that the copy replaces, with what it writes instead.

    Returns:
        A note on the labels of the copy (mostly empty).
    """
    files = table.files()
    cells: Cells = {table.image: {i: renamed[file] for i, file in enumerate(files) if file in renamed}}
    note = ""
    if not table.stated:
        cells[OUTCOME] = {i: labels.get(file, "") for i, file in enumerate(files)}
        note = f"votes are kept as they are; the new column {OUTCOME} says what counts"
    else:
        column = table.stated[0]
        spelt = dict(zip(table.labels(column), table.texts(column), strict=True))  # class 2 may be written 2.0
        new = {i: spelt.get(labels[file], labels[file]) for i, file in enumerate(files) if file in relabelled}
        cells[column] = new
        if len(new) > len(relabelled):
            note = "an image that has several rows is relabelled in all of them"
    rows = [i for i, file in enumerate(files) if file not in dropped]
    write = _write_parquet if path.suffix.lower() == ".parquet" else _write_text
    write(table, path, {column: changed for column, changed in cells.items() if changed}, rows)
    return note


def _write_text(table: Table, path: Path, cells: Cells, rows: list[int]) -> None:
    """Write a .csv or .tsv with the line ends and the byte order mark of the original."""
    original = table.path.read_bytes()
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    encoding = "utf-8-sig" if original.startswith(codecs.BOM_UTF8) else "utf-8"
    carriage = original.split(b"\n", 1)[0].endswith(b"\r")
    # Read the header again: pandas has renamed columns in the frame that had no name or the name of another.
    header = pd.read_csv(
        opened(table.path), sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig", header=None, nrows=1
    )
    frame = table.frame.copy()
    for column, changed in cells.items():
        old = frame[column] if column in frame else [""] * len(frame)
        frame[column] = [changed.get(i, cell) for i, cell in enumerate(old)]
    names = [*header.iloc[0], *frame.columns[len(table.frame.columns) :]]
    with path.open("w", encoding=encoding, newline="") as file:
        # If lines end in \n only, the writer would put no quotes around a cell with a carriage return.
        writer = csv.writer(
            file,
            delimiter=separator,
            quoting=csv.QUOTE_ALL if b"\r" in original and not carriage else csv.QUOTE_MINIMAL,
            lineterminator="\r\n" if carriage else "\n",
        )
        writer.writerow(names)
        writer.writerows(frame.iloc[rows].fillna("").itertuples(index=False, name=None))


def _write_parquet(table: Table, path: Path, cells: Cells, rows: list[int]) -> None:
    copy = pq.read_table(opened(table.path))
    for column, changed in cells.items():
        if column in copy.column_names:
            place = copy.column_names.index(column)
            copy = copy.set_column(place, column, _replaced(copy[column], table.texts(column), changed))
        else:
            copy = copy.append_column(column, pa.array([changed[i] for i in range(len(copy))], pa.string()))
    pq.write_table(copy.take(rows), path)


def _replaced(column: Any, texts: list[str], changed: Mapping[int, str]) -> Any:
    """The column with some cells replaced, where possible by cells of equal value, so that numbers stay numbers."""
    like = {text: i for i, text in reversed(list(enumerate(texts)))}
    if all(text in like for text in changed.values()):
        return column.take([like[changed[i]] if i in changed else i for i in range(len(texts))])
    return pa.array([changed.get(i, text) or None for i, text in enumerate(texts)], pa.string())
