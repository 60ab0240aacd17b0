"""The experiments: each is one network, one data set and one recipe, trained with several seeds.

First those of the paper, then our own. To add an experiment, add it to `PAPER_EXPERIMENTS` or `OUR_EXPERIMENTS`.
`wanted` says how many runs to make here, where the paper says "20 runs"; no result waits for an experiment that is
wanted 0 times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hitnet.errors import HitNetError
from hitnet.models import choose_model
from hitnet.paper.ledger import RUN, SHORT
from hitnet.training.recipes import Recipe, choose_recipe

Shape = tuple[int, int, int]
AFFNIST_EACH_EPOCH = 10_000  # testing on all 320,000 after each of 250 epochs would take longer than training


@dataclass(frozen=True)
class Experiment:
    """What to train, and how often; run `i` has seed `i`, counted from 0.

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

    def full_recipe(self) -> Recipe:
        """The recipe of a run that counts."""
        return choose_recipe(self.recipe, **self.options).complete(features=self.features)

    @property
    def features(self) -> str:
        """The name of the network's feature extractor."""
        return choose_model(self.network, **self.model_options).config(self.in_shape, self.classes).features

    @property
    def epochs(self) -> int:
        return self.full_recipe().epochs

    @property
    def tested_each_epoch(self) -> int:
        """How many images are tested after each epoch."""
        return self.each_epoch or self.test_images


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
        return (RUN, experiment.name, (seed,), "") if label is None else (SHORT, experiment.name, (seed,), label)


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
TITLES = {
    "n1": "Baseline (N1)",
    "n2": "CapsNet-like (N2)",
    "n2b": "N2b",
    "hitnet": "HitNet",
    "hitnet-squash": "HitNet with squash",
    "capsnet": "CapsNet",
    "hitnet-conv": "HitNet with a convolutional decoder",
    "hitnet-resnet9": "HitNet with ResNet-9",
}


def experiment_on(
    facts: DataFacts, name: str, wanted: int, *, network: str = "hitnet", how: str = "", **rest: Any
) -> Experiment:
    """An experiment on a whole data set; `how` is added to its title."""
    title = f"{TITLES[network]} on {facts.title}{', ' + how if how else ''}"
    return Experiment(name, title, network, facts.data, facts.images, facts.test_images, facts.in_shape, wanted, **rest)


GHOSTS = {"ghosts": 1, "ghost_rule": "always"}
# "Networks trained from scratch on such data": which part of the images, and how far, the paper does not say.
ALL, QUARTER = ({"augment": "hybrid", "augment_strength": 1.0, "augment_share": share} for share in (1.0, 0.25))

PAPER_EXPERIMENTS: tuple[Experiment, ...] = (
    *(
        experiment_on(MNIST, f"mnist-{network}-constant", wanted, network=network, how="constant rate")
        for network, wanted in {"n1": 5, "n2": 5, "n2b": 5, "hitnet": 20}.items()
    ),
    *(
        experiment_on(
            MNIST, f"mnist-{network}-decay", wanted, network=network, how="decreasing rate", recipe="paper-decay"
        )
        for network, wanted in {"n1": 3, "n2": 3, "n2b": 3, "hitnet": 10}.items()
    ),
    experiment_on(FASHION, "fashion-hitnet", 5),
    experiment_on(CIFAR10, "cifar10-hitnet", 3),
    experiment_on(SVHN, "svhn-hitnet", 3),
    experiment_on(AFFNIST, "affnist-hitnet", 3, how="no shifts", options={"shift": 0}, each_epoch=AFFNIST_EACH_EPOCH),
    experiment_on(AFFNIST, "affnist-hitnet-shifts", 3, how="shifts", each_epoch=AFFNIST_EACH_EPOCH),
    experiment_on(MNIST, "mnist-squash", 3, network="hitnet-squash"),
    experiment_on(MNIST, "mnist-hybrid", 5, how="all images modified", options=ALL, teacher="mnist-hitnet-constant"),
    experiment_on(FASHION, "fashion-hybrid", 3, how="all images modified", options=ALL, teacher="fashion-hitnet"),
    *(
        experiment_on(
            facts,
            f"{name}-hybrid-quarter",
            wanted,
            how="a quarter of the images modified",
            options=QUARTER,
            teacher=teacher,
        )
        for name, facts, wanted, teacher in (
            ("mnist", MNIST, 5, "mnist-hitnet-constant"),
            ("fashion", FASHION, 5, "fashion-hitnet"),
            ("cifar10", CIFAR10, 0, "cifar10-hitnet"),
            ("svhn", SVHN, 0, "svhn-hitnet"),
        )
    ),
    experiment_on(
        MNIST,
        "mnist-hybrid-decay",
        0,
        how="a quarter of the images modified, decreasing rate",
        recipe="paper-decay",
        options=QUARTER,
        teacher="mnist-hitnet-constant",
    ),
    *(
        experiment_on(
            facts,
            name,
            20,
            how=f"ghosts, {epochs[-1]} epochs",
            options={**GHOSTS, "epochs": epochs[-1]},
            read_ghosts=epochs,
        )
        for name, facts, epochs in (
            ("mnist-ghosts", MNIST, (60,)),
            ("mnist-ghosts-250", MNIST, (2, 4, 6, 8, 10, 15, 20, 30, 60, 120, 250)),
            ("svhn-ghosts", SVHN, (60,)),
        )
    ),
    # For their speed.
    experiment_on(MNIST, "mnist-capsnet", 2, network="capsnet", how="50 epochs", options={"epochs": 50}),
    experiment_on(MNIST, "mnist-hitnet-50", 2, how="50 epochs", options={"epochs": 50}),
)

