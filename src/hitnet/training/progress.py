"""How long work tells its caller how far it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hitnet.models.network import Network


class Progress:
    """Told of everything that happens in training, and silent; override what is of interest.

    plan     before the first training: how many steps are to be done in all
    step     after each step
    epoch    after each epoch, with its row of history
    network  after each epoch, with the network as it stands, to be left as it is, and its run folder (None without)

    Once `stop` is True, every training ends with its epoch, after a checkpoint in its run folder.
    """

    stop = False

    def plan(self, steps: int) -> None:
        pass

    def step(self) -> None:
        pass

    def epoch(self, row: dict[str, Any]) -> None:
        pass

    def network(self, folder: Path | None, epoch: int, network: Network) -> None:
        pass


class Stopped(Exception):
    """Ends a training that was asked to stop; its run folder says where it stands."""
