"""The runs behind the paper's results: each experiment is one network, one data set and one recipe, over seeds.

Where the paper says "20 runs", `wanted` says how many are to be made here; an experiment that is wanted 0 times is
known, but no result waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hitnet import models
from hitnet.training.recipe import Recipe
from hitnet.training.recipe import recipe as find_recipe

Shape = tuple[int, int, int]
AFFNIST_EACH_EPOCH = 10_000  # testing on all 320,000 after each of 250 epochs would take longer than training


@dataclass(frozen=True)
class Experiment:
    """What to train, and how often; run `i` has seed `i`, counted from 0.

    images, test_images  how many the whole data set has: a run on fewer is a short one
    options              entries of the recipe that differ from the one that is named
    model_options        entries of the network's configuration that differ from the one that is named
    teacher              the experiment whose run with seed 0 modifies the images (hybrid augmentation)
    each_epoch           test on so many images after each epoch, and on all of them at the end
    read_ghosts          after which epochs the ghosts of all training images are read, for the analysis over all runs;
                         the last is the end
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
        return find_recipe(self.recipe, features=self.features, **self.options)

    @property
    def features(self) -> str:
        return models.config(self.network, self.in_shape, self.classes, **self.model_options).features

    @property
    def epochs(self) -> int:
        return self.full_recipe().epochs

    @property
    def tested_each_epoch(self) -> int:
        return self.each_epoch or self.test_images


@dataclass(frozen=True)
class DataFacts:
    """A data set as experiments count it."""

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


def on(name: str, facts: DataFacts, wanted: int, *, network: str = "hitnet", how: str = "", **rest: Any) -> Experiment:
    title = f"{TITLES[network]} on {facts.title}{', ' + how if how else ''}"
    return Experiment(name, title, network, facts.data, facts.images, facts.test_images, facts.in_shape, wanted, **rest)


GHOSTS = {"ghosts": 1, "ghost_rule": "always"}
# "Networks trained from scratch on such data": which part of the images, and how far, the paper does not say.
ALL, QUARTER = ({"augment": "hybrid", "augment_strength": 1.0, "augment_share": share} for share in (1.0, 0.25))

EXPERIMENTS: tuple[Experiment, ...] = (
    *(
        on(f"mnist-{network}-constant", MNIST, wanted, network=network, how="constant rate")
        for network, wanted in {"n1": 5, "n2": 5, "n2b": 5, "hitnet": 20}.items()
    ),
    *(
        on(f"mnist-{network}-decay", MNIST, wanted, network=network, how="decreasing rate", recipe="paper-decay")
        for network, wanted in {"n1": 3, "n2": 3, "n2b": 3, "hitnet": 10}.items()
    ),
    on("fashion-hitnet", FASHION, 5),
    on("cifar10-hitnet", CIFAR10, 3),
    on("svhn-hitnet", SVHN, 3),
    on("affnist-hitnet", AFFNIST, 3, how="no shifts", options={"shift": 0}, each_epoch=AFFNIST_EACH_EPOCH),
    on("affnist-hitnet-shifts", AFFNIST, 3, how="shifts", each_epoch=AFFNIST_EACH_EPOCH),
    on("mnist-squash", MNIST, 3, network="hitnet-squash"),
    on("mnist-hybrid", MNIST, 5, how="all images modified", options=ALL, teacher="mnist-hitnet-constant"),
    on("fashion-hybrid", FASHION, 3, how="all images modified", options=ALL, teacher="fashion-hitnet"),
    *(
        on(
            f"{name}-hybrid-quarter",
            facts,
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
    on(
        "mnist-hybrid-decay",
        MNIST,
        0,
        how="a quarter of the images modified, decreasing rate",
        recipe="paper-decay",
        options=QUARTER,
        teacher="mnist-hitnet-constant",
    ),
    *(
        on(name, facts, 20, how=f"ghosts, {read[-1]} epochs", options={**GHOSTS, "epochs": read[-1]}, read_ghosts=read)
        for name, facts, read in (
            ("mnist-ghosts", MNIST, (60,)),
            ("mnist-ghosts-250", MNIST, (2, 4, 6, 8, 10, 15, 20, 30, 60, 120, 250)),
            ("svhn-ghosts", SVHN, (60,)),
        )
    ),
    # For their speed.
    on("mnist-capsnet", MNIST, 2, network="capsnet", how="50 epochs", options={"epochs": 50}),
    on("mnist-hitnet-50", MNIST, 2, how="50 epochs", options={"epochs": 50}),
)
