"""Arms: readings of the paper that are tried beside its own words, to find out what its figures come from.

An arm is trained and recorded like any experiment, but never counted as the paper's cell. Its row on the page stands
beside the paper's figure and ours.
"""

from __future__ import annotations

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


# The CapsNet code that the authors cite and time themselves against shifts by up to a tenth of the side (2.8, 3.2 and 4
# pixels) and fills with the nearest pixel.
SHIFT_ARMS: tuple[Experiment, ...] = (
    arm(CIFAR10, "cifar10-shift3-nearest", 3, "cifar10-hitnet", "shifts of 3, nearest pixel", options=NEAREST_3),
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
    short_arm(CIFAR10, "cifar10-shift3", 3, "cifar10-hitnet", "shifts of 3, zeros", {"shift": 3}),
    short_arm(
        CIFAR10, "cifar10-shift2-nearest", 3, "cifar10-hitnet", "shifts of 2, nearest pixel", {"shift_fill": "nearest"}
    ),
    short_arm(MNIST, "mnist-shift3", 3, "mnist-hitnet-constant", "shifts of 3, zeros", {"shift": 3}),
    short_arm(FASHION, "fashion-shift3-nearest", 3, "fashion-hitnet", "shifts of 3, nearest pixel", NEAREST_3),
)

# "Followed by a BN": over a K x n matrix, Keras has n statistics, which all classes share.
SHARED_WORDS = "batch-norm shared by all classes"
SHARED_ARMS: tuple[Experiment, ...] = (
    arm(MNIST, "mnist-hitnet-shared", 3, "mnist-hitnet-constant", SHARED_WORDS, model_options=SHARED),
    *(
        short_arm(facts, f"{name}-shared", 3, f"{name}-hitnet", SHARED_WORDS, {}, model_options=SHARED)
        for name, facts in (("fashion", FASHION), ("cifar10", CIFAR10), ("svhn", SVHN))
    ),
)

# Networks that were trained for a shorter time modify images with less harm (benchmarks/TRIALS.md).
TEACHERS: tuple[Experiment, ...] = tuple(
    short_arm(facts, name, 1, arm_of, "modifies the images of hybrid arms", options)
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
HYBRID_ARMS: tuple[Experiment, ...] = (
    *(
        arm(
            facts,
            f"{name}-hybrid-component",
            wanted,
            f"{name}-hybrid",
            f"{COMPONENT_WORDS}{words}",
            options={**COMPONENT, **options},
            teacher=teacher,
        )
        for name, facts, wanted, words, options, teacher in (
            ("mnist", MNIST, 5, "", {}, "mnist-hitnet-60"),
            ("fashion", FASHION, 5, "", {}, "fashion-hitnet-60"),
            ("cifar10", CIFAR10, 3, "; shifts of 3, nearest pixel", NEAREST_3, "cifar10-shift3-nearest-60"),
            ("svhn", SVHN, 3, "; shifts of 3, nearest pixel", NEAREST_3, "svhn-shift3-nearest-60"),
        )
    ),
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
    *(
        short_arm(MNIST, f"mnist-hybrid-{name}", 3, "mnist-hybrid", words, options, teacher=teacher, **rest)
        for name, words, options, teacher, rest in (
            (
                "clipped",
                "strength 1, components clipped to 0.5 ± 2m/√n; teacher of 60 epochs",
                {**HYBRID, "augment_noise": "clipped"},
                "mnist-hitnet-60",
                {},
            ),
            (
                "conv",
                "one component changed; teacher with a convolutional decoder",
                COMPONENT,
                "mnist-ours-teacher",
                {},
            ),
            (
                "shared",
                f"strength 1, {SHARED_WORDS}, also in the teacher of 250 epochs",
                HYBRID,
                "mnist-hitnet-shared",
                {"model_options": SHARED},
            ),
            (
                "shared-component",
                f"one component changed, {SHARED_WORDS}, also in the teacher of 250 epochs",
                COMPONENT,
                "mnist-hitnet-shared",
                {"model_options": SHARED},
            ),
        )
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
        ("float32", 5, "mnist-ghosts", "float32", (8, 20, 60), {"precision": "float32"}, {}),
    )
)
PRECISION_ARM = short_arm(
    CIFAR10, "cifar10-float32", 1, "cifar10-hitnet", "float32 in training", {"precision": "float32"}
)
ARMS: tuple[Experiment, ...] = (*SHIFT_ARMS, *SHARED_ARMS, *TEACHERS, *HYBRID_ARMS, *GHOST_ARMS, PRECISION_ARM)
