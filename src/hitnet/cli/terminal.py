"""What commands share on the terminal: where to print, tables, names."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.table import Column, Table

from hitnet.errors import one_line
from hitnet.runtime.files import expand
from hitnet.runtime.terminal import make_console

console, errors = make_console(), make_console(stderr=True)
SHORTEST_PATH = 12  # characters that are shown of a file's name


class Rows(Table):
    """A table whose cells are each one line; a cell that is too long for its column is folded."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(one_line(cell) if isinstance(cell, str) else cell for cell in cells), **options)


def make_table(*headers: str) -> Table:
    """A table without lines, which cuts no name off."""
    return Rows(*(Column(header, overflow="fold") for header in headers), box=None)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = make_table(*headers)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def excess(table: Table) -> int:
    """How many columns too wide for the terminal a table is; if it is, its cells are folded."""
    unbounded = console.options.update(max_width=sys.maxsize)
    return console.measure(table, options=unbounded).maximum - console.width


def table_of_files(headers: Sequence[str], rows: Sequence[Sequence[str]], *, path: int) -> Table:
    """A table of which column `path` names files. If it is too wide, only the ends of long names are shown."""

    def made(longest: int) -> Table:
        table = make_table(*headers)
        for row in rows:
            name = one_line(row[path])
            short = name if len(name) <= longest else f"…{name[1 - longest :]}"
            table.add_row(*row[:path], short, *row[path + 1 :])
        return table

    longest = max((len(one_line(row[path])) for row in rows), default=0)
    whole = made(longest)
    return whole if excess(whole) <= 0 else made(max(SHORTEST_PATH, longest - excess(whole)))


def plural(count: int, one: str, many: str) -> str:
    """For example "1 image is" or "1,200 images are"."""
    return f"1 {one}" if count == 1 else f"{count:,} {many}"


def short_name(data: str) -> str:
    """What to call DATA in a line or a folder's name.

    A file goes by its name without the suffix, a folder by its whole name, "." and ".." by the folder they mean.
    """
    path = expand(data).resolve()
    return path.name if path.is_dir() else path.stem


def print_json(value: Any) -> None:
    """Print JSON on standard output, and nothing else there; in ASCII, which no terminal's encoding changes."""
    print(json.dumps(value, indent=2))


def print_written(paths: list[Path]) -> None:
    for path in paths:
        console.print(f"written: {path}", soft_wrap=True)
