"""The sections of our own results: Hit-or-Miss beyond the paper's recipe and network, and against softmax."""

from __future__ import annotations

from hitnet.losses import MISS_WEIGHT
from reproduction.book import Page, Result
from reproduction.experiments import Experiment
from reproduction.page import ERROR_HEADER, change_cell, error_row, error_table, table, tested_on_line
from reproduction.plan import OUR_TEACHER, RESNET9_DATA
from reproduction.records import difference

# Title, experiment, and the experiment of the paper whose error is shown beside it.
OURS_ROWS = (
    ("MNIST, the paper's network", "mnist-ours", "mnist-hitnet-decay"),
    ("MNIST, ResNet-9", "mnist-resnet9", "mnist-hitnet-decay"),
    ("Fashion-MNIST, ResNet-9", "fashion-resnet9", "fashion-hitnet"),
    ("CIFAR-10, ResNet-9", "cifar10-resnet9", "cifar10-hitnet"),
    ("SVHN, ResNet-9", "svhn-resnet9", "svhn-hitnet"),
    ("affNIST, ResNet-9, images shifted in training", "affnist-ours", "affnist-hitnet-shifts"),
)
HIT, SOFT = "Hit-or-Miss", "softmax"
# Title of the data set, experiment with capsules, experiment with softmax.
SOFTMAX_PAIRS = tuple(
    (facts.title, f"{name}-resnet9", f"{name}-resnet9-softmax") for name, (facts, _, _) in RESNET9_DATA.items()
)


def ours_section(page: Page) -> str:
    """Beyond the paper: the errors that its ideas reach today, meant for at most 30 seconds per model."""
    note = (
        "All networks classify with Hit-or-Miss capsules and the centripetal loss. Each figure is the error of single "
        "networks that see each test image once. The paper's errors are those of its own network. One run of "
        "mnist-ours-teacher (`hitnet-conv`) modifies the images of mnist-ours; the time of training it is not "
        "included.\n\n"
    )
    names = [*(name for _, name, _ in OURS_ROWS), OUR_TEACHER.name]
    recipes = [f"- {name}: {', '.join(recipe_words(page.experiment(name)))}" for name in names]
    return note + error_table(page, OURS_ROWS) + tested_on_line(page, "affnist-ours") + "\n" + "\n".join(recipes) + "\n"


def recipe_words(experiment: Experiment) -> list[str]:
    """How an experiment is trained; of the network itself only the size of its capsules."""
    recipe = experiment.full_recipe()
    words = [f"{recipe.epochs} epochs", f"{recipe.optimizer} at {recipe.learning_rate:g}", recipe.schedule]
    words.append(f"batches of {recipe.batch_size}")
    for name in ("weight_decay", "shift", "flip", "cutout", "warp", "invert", "average", "label_smoothing"):
        value = getattr(recipe, name)
        if value:
            words.append(name.replace("_", " ") + ("" if value is True else f" {value:g}"))
    if recipe.miss_weight != MISS_WEIGHT:
        words.append(f"miss weight {recipe.miss_weight:g}")
    if "capsule_dim" in experiment.model_options:
        words.append(f"capsules of size {experiment.model_options['capsule_dim']}")
    if experiment.teacher:
        share, strength = recipe.augment_share, recipe.augment_strength
        words.append(f"{100 * share:g} % of each batch modified by {experiment.teacher} (strength {strength:g})")
    return words


def softmax_section(page: Page) -> str:
    """Hit-or-Miss against softmax and cross-entropy: one network, two heads and their losses."""
    titles = [
        (f"{title}, {head}", name)
        for title, *names in SOFTMAX_PAIRS
        for head, name in zip((HIT, SOFT), names, strict=True)
    ]
    # Without the paper's error, which is of another network.
    rows = [[title, *error_row(page, title, name)[2:]] for title, name in titles]
    return (
        "The network is `hitnet-resnet9`: once with its capsules and decoder, once with softmax and cross-entropy "
        "instead.\n\n"
        + table((ERROR_HEADER[0], *ERROR_HEADER[2:]), rows)
        + "\nDifferences of the means, with 95 % intervals (Welch's t):\n\n"
        + table(
            ("", f"{HIT} − {SOFT}, points [95 %]", "in words"),
            [[title, *difference_cells(page, hit, softmax)] for title, hit, softmax in SOFTMAX_PAIRS],
        )
        + "\n"
        + "\n".join(paired_recipes(page))
        + "\n"
    )


def difference_cells(page: Page, hit: str, softmax: str) -> tuple[str, str]:
    """The difference of two experiments' means: in numbers, and in words."""
    between = difference(*([run.error for run in page.records(name)] for name in (hit, softmax)))
    if between is None:
        return change_cell(between), "not comparable yet: both need at least two runs"
    low, high = between.interval
    words = "no difference detected"
    if low > 0:
        words = f"{SOFT} has the lower error"
    elif high < 0:
        words = f"{HIT} has the lower error"
    return change_cell(between), words


def paired_recipes(page: Page) -> list[str]:
    """How each pair is trained: what both have in common, and what only one has."""
    lines = []
    for title, *names in SOFTMAX_PAIRS:
        both = [recipe_words(page.experiment(name)) for name in names]
        parts = [f"both: {', '.join(word for word in both[0] if word in both[1])}"]
        for head, words, others in zip((HIT, SOFT), both, reversed(both), strict=True):
            own = [word for word in words if word not in others]
            parts += [f"{head}: {', '.join(own)}"] if own else []
        lines.append(f"- {title}, " + "; ".join(parts))
    return lines


OURS = Result(
    "ours",
    "Hit-or-Miss beyond the paper's recipe and network",
    "beyond the paper",
    (OUR_TEACHER.name, *(name for _, name, _ in OURS_ROWS)),
    ours_section,
    paper_runs="",
)
SOFTMAX = Result(
    "softmax",
    "Hit-or-Miss against softmax",
    "beyond the paper",
    tuple(name for _, *names in SOFTMAX_PAIRS for name in names),
    softmax_section,
    paper_runs="",
)
