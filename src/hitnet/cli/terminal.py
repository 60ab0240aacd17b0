"""What commands share on the terminal: where to print, and progress of long work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hitnet.training.engine import Trainer

console = Console()
errors = Console(stderr=True)


def print_json(value: Any) -> None:
    """JSON on standard output, and nothing else there."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


class TrainingProgress:
    """A bar over all steps of a training, with its time left and last figures; silent where there is no terminal."""

    def __init__(self, title: str) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=errors,
            disable=not errors.is_terminal,
        )
        self.title = title
        self.task = self.progress.add_task(title, total=None, figures="")

    def start(self, trainer: Trainer) -> None:
        total = trainer.recipe.epochs * trainer.steps_per_epoch
        self.progress.update(self.task, total=total, completed=0)
        self.epochs = trainer.recipe.epochs

    def step(self) -> None:
        self.progress.advance(self.task)

    def epoch(self, row: dict[str, Any]) -> None:
        test = f", test error {row['test_error']:.2f} %" if "test_error" in row else ""
        figures = f"epoch {row['epoch']}/{self.epochs}: loss {row['loss']:.4f}{test}"
        self.progress.update(self.task, figures=figures)

    @property
    def callbacks(self) -> dict[str, Any]:
        return {"on_start": self.start, "on_step": self.step, "on_epoch": self.epoch}


@contextmanager
def training_progress(title: str) -> Iterator[TrainingProgress]:
    bar = TrainingProgress(title)
    with bar.progress:
        yield bar
