"""Experiments beyond the paper: its network under a better recipe, and Hit-or-Miss on a residual network, beside the
same network with softmax and cross-entropy.

Each is meant to take at most 30 seconds a model on an H200, networks side by side; the ledger says what it took.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hitnet.paper.experiments import (
    AFFNIST,
    AFFNIST_EACH_EPOCH,
    CIFAR10,
    FASHION,
    MNIST,
    SVHN,
    DataFacts,
    Experiment,
    on,
)

# Written out, so that a better `fast` recipe leaves finished runs what they are.
PAPER_NETWORK: dict[str, Any] = {
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
BASE: dict[str, Any] = {
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
# What differs from that, by data set; digits are not mirrored.
RESNET9: dict[str, tuple[DataFacts, int, dict[str, Any]]] = {
    "mnist": (MNIST, 10, {"shift": 2, "cutout": 0, "warp": 0.15}),
    "fashion": (FASHION, 5, {"shift": 2, "flip": True}),
    "cifar10": (CIFAR10, 5, {"flip": True}),
    "svhn": (SVHN, 5, {"epochs": 42, "cutout": 8}),
}
# What each head has of its own.
CAPSULES, MISSES = {"capsule_dim": 32}, {"miss_weight": 2.0}
SOFTMAX, SMOOTHING = {"head": "softmax", "decoder": "none"}, {"label_smoothing": 0.1}


def resnet9(name: str, facts: DataFacts, wanted: int, options: dict[str, Any], **rest: Any) -> Experiment:
    return on(
        name,
        facts,
        wanted,
        network="hitnet-resnet9",
        recipe="fast",
        options=BASE | MISSES | options,
        model_options=CAPSULES,
        **rest,
    )


def pair(name: str) -> tuple[Experiment, Experiment]:
    """Hit-or-Miss, and softmax under the same recipe but for the loss."""
    facts, wanted, options = RESNET9[name]
    hit = resnet9(f"{name}-resnet9", facts, wanted, options)
    softmax = replace(
        hit,
        name=f"{hit.name}-softmax",
        title=f"ResNet-9 with softmax on {facts.title}",
        wanted=5,
        options=BASE | SMOOTHING | options,
        model_options=SOFTMAX,
    )
    return hit, softmax


TEACHER = on(
    "mnist-ours-teacher",
    MNIST,
    1,
    network="hitnet-conv",
    recipe="fast",
    options={**PAPER_NETWORK, "epochs": 12},
)
OURS: tuple[Experiment, ...] = (
    TEACHER,
    on(
        "mnist-ours",
        MNIST,
        10,
        how="our recipe",
        recipe="fast",
        teacher=TEACHER.name,
        options={**PAPER_NETWORK, "warp": 0.2, "augment": "hybrid", "augment_strength": 1.0, "augment_share": 0.25},
    ),
    *(one for name in RESNET9 for one in pair(name)),
    resnet9(
        "affnist-ours",
        AFFNIST,
        5,
        {"epochs": 24, "shift": 2, "cutout": 0},
        how="shifts",
        each_epoch=AFFNIST_EACH_EPOCH,
    ),
)
