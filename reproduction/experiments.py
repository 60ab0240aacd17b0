"""What an experiment is: one network, one data set and one recipe, trained with several seeds (list: plan.py).

`wanted` says how many runs to make here, where the paper says "20 runs"; no result waits for an experiment that is
wanted 0 times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hitnet import HitNetError, ModelConfig, Recipe, choose_model, choose_recipe
from reproduction import affnist, dropconnect, networks  # noqa: F401 (registers them)
from reproduction.ledger import RUN, SHORT

Shape = tuple[int, int, int]
COMMITTEE = 5  # networks, as in Wan et al.
AFFNIST_EACH_EPOCH = 10_000  # testing on all 320,000 after each of 250 epochs would take longer than training


@dataclass(frozen=True)
class Experiment:
    """What to train, and how often, with seeds that follow each other.

    Attributes:
        images: Training images of the whole data set; a run on fewer is a short run.
        test_images: Test images of the whole data set.
        wanted: How many runs to make.
        options: Entries that differ from the named recipe.
        model_options: Entries that differ from the named network's configuration.
        teacher: The experiment whose run with seed 0 modifies the images (hybrid augmentation).
        each_epoch: Test on this many images after each epoch, and on all of them at the end; None: on all each time.
        read_ghosts: After which epochs the ghosts of all training images are read, for the analysis over all runs;
            the last one is the end of training.
        arm_of: The experiment of the paper that this is another reading of. Such an arm has its row in a table of its
            own, and never counts as the paper's cell.
        reading: What an arm does differently, in words.
        committees: How many committees of five networks judge together: those of the last seeds, no network twice.
        top_k: Count the test images whose class is not among the first 1, 2, … k.
        first_seed: The seed of the first run.
    """

    name: str
    title: str
    network: str
    data: str
    images: int
    test_images: int
    in_shape: Shape
    wanted: int
    recipe: str = "paper"
    options: Mapping[str, Any] = field(default_factory=dict)
    model_options: Mapping[str, Any] = field(default_factory=dict)
    classes: int = 10
    teacher: str | None = None
    each_epoch: int | None = None
    read_ghosts: tuple[int, ...] = ()
    arm_of: str | None = None
    reading: str = ""
    committees: int = 0
    top_k: int = 0
    first_seed: int = 0

    def seeds(self, runs: int | None = None) -> range:
        """The seeds of the first runs; None: of as many as are wanted."""
        return range(self.first_seed, self.first_seed + (self.wanted if runs is None else runs))

    @property
    def committee_seeds(self) -> list[tuple[int, ...]]:
        """The seeds of each committee."""
        last = self.seeds()[self.wanted - COMMITTEE * self.committees :]
        return [tuple(last[i : i + COMMITTEE]) for i in range(0, len(last), COMMITTEE)]

    def full_recipe(self) -> Recipe:
        """The recipe of a run that counts."""
        return choose_recipe(self.recipe, **self.options).complete(features=self.features)

    @cached_property
    def model(self) -> ModelConfig:
        """The network's configuration."""
        return choose_model(self.network, **self.model_options).config(self.in_shape, self.classes)

    @property
    def full_options(self) -> dict[str, Any]:
        """The network's options in full, as a record has them."""
        return network_options(self.model)

    @property
    def features(self) -> str:
        """The name of the network's feature extractor."""
        return self.model.features

    @cached_property
    def epochs(self) -> int:
        return self.full_recipe().epochs

    @property
    def tested_each_epoch(self) -> int:
        """How many images are tested after each epoch."""
        return self.each_epoch or self.test_images


def network_options(config: ModelConfig) -> dict[str, Any]:
    """A network's options, apart from the shape of its images, its number of classes and what only backbones have."""
    left_out = ("in_shape", "num_classes", "typical")
    return {name: value for name, value in config.to_dict().items() if name not in left_out}


@dataclass(frozen=True)
class PlannedRun:
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

    def check(self, experiment: Experiment) -> None:
        """Raise HitNetError if this is longer than the experiment."""
        if self.epochs is not None and self.epochs > experiment.epochs:
            raise HitNetError(
                f"{experiment.name} has {experiment.epochs} epochs, and `epochs` can only shorten it; "
                f"got {self.epochs}."
            )

    def epochs_of(self, experiment: Experiment) -> int:
        return min(self.epochs or experiment.epochs, experiment.epochs)

    def images_of(self, experiment: Experiment) -> int:
        return min(self.limit or experiment.images, experiment.images)

    def tests_of(self, experiment: Experiment) -> int:
        """How many test images: no more than the training images that a run is limited to."""
        images = self.images_of(experiment)
        return min(images, experiment.test_images) if images < experiment.images else experiment.test_images

    def short_label(self, experiment: Experiment) -> str | None:
        """The label of a shortened run; None for a run of full length."""
        epochs, images = self.epochs_of(experiment), self.images_of(experiment)
        if (epochs, images) == (experiment.epochs, experiment.images):
            return None
        return f"{epochs} epochs, {images} images"

    def ledger_key(self, experiment: Experiment, seed: int) -> tuple[str, str, tuple[int, ...], str]:
        """Arguments of `Ledger.get` for a run of this length."""
        label = self.short_label(experiment)
        kind = RUN if label is None else SHORT
        return kind, experiment.name, (seed,), label or ""


@dataclass(frozen=True)
class DataFacts:
    """The size and shape of a whole data set."""

    data: str
    title: str
    images: int
    test_images: int
    in_shape: Shape


MNIST = DataFacts("mnist", "MNIST", 60_000, 10_000, (1, 28, 28))
FASHION = DataFacts("fashion-mnist", "Fashion-MNIST", 60_000, 10_000, (1, 28, 28))
CIFAR10 = DataFacts("cifar10", "CIFAR-10", 50_000, 10_000, (3, 32, 32))
SVHN = DataFacts("svhn", "SVHN", 73_257, 26_032, (3, 32, 32))
AFFNIST = DataFacts("affnist", "affNIST", 60_000, 320_000, (1, 40, 40))
SAMPLE = DataFacts("mnist-sample", "8,000 of MNIST's test digits", 8_000, 2_000, (1, 28, 28))  # comes with hitnet
TITLES = {
    "n1": "Baseline (N1)",
    "n2": "CapsNet-like (N2)",
    "n2b": "N2b",
    "hitnet": "HitNet",
    "hitnet-squash": "HitNet with squash",
    "capsnet": "CapsNet",
    "hitnet-conv": "HitNet with a convolutional decoder",
    "hitnet-resnet9": "HitNet with ResNet-9",
    "hitnet-small": "A small HitNet",
    "dropconnect": "DropConnect network",
}


def experiment_on(
    facts: DataFacts, name: str, wanted: int, *, network: str = "hitnet", how: str = "", **rest: Any
) -> Experiment:
    """An experiment on a whole data set; `how` is added to its title."""
    title = f"{TITLES[network]} on {facts.title}{', ' + how if how else ''}"
    return Experiment(name, title, network, facts.data, facts.images, facts.test_images, facts.in_shape, wanted, **rest)
