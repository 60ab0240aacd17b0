"""The sections of the paper's tables, of what it compares with, and of our own results.

To add a result, write a function that renders its section, and add a `Result` to `RESULTS` in contents.py.
"""

from __future__ import annotations

import statistics

from hitnet.losses import MISS_WEIGHT
from reproduction.beyond import OUR_TEACHER, RESNET9_DATA
from reproduction.book import TEACHER_SEED, Page
from reproduction.cells import (
    NONE,
    beside_claim,
    change_cell,
    mean_cell,
    number,
    runs_cell,
    seconds_cell,
    table,
    tested_on_line,
)
from reproduction.claims import CAPSNET_ELSEWHERE, CAPSNET_SLOWER, WAN, Claim
from reproduction.committees import committee_errors
from reproduction.error_rows import ERROR_HEADER, error_row, error_table, judged_mean
from reproduction.experiments import COMMITTEE, TITLES, Experiment
from reproduction.measures import difference, summarise, summarise_errors
from reproduction.records import AVERAGED_EPOCHS, RunRecord

TABLE1 = {
    rate: tuple(
        (TITLES[network], f"mnist-n1-{rate}" if network == "n1" else f"mnist-{network}-shared{ending}")
        for network in ("n1", "n2", "n2b", "hitnet")
    )
    for rate, ending in (("constant", ""), ("decay", "-decay"))
}
HITNET = "mnist-hitnet-shared"
SPEED_HITNETS = ("mnist-hitnet-each-50", "mnist-hitnet-each")
TABLE2_ROWS = (
    ("Fashion-MNIST", "fashion-shared"),
    ("CIFAR-10", "cifar10-shared"),
    ("SVHN", "svhn-shared"),
    ("affNIST", "affnist-still-shared"),
)
# Title, an experiment with hybrid images, and the same network without them.
HYBRID_ROWS = (
    ("MNIST", "mnist-hybrid-shared-component", HITNET),
    ("MNIST, decreasing rate", "mnist-hybrid-shared-component-decay", "mnist-hitnet-shared-decay"),
    ("Fashion-MNIST", "fashion-hybrid-shared-component", "fashion-shared"),
    ("CIFAR-10", "cifar10-hybrid-shared-component", "cifar10-shared"),
    ("SVHN", "svhn-hybrid-shared-component", "svhn-shared"),
)
COMMITTEE_ROWS = (
    ("DropConnect, no augmentation", "mnist-dropconnect"),
    ("DropConnect, random crops", "mnist-dropconnect-crops"),
    ("DropConnect, random crops, rotation, scaling", "mnist-dropconnect-all"),
    ("HitNet, batch-norm of each class and component", "mnist-hitnet-each"),
    ("Hit-or-Miss on ResNet-9, ours", "mnist-resnet9"),
)
# Title, experiment, and the experiment of the paper whose error is shown beside it.
OURS_ROWS = (
    ("MNIST, the paper's network", "mnist-ours", "mnist-hitnet-shared-decay"),
    ("MNIST, ResNet-9", "mnist-resnet9", "mnist-hitnet-shared-decay"),
    ("Fashion-MNIST, ResNet-9", "fashion-resnet9", "fashion-shared"),
    ("CIFAR-10, ResNet-9", "cifar10-resnet9", "cifar10-shared"),
    ("SVHN, ResNet-9", "svhn-resnet9", "svhn-shared"),
    ("affNIST, ResNet-9, images shifted in training", "affnist-ours", "affnist-shared"),
)
HIT, SOFT = "Hit-or-Miss", "softmax"
# Title of the data set, experiment with capsules, experiment with softmax.
SOFTMAX_PAIRS = tuple(
    (facts.title, f"{name}-resnet9", f"{name}-resnet9-softmax") for name, (facts, _, _) in RESNET9_DATA.items()
)


def table1_constant(page: Page) -> str:
    """Table 1, left; its last figure is the irregularity."""
    return table1_half(page, "constant", "irregularity (paper)")


def table1_decay(page: Page) -> str:
    """Table 1, right; its last figure is the best run."""
    return table1_half(page, "decay", "best % (paper)")


