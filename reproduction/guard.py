"""The guard of a budget of time, which stops trainings that would exceed it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hitnet.models.network import Network
from hitnet.runtime.progress import Progress, Together, Training


class Guard(Progress):
    """Stops training where another epoch would exceed the budget, and reads networks after each epoch.

    Args:
        limit: The end of the budget by `clock`; None: no budget.
        read: Called after each epoch with run folder, epoch and network.
    """

    def __init__(
        self, limit: float | None, clock: Callable[[], float], read: Callable[[Path, int, Network], None]
    ) -> None:
        self.limit, self.clock, self.read = limit, clock, read

    def epoch(self, training: Training) -> None:
        row = training.history[-1]
        self.stop = self.stop or (self.limit is not None and self.clock() + row["seconds"] > self.limit)
        if training.folder is not None:
            self.read(training.folder, row["epoch"], training.network)


def guarded(progress: Progress | None, guard: Guard) -> Progress:
    """A guard beside the hooks that are given."""
    return guard if progress is None else Together([progress, guard])
