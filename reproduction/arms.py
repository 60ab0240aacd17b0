"""Arms: readings of the paper that are tried beside its own words, to find out what its figures come from.

An arm is trained and recorded like any experiment, but never counted as the paper's cell. Its row on the page stands
beside the paper's figure and ours.
"""

from __future__ import annotations

from typing import Any

from reproduction.experiments import (
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
SHARED = {"shared_norm": True}
SHORT = {
    "epochs": 60
}  # enough to see whether a reading is worth a full length; compared with its cell at the same epochs


def arm(facts: DataFacts, name: str, wanted: int, arm_of: str, reading: str, **rest: Any) -> Experiment:
    """An arm on a whole data set."""
    return experiment_on(facts, name, wanted, how=reading, arm_of=arm_of, reading=reading, **rest)


def short_arm(
    facts: DataFacts, name: str, wanted: int, arm_of: str, reading: str, options: dict[str, Any], **rest: Any
) -> Experiment:
    """An arm of 60 epochs, where its cell has 250."""
    return arm(facts, f"{name}-60", wanted, arm_of, f"{reading}, 60 epochs", options={**SHORT, **options}, **rest)


# "Followed by a BN": over a K x n matrix, Keras has n statistics, which all classes share.
SHARED_WORDS = "batch-norm shared by all classes"
DECAY_WORDS = "; decreasing rate"
SHARED_ARMS: tuple[Experiment, ...] = (
    *(
        arm(facts, name, wanted, arm_of, SHARED_WORDS, model_options=SHARED, each_epoch=each_epoch)
        for facts, name, wanted, arm_of, each_epoch in (
            (MNIST, "mnist-hitnet-shared", 20, "mnist-hitnet-constant", None),
            (FASHION, "fashion-shared", 5, "fashion-hitnet", None),
            (CIFAR10, "cifar10-shared", 3, "cifar10-hitnet", None),
            (SVHN, "svhn-shared", 3, "svhn-hitnet", None),
            (AFFNIST, "affnist-shared", 3, "affnist-hitnet-shifts", AFFNIST_EACH_EPOCH),
        )
    ),
    arm(
        MNIST,
        "mnist-hitnet-shared-decay",
        20,
        "mnist-hitnet-decay",
        f"{SHARED_WORDS}{DECAY_WORDS}",
        recipe="paper-decay",
        model_options=SHARED,
    ),
)

# The CapsNet code that the authors cite and time themselves against shifts by up to a tenth of the side (2.8, 3.2 and 4
# pixels) and fills with the nearest pixel.
SHIFT_ARMS: tuple[Experiment, ...] = (
    arm(CIFAR10, "cifar10-shift3-nearest", 3, "cifar10-hitnet", "shifts of 3, nearest pixel", options=NEAREST_3),
    *(
        arm(
            facts,
            f"{name}-shared-shift3-nearest",
            3,
            f"{name}-hitnet",
            f"{SHARED_WORDS}; shifts of 3, nearest pixel",
            options=NEAREST_3,
            model_options=SHARED,
        )
        for name, facts in (("cifar10", CIFAR10), ("svhn", SVHN))
    ),
    arm(
        AFFNIST,
        "affnist-shift4",
        3,
        "affnist-hitnet-shifts",
        "shifts of 4, zeros",
        options={"shift": 4},
        each_epoch=AFFNIST_EACH_EPOCH,
    ),
)

# A network that was trained for a shorter time modifies images with less harm (benchmarks/TRIALS.md).
TEACHER = short_arm(MNIST, "mnist-hitnet", 1, "mnist-hitnet-constant", "modifies the images of hybrid arms", options={})
HYBRID = {"augment": "hybrid", "augment_strength": 1.0, "augment_share": 1.0}
COMPONENT = {**HYBRID, "augment_noise": "component"}
COMPONENT_WORDS = "one component of each image changed, uniform in ±2m/√n"
SHARED_COMPONENT_WORDS = f"{COMPONENT_WORDS}; {SHARED_WORDS}, also in the teacher"
HYBRID_ARMS: tuple[Experiment, ...] = (
    *(
        arm(
            facts,
            f"{name}-hybrid-shared-component",
            wanted,
            f"{name}-hybrid",
            SHARED_COMPONENT_WORDS,
            options=COMPONENT,
            model_options=SHARED,
            teacher=teacher,
        )
        for name, facts, wanted, teacher in (
            ("mnist", MNIST, 5, "mnist-hitnet-shared"),
            ("fashion", FASHION, 5, "fashion-shared"),
            ("cifar10", CIFAR10, 3, "cifar10-shared"),
            ("svhn", SVHN, 3, "svhn-shared"),
        )
    ),
    arm(
        MNIST,
        "mnist-hybrid-shared-component-decay",
        5,
        "mnist-hybrid-decay",
        f"{SHARED_COMPONENT_WORDS}{DECAY_WORDS}",
        recipe="paper-decay",
        options=COMPONENT,
        model_options=SHARED,
        teacher="mnist-hitnet-shared",
    ),
    *(
        arm(
            MNIST,
            f"mnist-hybrid-component{ending}",
            5,
            f"mnist-hybrid{ending}",
            f"{COMPONENT_WORDS}; teacher of 60 epochs{words}",
            recipe=recipe,
            options=COMPONENT,
            teacher=TEACHER.name,
        )
        for ending, words, recipe in (("", "", "paper"), ("-decay", DECAY_WORDS, "paper-decay"))
    ),
    *(
        short_arm(
            MNIST,
            f"mnist-hybrid-shared{ending}",
            3,
            "mnist-hybrid",
            f"{words}; {SHARED_WORDS}, also in the teacher of 250 epochs",
            options,
            model_options=SHARED,
            teacher="mnist-hitnet-shared",
        )
        for ending, words, options in (("", "strength 1", HYBRID), ("-component", COMPONENT_WORDS, COMPONENT))
    ),
)

GHOSTS = {"ghosts": 1, "ghost_rule": "always"}
GHOST_ARMS: tuple[Experiment, ...] = tuple(
    arm(
        MNIST,
        f"mnist-ghosts-{name}",
        wanted,
        arm_of,
        f"ghosts, {words}, {epochs[-1]} epochs",
        options={**GHOSTS, "epochs": epochs[-1], **options},
        read_ghosts=epochs,
        **rest,
    )
    for name, wanted, arm_of, words, epochs, options, rest in (
        ("shared", 20, "mnist-ghosts", SHARED_WORDS, (8, 20, 60), {}, {"model_options": SHARED}),
        ("shared-250", 20, "mnist-ghosts-250", SHARED_WORDS, (8, 20, 60, 120, 250), {}, {"model_options": SHARED}),
        ("decay", 5, "mnist-ghosts", "decreasing rate", (8, 20, 60), {}, {"recipe": "paper-decay"}),
        ("still", 5, "mnist-ghosts", "no shifts", (8, 20, 60), {"shift": 0}, {}),
        ("float32", 5, "mnist-ghosts", "float32", (8, 20), {"precision": "float32"}, {}),
        ("bfloat16", 5, "mnist-ghosts", "bfloat16 as in the cell", (8, 20), {}, {}),  # what float32 is compared with
    )
)
PRECISION_ARM = short_arm(
    CIFAR10, "cifar10-float32", 1, "cifar10-hitnet", "float32 in training", {"precision": "float32"}
)
ARMS: tuple[Experiment, ...] = (*SHARED_ARMS, *SHIFT_ARMS, *HYBRID_ARMS, TEACHER, *GHOST_ARMS, PRECISION_ARM)
