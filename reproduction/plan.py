"""The list of all experiments: those of the paper, and other readings of it (arms); those beyond it are in beyond.py.

The name of an experiment says which reading of batch-norm it is: "shared" (n statistics, which all classes share, as
Keras computes them for a K x n matrix), "each" (K·n statistics) or "class" (K statistics). The cells of the paper's
tables are shared. An arm is trained and recorded like any experiment, but never counted as the paper's cell: its row
stands beside the paper's figure and the cell's.
"""

from __future__ import annotations

from typing import Any

from reproduction.beyond import DROPCONNECT, GHOST_TIMES, OURS, TOP_K
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

SHARED, EACH, CLASS = ({"norm": norm} for norm in ("shared", "each", "class"))
EACH_WORDS, CLASS_WORDS = "batch-norm of each class and component", "batch-norm of each class"
RATES = {"": ("paper", "constant rate"), "-decay": ("paper-decay", "decreasing rate")}
SHORT = {"epochs": 60}  # enough to see whether a reading is worth a full length; compared at the same epochs
STILL: dict[str, Any] = {"options": {"shift": 0}, "each_epoch": AFFNIST_EACH_EPOCH}
SHIFTED: dict[str, Any] = {"each_epoch": AFFNIST_EACH_EPOCH}
GHOSTS = {"ghosts": 1, "ghost_rule": "always"}
HYBRID = {"augment": "hybrid", "augment_strength": 1.0, "augment_share": 1.0}
COMPONENT = {**HYBRID, "augment_noise": "component"}  # the paper gives a range for one component, and no other noise


def arm(facts: DataFacts, name: str, wanted: int, arm_of: str, reading: str, **rest: Any) -> Experiment:
    """An arm on a whole data set."""
    return experiment_on(facts, name, wanted, how=reading, arm_of=arm_of, reading=reading, **rest)


# Tables 1 to 3 and section 3.1; the paper has 20 runs of each.
TABLE1 = (
    experiment_on(MNIST, "mnist-n1-constant", 20, network="n1", how="constant rate"),
    experiment_on(MNIST, "mnist-n1-decay", 5, network="n1", how="decreasing rate", recipe="paper-decay"),
    *(
        experiment_on(MNIST, f"mnist-{network}-shared{ending}", wanted, network=network, how=how, recipe=recipe)
        for ending, (recipe, how) in RATES.items()
        for network, wanted in {"n2": 5, "n2b": 5, "hitnet": 20}.items()
    ),
    experiment_on(MNIST, "mnist-squash-shared", 5, network="hitnet-squash"),
)
TABLE2 = (
    experiment_on(FASHION, "fashion-shared", 7),
    experiment_on(CIFAR10, "cifar10-shared", 5),
    experiment_on(SVHN, "svhn-shared", 5),
    experiment_on(AFFNIST, "affnist-still-shared", 5, how="no shifts", **STILL),
    experiment_on(AFFNIST, "affnist-shared", 5, how="shifts", **SHIFTED),
)
TABLE3 = tuple(
    experiment_on(
        facts,
        f"{name}-hybrid-shared-component{ending}",
        5,
        how="hybrid images" + (", decreasing rate" if ending else ""),
        recipe=RATES[ending][0],
        options=COMPONENT,
        teacher=teacher,
    )
    for name, facts, ending, teacher in (
        ("mnist", MNIST, "", "mnist-hitnet-shared"),
        ("mnist", MNIST, "-decay", "mnist-hitnet-shared"),
        ("fashion", FASHION, "", "fashion-shared"),
        ("cifar10", CIFAR10, "", "cifar10-shared"),
        ("svhn", SVHN, "", "svhn-shared"),
    )
)


def ghosts(facts: DataFacts, name: str, epochs: tuple[int, ...], *, wanted: int = 20, **rest: Any) -> Experiment:
    """Networks with ghosts, which are read after these epochs."""
    how = f"ghosts, {epochs[-1]} epochs" + (", other seeds" if rest.get("first_seed") else "")
    options = {**GHOSTS, "epochs": epochs[-1]}
    return experiment_on(facts, name, wanted, how=how, options=options, read_ghosts=epochs, **rest)


