"""Progress of long-running work: one class of hooks for training, audits and the extraction of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hitnet.models.network import Network
    from hitnet.training.recipes import Recipe


@dataclass(frozen=True)
class Training:
    """A network in training, as hooks see it.

    Attributes:
        network: The network that is tested and kept, as it is now. It must not be changed.
        history: One row per epoch so far, those before a `resume` included.
        recipe: How it is trained.
        seed: The seed of the training.
        folder: The run folder, if there is one.
    """

    network: Network
    history: list[dict[str, Any]]
    recipe: Recipe
    seed: int
    folder: Path | None


class Progress:
    """Hooks into long-running work. Every method does nothing; override those of interest.

    `train_many` calls the same hooks for each of its networks: `training` says which one it is. Of several processes
    that train a network together, only the first calls.

    Attributes:
        stop: Set it to True to end every training after its current epoch, with a checkpoint in its run folder.
    """

    stop: bool = False

    def plan(self, parts: Mapping[str, float]) -> None:
        """Called before work of several parts, with their names and how long each takes relative to the others.

        It is called again, for what is left, once more is known.
        """

    def part(self, name: str, steps: int | None = None, unit: str = "steps") -> None:
        """Called when a part of the work begins; `steps` is None if their number is not known."""

    def step(self, count: int = 1) -> None:
        """Called after `count` more steps of the current part."""

    def start(self, training: Training) -> None:
        """Called before the first step of a training, also when a run is resumed."""

    def epoch(self, training: Training) -> None:
        """Called after each epoch of a training; `training.history[-1]` is its row."""

    def end(self, training: Training) -> None:
        """Called when a training ends, also by an error or an interruption."""


class Together(Progress):
    """Several hooks as one; each of them may stop the work."""

    def __init__(self, hooks: Sequence[Progress]) -> None:
        self.hooks = hooks
        for name in ("plan", "part", "step", "start", "epoch", "end"):
            setattr(self, name, partial(self._call_all, name))

    def _call_all(self, name: str, *arguments: Any) -> None:
        for hook in self.hooks:
            getattr(hook, name)(*arguments)

    @property
    def stop(self) -> bool:  # type: ignore[override]
        return any(hook.stop for hook in self.hooks)


class Stopped(Exception):
    """Ends a training that was asked to stop; it can be resumed from its run folder."""
