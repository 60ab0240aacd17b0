"""What commands share on the terminal: where to print, tables, names."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from hitnet.errors import one_line
from hitnet.runtime.files import expand

# Control characters could clear the screen or change what was printed; some others turn the direction of a text.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with control characters other than line ends and tabs shown as escapes, e.g. \\x1b."""
    return CONTROLS.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)


class SafeConsole(Console):
    """A console that shows control characters in texts, such as names of files, as escapes."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def make_console(*, stderr: bool = False) -> Console:
    """Prints names of files and classes as they are, without markup or emoji; breaks lines only on a terminal."""
    console = SafeConsole(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 1000
    return console


console, errors = make_console(), make_console(stderr=True)


class Rows(Table):
    """A table whose cells are each one line; a cell that is too long for its column is folded."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        super().add_row(*(one_line(cell) if isinstance(cell, str) else cell for cell in cells), **options)


def make_table(*headers: str) -> Table:
    """A table without lines, which cuts no name off."""
    return Rows(*(Column(header, overflow="fold") for header in headers), box=None)


def fits(table: Table) -> bool:
    """Whether the terminal shows the table without folding its cells."""
    unbounded = console.options.update(max_width=sys.maxsize)
    return console.measure(table, options=unbounded).maximum <= console.width


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
