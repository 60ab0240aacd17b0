"""What watches a training here: the guard of a budget of time, and the notes on a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hitnet import Callback, Network, Progress, Training
from reproduction.provenance import note_origin


class Guard(Progress):
    """Passes on the progress of training, and stops it where another epoch would exceed a budget of time.

    Args:
        inner: Receives all progress.
        end: The end of the budget by `clock`; None: no budget.
    """

    def __init__(self, inner: Progress, end: float | None, clock: Callable[[], float]) -> None:
        self.inner, self.end, self.clock = inner, end, clock

    def plan(self, steps: int) -> None:
        self.inner.plan(steps)

    def step(self) -> None:
        self.inner.step()

    def epoch(self, row: dict[str, Any]) -> None:
        self.inner.epoch(row)
        late = self.end is not None and self.clock() + row["seconds"] > self.end
        self.stop = self.stop or self.inner.stop or late


class Notes(Callback):
    """Notes where a run is trained, and reads ghosts after the epochs that an experiment names."""

    def __init__(self, device: str, read: Callable[[Path, int, Network], None]) -> None:
        self.device, self.read = device, read

    def start(self, training: Training) -> None:
        note_origin(Path(str(training.folder)), self.device)

    def epoch(self, training: Training) -> None:
        self.read(Path(str(training.folder)), len(training.history), training.network)
