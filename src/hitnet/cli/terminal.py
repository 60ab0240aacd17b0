"""What commands share on the terminal: where to print, and progress of long work."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column, Table

from hitnet.files import expand
from hitnet.training import distributed
from hitnet.training.progress import Progress


def make_console(*, stderr: bool = False) -> Console:
    """Prints names of files and classes as they are, without markup or emoji; breaks lines on a terminal alone."""
    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = 1000
    return made


console, errors = make_console(), make_console(stderr=True)


def make_table(*headers: str) -> Table:
    """A table without lines; what is too long for its column goes on below, so that no name is cut off."""
    return Table(*(Column(header, overflow="fold") for header in headers), box=None)


def fits(table: Table) -> bool:
    """Whether the terminal shows the table without folding its cells."""
    unbounded = console.options.update(max_width=sys.maxsize)
    return console.measure(table, options=unbounded).maximum <= console.width


def short_name(data: str) -> str:
    """What to call DATA in a line or a folder's name: a file goes by its name without the suffix, a folder by its whole
    name, "." and ".." by that of the folder they mean.
    """
    path = expand(data).resolve()
    return path.name if path.is_dir() else path.stem


def print_json(value: Any) -> None:
    """JSON on standard output, and nothing else there; in ASCII, which no encoding of the terminal changes."""
    print(json.dumps(value, indent=2))


class TrainingProgress(Progress):
    """A bar over all steps of the work, with its time left and last figures; silent where there is no terminal."""

    def __init__(self, title: str) -> None:
        self.bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=errors,
            disable=not errors.is_terminal or distributed.rank() > 0,
        )
        self.task = self.bar.add_task(title, total=None, figures="")

    def plan(self, steps: int) -> None:
        self.bar.update(self.task, total=steps, completed=0)

    def step(self) -> None:
        self.bar.advance(self.task)

    def epoch(self, row: dict[str, Any]) -> None:
        test = f", test error {row['test_error']:.2f} %" if "test_error" in row else ""
        self.bar.update(self.task, figures=f"epoch {row['epoch']}: loss {row['loss']:.4f}{test}")


@contextmanager
def training_progress(title: str) -> Iterator[TrainingProgress]:
    progress = TrainingProgress(title)
    with progress.bar:
        yield progress
