"""Progress bars of long work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.text import Text

from hitnet.cli.terminal import errors, printable
from hitnet.runtime import ranks
from hitnet.runtime.progress import Progress


class SpeedColumn(ProgressColumn):
    """Steps or images per second."""

    def render(self, task: Task) -> Text:
        return Text("" if not task.speed else f"{task.speed:,.3g}/s")


class TrainingProgress(Progress):
    """A bar over all steps of the work, with its time left and last figures; silent where there is no terminal."""

    def __init__(self, title: str) -> None:
        self.bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            SpeedColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=errors,
            disable=not errors.is_terminal or ranks.rank() > 0,
        )
        self.task = self.bar.add_task(printable(title), total=None, figures="")

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
