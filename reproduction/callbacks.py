"""What watches a training here: the guard of a budget of time, and the notes on a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hitnet import Network, Progress
from hitnet.runtime import Training
from reproduction.provenance import note_origin


class Guard(Progress):
    """Stops training where another epoch would exceed a budget of time.

    Args:
        limit: The end of the budget by `clock`; None: no budget.
    """

    def __init__(self, limit: float | None, clock: Callable[[], float]) -> None:
        self.limit, self.clock = limit, clock

    def epoch(self, training: Training) -> None:
        seconds = training.history[-1]["seconds"]
        self.stop = self.stop or (self.limit is not None and self.clock() + seconds > self.limit)


class Notes(Progress):
    """Notes where a run is trained, and reads ghosts after the epochs that an experiment names."""

    def __init__(self, device: str, read: Callable[[Path, int, Network], None]) -> None:
        self.device, self.read = device, read

    def start(self, training: Training) -> None:
        note_origin(Path(str(training.folder)), self.device)

    def epoch(self, training: Training) -> None:
        self.read(Path(str(training.folder)), len(training.history), training.network)
