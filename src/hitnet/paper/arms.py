"""Arms: readings of the paper that are tried beside its own words, to find out what its figures come from.

An arm is trained and recorded like any experiment, but never counted as the paper's cell. Its row on the page stands
beside the paper's figure and ours.
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
    experiment_on,
)

NEAREST_3 = {"shift": 3, "shift_fill": "nearest"}
TEACHER_EPOCHS = 60


def arm(facts: DataFacts, name: str, wanted: int, arm_of: str, reading: str, **rest: Any) -> Experiment:
    """An arm on a whole data set."""
    return experiment_on(facts, name, wanted, how=reading, arm_of=arm_of, reading=reading, **rest)


# The CapsNet code that the authors cite and time themselves against shifts by up to a tenth of the side (2.8, 3.2 and 4
# pixels) and fills with the nearest pixel.
SHIFT_ARMS: tuple[Experiment, ...] = (
    arm(CIFAR10, "cifar10-shift3-nearest", 3, "cifar10-hitnet", "shifts of 3, nearest pixel", options=NEAREST_3),
    arm(CIFAR10, "cifar10-shift3", 3, "cifar10-hitnet", "shifts of 3, zeros", options={"shift": 3}),
    arm(
        CIFAR10,
        "cifar10-shift2-nearest",
        3,
        "cifar10-hitnet",
        "shifts of 2, nearest pixel",
        options={"shift_fill": "nearest"},
    ),
    arm(SVHN, "svhn-shift3-nearest", 3, "svhn-hitnet", "shifts of 3, nearest pixel", options=NEAREST_3),
    arm(
        AFFNIST,
        "affnist-shift4",
        3,
        "affnist-hitnet-shifts",
        "shifts of 4, zeros",
        options={"shift": 4},
        each_epoch=AFFNIST_EACH_EPOCH,
    ),
    arm(MNIST, "mnist-shift3", 5, "mnist-hitnet-constant", "shifts of 3, zeros", options={"shift": 3}),
    arm(FASHION, "fashion-shift3-nearest", 3, "fashion-hitnet", "shifts of 3, nearest pixel", options=NEAREST_3),
)

# Networks that were trained for a shorter time modify images with less harm (benchmarks/TRIALS.md).
TEACHERS: tuple[Experiment, ...] = tuple(
    arm(
        facts,
        f"{name}-60",
        1,
        arm_of,
        "60 epochs; modifies the images of hybrid arms",
        options={"epochs": TEACHER_EPOCHS, **options},
    )
    for facts, name, arm_of, options in (
        (MNIST, "mnist-hitnet", "mnist-hitnet-constant", {}),
        (FASHION, "fashion-hitnet", "fashion-hitnet", {}),
        (CIFAR10, "cifar10-shift3-nearest", "cifar10-hitnet", NEAREST_3),
        (SVHN, "svhn-shift3-nearest", "svhn-hitnet", NEAREST_3),
    )
)
HYBRID = {"augment": "hybrid", "augment_strength": 1.0, "augment_share": 1.0}
COMPONENT = {**HYBRID, "augment_noise": "component"}
COMPONENT_WORDS = "one component of each image changed, uniform in ±2m/√n; teacher of 60 epochs"


def mnist_hybrid(name: str, reading: str, options: dict[str, Any], teacher: str = "mnist-hitnet-60") -> Experiment:
    """Another reading of hybrid augmentation on MNIST."""
    return arm(
        MNIST, f"mnist-hybrid-{name}", 3, "mnist-hybrid", reading, options={**HYBRID, **options}, teacher=teacher
    )


HYBRID_ARMS: tuple[Experiment, ...] = (
    replace(mnist_hybrid("component", COMPONENT_WORDS, COMPONENT), wanted=5),
    arm(
        MNIST,
        "mnist-hybrid-component-decay",
        5,
        "mnist-hybrid-decay",
        f"{COMPONENT_WORDS}; decreasing rate",
        recipe="paper-decay",
        options=COMPONENT,
        teacher="mnist-hitnet-60",
    ),
    arm(
        FASHION,
        "fashion-hybrid-component",
        5,
        "fashion-hybrid",
        COMPONENT_WORDS,
        options=COMPONENT,
        teacher="fashion-hitnet-60",
    ),
    *(
        arm(
            facts,
            f"{name}-hybrid-component",
            3,
            f"{name}-hybrid-quarter",
            f"{COMPONENT_WORDS}; shifts of 3, nearest pixel",
            options={**COMPONENT, **NEAREST_3},
            teacher=f"{name}-shift3-nearest-60",
        )
        for name, facts in (("cifar10", CIFAR10), ("svhn", SVHN))
    ),
    mnist_hybrid("teacher60", "strength 1, all images; teacher of 60 epochs", {}),
    mnist_hybrid("weak", "strength 0.25, all images; teacher of 60 epochs", {"augment_strength": 0.25}),
    mnist_hybrid(
        "clipped",
        "strength 1, components clipped to 0.5 ± 2m/√n; teacher of 60 epochs",
        {"augment_noise": "clipped"},
    ),
    mnist_hybrid(
        "hit-zone",
        "strength 1, capsules put back into the hit zone; teacher of 60 epochs",
        {"augment_noise": "hit-zone"},
    ),
    mnist_hybrid("half", "strength 1, half of each batch; teacher of 60 epochs", {"augment_share": 0.5}),
    mnist_hybrid(
        "conv", "one component changed; teacher with a convolutional decoder", COMPONENT, teacher="mnist-ours-teacher"
    ),
)

GHOSTS = {"ghosts": 1, "ghost_rule": "always", "epochs": 60}
GHOST_ARMS: tuple[Experiment, ...] = tuple(
    arm(
        MNIST,
        f"mnist-ghosts-{name}",
        wanted,
        "mnist-ghosts",
        f"{reading}, 60 epochs",
        options={**GHOSTS, **options},
        read_ghosts=(8, 20, 60),
        **rest,
    )
    for name, wanted, reading, options, rest in (
        ("decay", 5, "ghosts, decreasing rate", {}, {"recipe": "paper-decay"}),
        ("still", 5, "ghosts, no shifts", {"shift": 0}, {}),
        ("shared", 20, "ghosts, batch-norm shared by all classes", {}, {"model_options": {"shared_norm": True}}),
        ("float32", 5, "ghosts, float32", {"precision": "float32"}, {}),
    )
)
OTHER_ARMS: tuple[Experiment, ...] = (
    arm(CIFAR10, "cifar10-float32", 1, "cifar10-hitnet", "float32 in training", options={"precision": "float32"}),
    *(
        arm(
            MNIST,
            f"mnist-{network}-shared",
            3,
            f"mnist-{network}-constant",
            "batch-norm shared by all classes",
            network=network,
            model_options={"shared_norm": True},
        )
        for network in ("hitnet", "n2", "n2b")
    ),
)
ARMS: tuple[Experiment, ...] = (*SHIFT_ARMS, *TEACHERS, *HYBRID_ARMS, *GHOST_ARMS, *OTHER_ARMS)