SECTION33 = (
    ghosts(MNIST, "mnist-ghosts-shared", (8, 20, 60)),
    ghosts(MNIST, "mnist-ghosts-shared-250", (8, 20, 60, 120, 250)),
    # How far do counts of 20 networks vary?
    ghosts(MNIST, "mnist-ghosts-shared-second", (60,), first_seed=20),
    ghosts(MNIST, "mnist-ghosts-shared-third", (8, 20, 60), first_seed=40),
    ghosts(SVHN, "svhn-ghosts-shared", (60,)),
    ghosts(SVHN, "svhn-ghosts-shared-250", (60, 250)),
)
CAPSNETS = (
    experiment_on(MNIST, "mnist-capsnet", 2, network="capsnet", how="50 epochs", options={"epochs": 50}),
    experiment_on(FASHION, "fashion-capsnet", 2, network="capsnet"),
    experiment_on(CIFAR10, "cifar10-capsnet", 2, network="capsnet"),
    # For the speed beside CapsNet, on which batch-norm has no influence.
    experiment_on(MNIST, "mnist-hitnet-each-50", 2, how="50 epochs", options={"epochs": 50}, model_options=EACH),
)
PAPER_EXPERIMENTS = (*TABLE1, *TABLE2, *TABLE3, *SECTION33, *CAPSNETS)

# "Followed by a BN" over a K x n matrix: our first reading was K·n statistics. Its runs were made before the other
# reading was found. A committee of five was made of it (of seeds 20 to 24).
EACH_ARMS = (
    *(
        arm(
            MNIST,
            f"mnist-{network}-each{ending}",
            wanted,
            f"mnist-{network}-shared{ending}",
            EACH_WORDS + (", decreasing rate" if ending else ""),
            network=network,
            recipe=RATES[ending][0],
            model_options=EACH,
            committees=1 if (network, ending) == ("hitnet", "") else 0,
        )
        for network, ending, wanted in (
            ("n2", "", 5),
            ("n2b", "", 5),
            ("hitnet", "", 25),
            ("n2", "-decay", 3),
            ("n2b", "-decay", 3),
            ("hitnet", "-decay", 10),
        )
    ),
    arm(MNIST, "mnist-squash-each", 3, "mnist-squash-shared", EACH_WORDS, network="hitnet-squash", model_options=EACH),
    *(
        arm(facts, f"{name}-each", wanted, f"{name}-shared", EACH_WORDS, model_options=EACH, **rest)
        for name, facts, wanted, rest in (
            ("fashion", FASHION, 5, {}),
            ("cifar10", CIFAR10, 3, {}),
            ("svhn", SVHN, 3, {}),
            ("affnist-still", AFFNIST, 3, STILL),
            ("affnist", AFFNIST, 3, SHIFTED),
        )
    ),
)
CLASS_ARMS = tuple(
    arm(
        MNIST,
        f"mnist-{network}-class-60",
        4,
        f"mnist-{network}-shared",
        f"{CLASS_WORDS}, 60 epochs",
        network=network,
        options=SHORT,
        model_options=CLASS,
    )
    for network in ("hitnet", "n2", "n2b")
)


def shift_arm(facts: DataFacts, name: str, shift: int, fill: str, wanted: int = 3) -> Experiment:
    """Longer shifts, or another fill of the edge: length and fill are changed one at a time and together."""
    reading = f"shifts of {shift}, {'nearest pixel' if fill == 'nearest' else fill}"
    cell = "mnist-hitnet-shared" if facts is MNIST else f"{name}-shared"
    options = {"shift": shift} | ({"shift_fill": fill} if fill != "zeros" else {})
    return arm(facts, f"{name}-shared-shift{shift}-{fill}", wanted, cell, reading, options=options)


# The CapsNet code that the authors cite and time themselves against shifts by up to a tenth of the side (2.8, 3.2 and 4
# pixels) and fills with the nearest pixel.
SHIFT_ARMS = (
    *(
        shift_arm(facts, name, shift, fill)
        for name, facts in (("cifar10", CIFAR10), ("svhn", SVHN))
        for shift, fill in ((3, "zeros"), (2, "nearest"), (3, "nearest"))
    ),
    shift_arm(MNIST, "mnist", 3, "nearest"),
    shift_arm(FASHION, "fashion", 3, "nearest"),
    arm(
        CIFAR10,
        "cifar10-each-shift3-nearest",
        3,
        "cifar10-each",
        f"{EACH_WORDS}; shifts of 3, nearest pixel",
        options={"shift": 3, "shift_fill": "nearest"},
        model_options=EACH,
    ),
    arm(
        AFFNIST,
        "affnist-each-shift4",
        3,
        "affnist-each",
        f"{EACH_WORDS}; shifts of 4, zeros",
        options={"shift": 4},
        model_options=EACH,
        each_epoch=AFFNIST_EACH_EPOCH,
    ),
)

