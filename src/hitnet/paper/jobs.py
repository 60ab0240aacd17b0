"""What is to be run: experiments with their seeds, whole or shortened."""

from __future__ import annotations

from dataclasses import dataclass

from hitnet.errors import HitNetError
from hitnet.paper.experiments import Experiment
from hitnet.paper.ledger import RUN, SHORT


@dataclass(frozen=True)
class Job:
    """One run of an experiment."""

    experiment: Experiment
    seed: int

    def __hash__(self) -> int:
        return hash((self.experiment.name, self.seed))


@dataclass(frozen=True)
class Length:
    """How much of an experiment is asked for: all of it, or fewer epochs or images; of a teacher, at most all."""

    epochs: int | None = None
    limit: int | None = None

    def check(self, one: Experiment) -> None:
        if self.epochs is not None and self.epochs > one.epochs:
            raise HitNetError(
                f"{one.name} is {one.epochs} epochs long; --epochs can only make it shorter, and {self.epochs} is more."
            )

    def epochs_of(self, one: Experiment) -> int:
        return min(self.epochs or one.epochs, one.epochs)

    def images_of(self, one: Experiment) -> int:
        return min(self.limit or one.images, one.images)

    def tests_of(self, one: Experiment) -> int:
        """How many test images: no more than the training images that a run is limited to."""
        limited = self.images_of(one) < one.images
        return min(self.images_of(one), one.test_images) if limited else one.test_images

    def of(self, one: Experiment) -> str | None:
        """What a shortened run is called; None where it is as long as the experiment itself."""
        epochs, images = self.epochs_of(one), self.images_of(one)
        if (epochs, images) == (one.epochs, one.images):
            return None
        return f"{epochs} epochs, {images} images"

    def key(self, one: Experiment, seed: int) -> tuple[str, str, tuple[int, ...], str]:
        """Arguments of `Ledger.get` for a run of this length."""
        label = self.of(one)
        return (RUN, one.name, (seed,), "") if label is None else (SHORT, one.name, (seed,), label)