# Our own: the paper's network under a better recipe, and Hit-or-Miss on a residual network, beside the same network
# with softmax and cross-entropy. Each is meant to take at most 30 seconds per model on an H200, networks side by side.
# Recipes are written out, so that a better `fast` recipe leaves finished runs as they are.
OUR_RECIPE: dict[str, Any] = {
    "epochs": 96,
    "batch_size": 128,
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "schedule": "cosine",
    "weight_decay": 0.0,
    "shift": 2,
    "flip": False,
    "cutout": 0,
    "miss_weight": 2.0,
}
RESNET9_RECIPE: dict[str, Any] = {
    "epochs": 70,
    "batch_size": 256,
    "optimizer": "sgd",
    "learning_rate": 0.2,
    "schedule": "one-cycle",
    "weight_decay": 5e-4,
    "shift": 4,
    "flip": False,
    "cutout": 12,
}
# Runs wanted, and what differs from that recipe, by data set; digits are not mirrored.
RESNET9_DATA: dict[str, tuple[DataFacts, int, dict[str, Any]]] = {
    "mnist": (MNIST, 10, {"shift": 2, "cutout": 0, "warp": 0.15}),
    "fashion": (FASHION, 5, {"shift": 2, "flip": True}),
    "cifar10": (CIFAR10, 5, {"flip": True}),
    "svhn": (SVHN, 5, {"epochs": 42, "cutout": 8}),
}
# The model options and the recipe options of each head.
CAPSULE_HEAD, CAPSULE_LOSS = {"capsule_dim": 32}, {"miss_weight": 2.0}
SOFTMAX_HEAD, SOFTMAX_LOSS = {"head": "softmax", "decoder": "none"}, {"label_smoothing": 0.1}


def resnet9_experiment(facts: DataFacts, name: str, wanted: int, options: dict[str, Any], **rest: Any) -> Experiment:
    """Hit-or-Miss on ResNet-9; `options` are those in which the data set's recipe differs."""
    return experiment_on(
        facts,
        name,
        wanted,
        network="hitnet-resnet9",
        recipe="fast",
        options=RESNET9_RECIPE | CAPSULE_LOSS | options,
        model_options=CAPSULE_HEAD,
        **rest,
    )


def resnet9_pair(name: str) -> tuple[Experiment, Experiment]:
    """Hit-or-Miss and softmax on the same network, under the same recipe except for the loss."""
    facts, wanted, options = RESNET9_DATA[name]
    capsules = resnet9_experiment(facts, f"{name}-resnet9", wanted, options)
    softmax = replace(
        capsules,
        name=f"{capsules.name}-softmax",
        title=f"ResNet-9 with softmax on {facts.title}",
        wanted=5,
        options=RESNET9_RECIPE | SOFTMAX_LOSS | options,
        model_options=SOFTMAX_HEAD,
    )
    return capsules, softmax


OUR_TEACHER = experiment_on(
    MNIST, "mnist-ours-teacher", 1, network="hitnet-conv", recipe="fast", options={**OUR_RECIPE, "epochs": 12}
)
OUR_EXPERIMENTS: tuple[Experiment, ...] = (
    OUR_TEACHER,
    experiment_on(
        MNIST,
        "mnist-ours",
        10,
        how="our recipe",
        recipe="fast",
        teacher=OUR_TEACHER.name,
        options={**OUR_RECIPE, "warp": 0.2, "augment": "hybrid", "augment_strength": 1.0, "augment_share": 0.25},
    ),
    *(experiment for name in RESNET9_DATA for experiment in resnet9_pair(name)),
    resnet9_experiment(
        AFFNIST,
        "affnist-ours",
        5,
        {"epochs": 24, "shift": 2, "cutout": 0},
        how="shifts",
        each_epoch=AFFNIST_EACH_EPOCH,
    ),
)
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (*PAPER_EXPERIMENTS, *OUR_EXPERIMENTS)
}