# A network that was trained for a shorter time modifies images with less harm (benchmarks/TRIALS.md).
TEACHER = arm(
    MNIST,
    "mnist-hitnet-each-60",
    1,
    "mnist-hitnet-each",
    f"{EACH_WORDS}, 60 epochs; modifies the images of an arm",
    options=SHORT,
    model_options=EACH,
)
ALL_WORDS = "all components changed, normal noise of m/√n"
HYBRID_ARMS = (
    *(
        arm(
            facts,
            f"{name}-hybrid-each",
            wanted,
            f"{name}-hybrid-shared-component",
            f"{ALL_WORDS}; {EACH_WORDS}, also in the teacher",
            options=HYBRID,
            model_options=EACH,
            teacher=teacher,
        )
        for name, facts, wanted, teacher in (
            ("mnist", MNIST, 5, "mnist-hitnet-each"),
            ("fashion", FASHION, 4, "fashion-each"),
        )
    ),
    *(
        arm(
            MNIST,
            f"mnist-hybrid-each-component{ending}",
            5,
            f"mnist-hybrid-shared-component{ending}",
            f"{EACH_WORDS}; teacher of 60 epochs{', decreasing rate' if ending else ''}",
            recipe=RATES[ending][0],
            options=COMPONENT,
            model_options=EACH,
            teacher=TEACHER.name,
        )
        for ending in RATES
    ),
    *(
        arm(
            MNIST,
            f"mnist-hybrid-shared{ending}-60",
            3,
            "mnist-hybrid-shared-component",
            f"{words}60 epochs",
            options={**SHORT, **options},
            teacher="mnist-hitnet-shared",
        )
        for ending, words, options in (("", f"{ALL_WORDS}, ", HYBRID), ("-component", "", COMPONENT))
    ),
)
GHOST_ARMS = tuple(
    arm(
        MNIST,
        f"mnist-ghosts-{name}",
        wanted,
        arm_of,
        f"{words}, {epochs[-1]} epochs",
        options={**GHOSTS, "epochs": epochs[-1], **options},
        recipe="paper-decay" if "decay" in name else "paper",
        model_options=CLASS if name == "class" else EACH,
        read_ghosts=epochs,
    )
    for name, wanted, arm_of, words, epochs, options in (
        ("class", 20, "mnist-ghosts-shared", CLASS_WORDS, (8, 20, 60), {}),
        ("each", 20, "mnist-ghosts-shared", EACH_WORDS, (60,), {}),
        ("each-250", 20, "mnist-ghosts-shared-250", EACH_WORDS, (2, 4, 6, 8, 10, 15, 20, 30, 60, 120, 250), {}),
        ("each-decay", 5, "mnist-ghosts-each", f"{EACH_WORDS}; decreasing rate", (8, 20, 60), {}),
        ("each-still", 5, "mnist-ghosts-each", f"{EACH_WORDS}; no shifts", (8, 20, 60), {"shift": 0}),
        ("each-float32", 5, "mnist-ghosts-each", f"{EACH_WORDS}; float32", (8, 20), {"precision": "float32"}),
        # What float32 is compared with.
        ("each-bfloat16", 5, "mnist-ghosts-each", f"{EACH_WORDS}; bfloat16 as elsewhere", (8, 20), {}),
    )
)
PRECISION_ARM = arm(
    CIFAR10,
    "cifar10-each-float32-60",
    1,
    "cifar10-each",
    f"{EACH_WORDS}; float32 in training, 60 epochs",
    options={**SHORT, "precision": "float32"},
    model_options=EACH,
)
ARMS = (*EACH_ARMS, *CLASS_ARMS, *SHIFT_ARMS, *HYBRID_ARMS, TEACHER, *GHOST_ARMS, PRECISION_ARM)

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (*PAPER_EXPERIMENTS, *ARMS, *DROPCONNECT, *TOP_K, *GHOST_TIMES, *OURS)
}