def table1_half(page: Page, rate: str, last: str) -> str:
    """Four networks on MNIST, with a constant or a decreasing learning rate."""
    header = ("network", "paper, error %", "here, error % [95 %]", "std (paper)", last, *ERROR_HEADER[5:])
    return table(header, [table1_row(page, title, name, rate) for title, name in TABLE1[rate]])


def table1_row(page: Page, title: str, name: str, rate: str) -> list[str]:
    claim, summary = page.book.claims.get(name, Claim()), summarise(page.records(name))
    constant = rate == "constant"
    claimed, ours, std = claim.irregularity if constant else claim.best, None, None
    if summary is not None:
        ours, std = summary.irregularity if constant else summary.best, summary.std
    spread = [beside_claim(std, claim.std, 3), beside_claim(ours, claimed, 3 if constant else 2)]
    return [title, number(claim.mean), judged_mean(page, name), *spread, *error_row(page, title, name)[5:]]


def squash(page: Page) -> str:
    """HitNet with CapsNet's squashing function in place of its sigmoid."""
    return error_table(page, [("HitNet with squash", "mnist-squash-shared")])


def speed(page: Page) -> str:
    """HitNet's speed against CapsNet's on the same device, and CapsNet's errors."""
    hitnet, capsnet = runs_by_device(page, *SPEED_HITNETS), runs_by_device(page, "mnist-capsnet")
    claim = (
        f"In the paper, Guo's CapsNet is about {CAPSNET_SLOWER:.0f} times slower than HitNet. Here, both "
        "implementations are ours.\n\n"
    )
    rows = [speed_row(*place, hitnet.get(place, []), capsnet.get(place, [])) for place in sorted({*hitnet, *capsnet})]
    header = ("device", "side by side", "HitNet, images/s", "CapsNet, images/s", "HitNet is faster by", "runs")
    errors = [
        ("MNIST, 50 epochs", "mnist-capsnet"),
        ("Fashion-MNIST", "fashion-capsnet"),
        ("CIFAR-10", "cifar10-capsnet"),
    ]
    return claim + table(header, rows) + "\nOur CapsNet's errors:\n\n" + error_table(page, errors)


def speed_row(device: str, beside: int, hitnet: list[RunRecord], capsnet: list[RunRecord]) -> list[str]:
    """Both speeds, and their ratio; all with equally many networks side by side, because few do not fill a GPU."""
    speeds = [statistics.median(run.images_per_second for run in runs) if runs else None for runs in (hitnet, capsnet)]
    ratio = NONE if None in speeds else f"{speeds[0] / speeds[1]:.1f}"  # type: ignore[operator]
    cells = [NONE if speed is None else f"{speed:,.0f}" for speed in speeds]
    return [device, str(beside), *cells, ratio, f"{len(hitnet)} and {len(capsnet)}"]


def runs_by_device(page: Page, *names: str) -> dict[tuple[str, int], list[RunRecord]]:
    """Runs by device, and by how many networks were trained side by side."""
    runs: dict[tuple[str, int], list[RunRecord]] = {}
    for record in (record for name in names for record in page.records(name)):
        runs.setdefault((record.device, record.beside), []).append(record)
    return runs


def table2(page: Page) -> str:
    """HitNet on four further data sets, beside what others report of CapsNet."""
    sets = {"MNIST": "mnist"} | {title: page.experiment(name).data for title, name in TABLE2_ROWS}
    others = [
        [source, *(number(errors.get(data)) for data in sets.values())] for source, errors in CAPSNET_ELSEWHERE.items()
    ]
    return (
        error_table(page, TABLE2_ROWS)
        + tested_on_line(page, "affnist-still-shared")
        + "\nMNIST is in [table 1](#table1-constant). CapsNet's error in % as others report it, quoted from the paper:"
        + "\n\n"
        + table(("CapsNet from", *sets), others)
    )


def affnist_shifts(page: Page) -> str:
    """affNIST once more, with the shifts of the other experiments."""
    name = "affnist-shared"
    return error_table(page, [("affNIST, images shifted in training", name)]) + tested_on_line(page, name)


