"""The guard of a budget of time, which stops trainings that would exceed it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hitnet.models.network import Network
from hitnet.runtime.progress import Progress


class Guard(Progress):
    """Passes on the progress of training, and stops it where another epoch would exceed the budget.

    Args:
        inner: Receives all progress.
        end: The end of the budget by `clock`; None: no budget.
        read: Called after each epoch with run folder, epoch and network.
    """

    def __init__(
        self,
        inner: Progress,
        end: float | None,
        clock: Callable[[], float],
        read: Callable[[Path, int, Network], None],
    ) -> None:
        self.inner, self.end, self.clock, self.read = inner, end, clock, read

    def plan(self, steps: int) -> None:
        self.inner.plan(steps)

    def step(self) -> None:
        self.inner.step()

    def epoch(self, row: dict[str, Any]) -> None:
        self.inner.epoch(row)
        late = self.end is not None and self.clock() + row["seconds"] > self.end
        self.stop = self.stop or self.inner.stop or late

    def network(self, folder: Path | None, epoch: int, network: Network) -> None:
        self.inner.network(folder, epoch, network)
        if folder is not None:
            self.read(folder, epoch, network)
