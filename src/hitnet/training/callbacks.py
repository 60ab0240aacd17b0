"""Callbacks: code of the user that is called while a network trains."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hitnet.models.network import Network
from hitnet.training.recipes import Recipe
from hitnet.training.run_folder import History


@dataclass(frozen=True)
class Training:
    """A network in training, as callbacks see it.

    Attributes:
        network: The network that is tested and kept, as it is now. It must not be changed.
        history: One row per epoch so far, those before a `resume` included.
        recipe: How it is trained.
        seed: The seed of the training.
        folder: The run folder, if there is one.
    """

    network: Network
    history: History
    recipe: Recipe
    seed: int
    folder: Path | None


class Callback:
    """Called while a network trains. Every method does nothing; override those of interest.

    `train_many` calls the same callback for each of its networks: `training` says which one it is. Of several processes
    that train a network together, only the first calls.
    """

    def start(self, training: Training) -> None:
        """Called before the first step, also when a run is resumed."""

    def epoch(self, training: Training) -> None:
        """Called after each epoch; `training.history[-1]` is its row."""

    def end(self, training: Training) -> None:
        """Called when training ends, also by an error or an interruption."""