def table3(page: Page) -> str:
    """Training on images that a trained network modifies (hybrid data augmentation), and what it changes."""
    note = (
        f"The run with seed {TEACHER_SEED} of the same network without augmentation modifies the images; the time of "
        "training it is not included. One component of the capsule of each image is changed, uniformly within ±2m/√n. "
        "The paper does not say how it modifies them.\n\n"
    )
    rows = [(title, name) for title, name, _ in HYBRID_ROWS]
    changes = table(HYBRID_HEADER, [hybrid_row(page, *row) for row in HYBRID_ROWS])
    return f"{note}{error_table(page, rows)}\nWhat hybrid images change:\n\n{changes}"


HYBRID_HEADER = (
    "",
    "paper, error %",
    "change, points [95 %]",
    f"change of the mean of the last {AVERAGED_EPOCHS} epochs",
)


def hybrid_row(page: Page, title: str, name: str, without: str) -> list[str]:
    """What an experiment's hybrid images change, beside what the paper's did."""
    claims = [page.book.claims.get(page.experiment(each).arm_of or each) for each in (without, name)]
    before, after = (page.records(each) for each in (without, name))
    last = page.experiment(name).epochs
    return [
        title,
        " → ".join(number(claim.mean if claim else None) for claim in claims),
        change_cell(difference([run.error for run in after], [run.error for run in before])),
        change_cell(difference([run.error_by(last) for run in after], [run.error_by(last) for run in before])),
    ]


def committees(page: Page) -> str:
    """Single networks and committees of five, beside the figures of Wan et al. that the paper quotes."""
    note = (
        f"A committee is {COMMITTEE} networks; it decides by the mean of their distances, or of their probabilities "
        "for softmax. Committees share no network, and none is chosen by the test images: they are the runs in the "
        "order of their seeds. The figures of Wan et al. (2013) are as the paper quotes them.\n\n"
    )
    header = (
        "network",
        "Wan et al., one network",
        "one network here, error % [95 %]",
        "Wan et al., committee",
        "committee here, error % [95 %]",
        "committees",
        *ERROR_HEADER[5:],
    )
    return note + table(header, [committee_row(page, *row) for row in COMMITTEE_ROWS])


def committee_row(page: Page, title: str, name: str) -> list[str]:
    experiment, records = page.experiment(name), page.records(name)
    single, together = (None if value is None else Claim(value) for value in WAN.get(name, (None, None)))
    errors = summarise_errors(committee_errors(page.ledger, experiment))
    return [
        title,
        number(single.mean if single else None),
        mean_cell(summarise(records)),
        number(together.mean if together else None),
        mean_cell(errors, of="committee"),
        f"{errors.runs if errors else 0} of {experiment.committees}",
        runs_cell(page, name),
        seconds_cell(records),
        page.missing(name),
    ]


def ours(page: Page) -> str:
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


def softmax(page: Page) -> str:
    """Hit-or-Miss against softmax and cross-entropy: one network, two heads and their losses."""
    # Those of Hit-or-Miss are among ours; without the paper's error, which is of another network.
    rows = [[title, *error_row(page, title, name)[2:]] for title, _, name in SOFTMAX_PAIRS]
    differences = [[title, *difference_cells(page, hit, soft)] for title, hit, soft in SOFTMAX_PAIRS]
    return (
        "The network is `hitnet-resnet9`: once with its capsules and decoder ([ours](#ours)), once with softmax and "
        "cross-entropy instead:\n\n"
        + table((ERROR_HEADER[0], *ERROR_HEADER[2:]), rows)
        + "\nDifferences of the means, with 95 % intervals (Welch's t):\n\n"
        + table(("", f"{HIT} − {SOFT}, points [95 %]", "in words"), differences)
        + "\n"
        + "\n".join(paired_recipes(page))
        + "\n"
    )


def difference_cells(page: Page, hit: str, soft: str) -> tuple[str, str]:
    """The difference of two experiments' means: in numbers, and in words."""
    between = difference(*([run.error for run in page.records(name)] for name in (hit, soft)))
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
