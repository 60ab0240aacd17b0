"""Progress callbacks for long-running work."""

from __future__ import annotations

from typing import Any


class Progress:
    """Callbacks of a training, which do nothing; override those of interest.

    Attributes:
        stop: Set it to True to end every training after its current epoch, with a checkpoint in its run folder.
    """

    stop = False

    def plan(self, steps: int) -> None:
        """Called before the first training, with the number of steps in all."""

    def step(self) -> None:
        """Called after each step."""

    def epoch(self, row: dict[str, Any]) -> None:
        """Called after each epoch, with its row of history."""


class Stopped(Exception):
    """Ends a training that was asked to stop; it can be resumed from its run folder."""
