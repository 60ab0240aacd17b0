"""Experiments beyond the paper's own: DropConnect, which it quotes, its proposals for ghosts, our own recipes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reproduction.experiments import (
    AFFNIST,
    AFFNIST_EACH_EPOCH,
    CIFAR10,
    FASHION,
    MNIST,
    SAMPLE,
    SVHN,
    DataFacts,
    Experiment,
    experiment_on,
)

# The other system that the paper compares with. The augmentation is theirs; a random crop of 24 from 28 pixels is a
# shift of up to 2, as the paper says too. How far they turn and scale, and the recipe, is ours.
DROPCONNECT_RECIPE: dict[str, Any] = {
    "epochs": 150,
    "batch_size": 128,
    "optimizer": "sgd",
    "learning_rate": 0.02,
    "schedule": "one-cycle",
    "weight_decay": 5e-4,
}
DROPCONNECT = tuple(
    experiment_on(
        MNIST,
        f"mnist-dropconnect{name}",
        5,
        network="dropconnect",
        how=how,
        recipe="fast",
        options={**DROPCONNECT_RECIPE, **options},
        committees=1,
    )
    for name, how, options in (
        ("", "no augmentation", {"shift": 0}),
        ("-crops", "random crops", {"shift": 2}),
        ("-all", "random crops, rotation and scaling", {"shift": 2, "rotate": 15.0, "scale": 0.15}),
    )
)
# Top-k by ghosts, which the paper proposes in its conclusion.
TOP_K = tuple(
    experiment_on(
        CIFAR10,
        f"cifar10-top-{count}",
        3,
        how=f"{count or 'no'} ghost{'' if count == 1 else 's'}, 60 epochs",
        options={"epochs": 60, "ghosts": count},
        top_k=5,
    )
    for count in (0, 1, 2)
)
# When ghosts are allowed, which the paper proposes there too: small enough for a CPU.
GHOST_TIMES = tuple(
    experiment_on(
        SAMPLE,
        f"sample-ghosts-{name}",
        3,
        network="hitnet-small",
        how=how,
        options={"epochs": 10, **options},
        model_options={"norm": "shared"},
        read_ghosts=(2, 4, 6, 8, 10),
    )
    for name, how, options in (
        ("none", "no ghosts", {}),
        ("always", "ghosts from the first epoch on", {"ghosts": 1}),
        ("late", "ghosts from epoch 6 on", {"ghosts": 1, "ghosts_from_epoch": 6}),
        ("half", "ghosts in half of the cases", {"ghosts": 1, "ghost_probability": 0.5}),
    )
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
    "mnist": (MNIST, 45, {"shift": 2, "cutout": 0, "warp": 0.15}),
    "fashion": (FASHION, 5, {"shift": 2, "flip": True}),
    "cifar10": (CIFAR10, 5, {"flip": True}),
    "svhn": (SVHN, 5, {"epochs": 42, "cutout": 8}),
}


def resnet9_experiment(facts: DataFacts, name: str, wanted: int, options: dict[str, Any], **rest: Any) -> Experiment:
    """Hit-or-Miss on ResNet-9; `options` are those in which the data set's recipe differs."""
    return experiment_on(
        facts,
        name,
        wanted,
        network="hitnet-resnet9",
        recipe="fast",
        options={**RESNET9_RECIPE, "miss_weight": 2.0, **options},
        model_options={"capsule_dim": 32, "norm": "each"},
        **rest,
    )


def resnet9_pair(name: str) -> tuple[Experiment, Experiment]:
    """Hit-or-Miss and softmax on the same network, under the same recipe except for the loss."""
    facts, wanted, options = RESNET9_DATA[name]
    capsules = resnet9_experiment(facts, f"{name}-resnet9", wanted, options, committees=5 if facts is MNIST else 0)
    softmax = replace(
        capsules,
        committees=0,
        name=f"{capsules.name}-softmax",
        title=f"ResNet-9 with softmax on {facts.title}",
        wanted=5,
        options={**RESNET9_RECIPE, "label_smoothing": 0.1, **options},
        model_options={"head": "softmax", "decoder": "none"},
    )
    return capsules, softmax


OUR_TEACHER = experiment_on(
    MNIST, "mnist-ours-teacher", 1, network="hitnet-conv", recipe="fast", options={**OUR_RECIPE, "epochs": 12}
)
OURS = (
    OUR_TEACHER,
    experiment_on(
        MNIST,
        "mnist-ours",
        10,
        how="our recipe",
        recipe="fast",
        teacher=OUR_TEACHER.name,
        options={**OUR_RECIPE, "warp": 0.2, "augment": "hybrid", "augment_strength": 1.0, "augment_share": 0.25},
        model_options={"norm": "each"},
    ),
    *(experiment for name in RESNET9_DATA for experiment in resnet9_pair(name)),
    resnet9_experiment(
        AFFNIST, "affnist-ours", 5, {"epochs": 24, "shift": 2, "cutout": 0}, how="shifts", each_epoch=AFFNIST_EACH_EPOCH
    ),
)
