"""The sections of the page of results: the paper's tables, our own, and the list of all results in their order.

To add a result, write a function that renders its section, and add a `Result` to `RESULTS`.
"""

from __future__ import annotations

import statistics

from hitnet.losses import MISS_WEIGHT
from hitnet.paper import arm_sections, figures, ghosts
from hitnet.paper.book import TEACHER_SEED, Book, Page, Result
from hitnet.paper.claims import CAPSNET_ELSEWHERE, CAPSNET_SLOWER, CLAIMS, Claim
from hitnet.paper.experiments import Experiment
from hitnet.paper.figures import TABLE1_CONSTANT, TABLE1_NETWORKS
from hitnet.paper.page import (
    ERROR_HEADER,
    NONE,
    beside_claim,
    error_row,
    error_table,
    mean_cell,
    number,
    runs_cell,
    seconds_cell,
    table,
)
from hitnet.paper.plan import EXPERIMENTS, OUR_TEACHER, RESNET9_DATA
from hitnet.paper.records import RunRecord, difference, summarise

TABLE1_OURS = "mnist-ours"  # the same network, by our own recipe, whose rate decreases too
SQUASH_ROWS = (("HitNet with squash", "mnist-squash"), ("HitNet", "mnist-hitnet-constant"))
SPEED_HITNET, SPEED_CAPSNET, SPEED_TABLE1 = "mnist-hitnet-50", "mnist-capsnet", "mnist-hitnet-constant"
TABLE2_ROWS = (
    ("MNIST", "mnist-hitnet-constant"),
    ("MNIST, ours", "mnist-ours"),
    ("MNIST, ours, ResNet-9", "mnist-resnet9"),
    ("Fashion-MNIST", "fashion-hitnet"),
    ("Fashion-MNIST, ours, ResNet-9", "fashion-resnet9"),
    ("CIFAR-10", "cifar10-hitnet"),
    ("CIFAR-10, ours, ResNet-9", "cifar10-resnet9"),
    ("SVHN", "svhn-hitnet"),
    ("SVHN, ours, ResNet-9", "svhn-resnet9"),
    ("affNIST", "affnist-hitnet"),
)
TABLE2_PAPER = tuple((title, name) for title, name in TABLE2_ROWS if "ours" not in title)
SHIFTS_ROWS = (
    ("affNIST, images shifted in training", "affnist-hitnet-shifts"),
    ("affNIST, ours, ResNet-9, images shifted", "affnist-ours"),
)
TABLE3_ROWS = (
    ("MNIST", "mnist-hitnet-constant"),
    ("MNIST, all images modified", "mnist-hybrid"),
    ("MNIST, a quarter modified", "mnist-hybrid-quarter"),
    ("MNIST, a quarter modified, decreasing rate", "mnist-hybrid-decay"),
    ("MNIST, a quarter modified, ours", "mnist-ours"),
    ("Fashion-MNIST", "fashion-hitnet"),
    ("Fashion-MNIST, all images modified", "fashion-hybrid"),
    ("Fashion-MNIST, a quarter modified", "fashion-hybrid-quarter"),
    ("CIFAR-10", "cifar10-hitnet"),
    ("CIFAR-10, a quarter modified", "cifar10-hybrid-quarter"),
    ("SVHN", "svhn-hitnet"),
    ("SVHN, a quarter modified", "svhn-hybrid-quarter"),
)
# Title, experiment, and the experiment of the paper whose error is shown beside it.
OURS_ROWS = (
    ("MNIST, the paper's network", "mnist-ours", "mnist-hitnet-decay"),
    ("MNIST, ResNet-9", "mnist-resnet9", "mnist-hitnet-decay"),
    ("Fashion-MNIST, ResNet-9", "fashion-resnet9", "fashion-hitnet"),
    ("CIFAR-10, ResNet-9", "cifar10-resnet9", "cifar10-hitnet"),
    ("SVHN, ResNet-9", "svhn-resnet9", "svhn-hitnet"),
    ("affNIST, ResNet-9, images shifted in training", "affnist-ours", "affnist-hitnet-shifts"),
)
HIT, SOFTMAX = "Hit-or-Miss", "softmax"
# Title of the data set, experiment with capsules, experiment with softmax.
SOFTMAX_PAIRS = tuple(
    (facts.title, f"{name}-resnet9", f"{name}-resnet9-softmax") for name, (facts, _, _) in RESNET9_DATA.items()
)


def table1_constant_section(page: Page) -> str:
    """Table 1, left; its last figure is the irregularity."""
    return table1_half(page, "constant", "irregularity (paper)")


def table1_decay_section(page: Page) -> str:
    """Table 1, right; its last figure is the best run."""
    return table1_half(page, "decay", "best % (paper)")


def table1_half(page: Page, rate: str, last: str) -> str:
    """Four networks on MNIST, with a constant or a decreasing learning rate."""
    header = ("network", "paper, error %", "here, error % [95 %]", "std (paper)", last)
    rows = [table1_row(page, f"mnist-{network}-{rate}", title, rate) for network, title in TABLE1_NETWORKS.items()]
    if rate == "decay":
        rows.append(table1_row(page, TABLE1_OURS, "HitNet, ours", rate))
    return table((*header, "runs here", "s per model", "missing"), rows)


def table1_row(page: Page, name: str, title: str, rate: str) -> list[str]:
    records = page.records(name)
    claim, summary = page.book.claims.get(name, Claim()), summarise(records)
    runs = runs_cell(page, name, summary)
    claimed = claim.irregularity if rate == "constant" else claim.best
    digits = 3 if rate == "constant" else 2
    if summary is None:
        empty = [beside_claim(None, claim.std, 3), beside_claim(None, claimed, digits)]
        return [title, number(claim.mean), NONE, *empty, runs, NONE, page.missing(name)]
    ours = summary.irregularity if rate == "constant" else summary.best
    spread = [beside_claim(summary.std, claim.std, 3), beside_claim(ours, claimed, digits)]
    mean = mean_cell(summary, claim)
    return [title, number(claim.mean), mean, *spread, runs, seconds_cell(records), page.missing(name)]


def squash_section(page: Page) -> str:
    """HitNet with CapsNet's squashing function in place of its sigmoid."""
    return error_table(page, SQUASH_ROWS)


def speed_section(page: Page) -> str:
    """HitNet's speed against CapsNet's on the same device, from runs made for it and those of table 1."""
    hitnet, capsnet = runs_by_device(page, SPEED_HITNET, SPEED_TABLE1), runs_by_device(page, SPEED_CAPSNET)
    claim = (
        f"In the paper, Guo's CapsNet is about {CAPSNET_SLOWER:.0f} times slower than HitNet. Here, both "
        "implementations are ours.\n\n"
    )
    rows = [
        speed_row(*place, hitnet.get(place, []), capsnet.get(place, []))
        for place in sorted(hitnet.keys() | capsnet.keys())
    ]
    header = ("device", "side by side", "HitNet, images/s", "CapsNet, images/s", "HitNet is faster by", "runs")
    missing = [f"- {name}: {page.missing(name)}" for name in (SPEED_HITNET, SPEED_CAPSNET) if page.missing(name)]
    return claim + "\n".join([(table(header, rows) if rows else "") + capsnet_error(page), *missing]).strip() + "\n"


def speed_row(device: str, beside: int, hitnet: list[RunRecord], capsnet: list[RunRecord]) -> list[str]:
    """Both speeds, and their ratio; all with equally many networks side by side, because few do not fill a GPU."""
    speeds = [statistics.median(run.images_per_second for run in runs) if runs else None for runs in (hitnet, capsnet)]
    ratio = NONE if None in speeds else f"{speeds[0] / speeds[1]:.1f}"  # type: ignore[operator]
    cells = [NONE if speed is None else f"{speed:,.0f}" for speed in speeds]
    return [device, str(beside), *cells, ratio, f"{len(hitnet)} and {len(capsnet)}"]


def capsnet_error(page: Page) -> str:
    errors = [record.error for record in page.records(SPEED_CAPSNET)]
    if not errors:
        return ""
    runs = "one run" if len(errors) == 1 else f"mean of {len(errors)} runs"
    epochs = page.experiment(SPEED_CAPSNET).epochs
    return f"\nCapsNet's error after {epochs} epochs, {runs}: {statistics.mean(errors):.2f} %.\n"


def runs_by_device(page: Page, *names: str) -> dict[tuple[str, int], list[RunRecord]]:
    """Runs by device, and by how many networks were trained side by side."""
    runs: dict[tuple[str, int], list[RunRecord]] = {}
    for record in (record for name in names for record in page.records(name)):
        runs.setdefault((record.device, record.beside), []).append(record)
    return runs


def table2_section(page: Page) -> str:
    """HitNet on five data sets, beside what others report of CapsNet."""
    sets = {title: page.experiment(name).data for title, name in TABLE2_PAPER}
    others = [
        [source, *(number(errors.get(data)) for data in sets.values())] for source, errors in CAPSNET_ELSEWHERE.items()
    ]
    return (
        error_table(page, TABLE2_ROWS)
        + tested_on_line(page, "affnist-hitnet")
        + "\nCapsNet's error in % as others report it, quoted from the paper:\n\n"
        + table(("CapsNet from", *sets), others)
    )


def shifts_section(page: Page) -> str:
    """affNIST once more, with the shifts of the other experiments."""
    return error_table(page, SHIFTS_ROWS) + "".join(tested_on_line(page, name) for _, name in SHIFTS_ROWS)


def tested_on_line(page: Page, name: str) -> str:
    """Which test images the runs were tested on: affNIST's own, or rebuilt ones; empty without runs."""
    names = sorted({record.tested_on for record in page.records(name)})
    return f"\n{page.experiment(name).title}: tested on {', '.join(names)}.\n" if names else ""


def table3_section(page: Page) -> str:
    """Training on images that a trained network modifies (hybrid data augmentation)."""
    note = (
        f"The run with seed {TEACHER_SEED} of the same network without augmentation modifies the images; the time of "
        'training it is not included. The paper does not say which part of the images it modified. In the row "ours", '
        "a network with a better decoder, mnist-ours-teacher, modifies them.\n\n"
    )
    return note + error_table(page, TABLE3_ROWS)


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
        for head, name in zip((HIT, SOFTMAX), names, strict=True)
    ]
    # Without the paper's error, which is of another network.
    rows = [[title, *error_row(page, title, name)[2:]] for title, name in titles]
    return (
        "The network is `hitnet-resnet9`: once with its capsules and decoder, once with softmax and cross-entropy "
        "instead.\n\n"
        + table((ERROR_HEADER[0], *ERROR_HEADER[2:]), rows)
        + "\nDifferences of the means, with 95 % intervals (Welch's t):\n\n"
        + table(
            ("", f"{HIT} − {SOFTMAX}, points [95 %]", "in words"),
            [[title, *difference_cells(page, hit, softmax)] for title, hit, softmax in SOFTMAX_PAIRS],
        )
        + "\n"
        + "\n".join(paired_recipes(page))
        + "\n"
    )


def difference_cells(page: Page, hit: str, softmax: str) -> tuple[str, str]:
    """The difference of two experiments' means: in numbers, and in words."""
    between = difference(page.records(hit), page.records(softmax))
    if between is None:
        return NONE, "not comparable yet: both need at least two runs"
    low, high = between.interval
    words = "no difference detected"
    if low > 0:
        words = f"{SOFTMAX} has the lower error"
    elif high < 0:
        words = f"{HIT} has the lower error"
    return f"{between.mean:+.3f} [{low:+.3f}, {high:+.3f}]", words


def paired_recipes(page: Page) -> list[str]:
    """How each pair is trained: what both have in common, and what only one has."""
    lines = []
    for title, *names in SOFTMAX_PAIRS:
        both = [recipe_words(page.experiment(name)) for name in names]
        parts = [f"both: {', '.join(word for word in both[0] if word in both[1])}"]
        for head, words, others in zip((HIT, SOFTMAX), both, reversed(both), strict=True):
            own = [word for word in words if word not in others]
            parts += [f"{head}: {', '.join(own)}"] if own else []
        lines.append(f"- {title}, " + "; ".join(parts))
    return lines


MNIST_TITLE = "Four networks on MNIST"
RESULTS = (
    figures.LOSS,
    Result(
        "table1-constant",
        f"{MNIST_TITLE}, constant learning rate",
        "table 1, left",
        TABLE1_CONSTANT,
        table1_constant_section,
        paper_runs="80",
    ),
    Result(
        "table1-decay",
        f"{MNIST_TITLE}, decreasing learning rate",
        "table 1, right",
        tuple(f"mnist-{network}-decay" for network in TABLE1_NETWORKS),
        table1_decay_section,
        paper_runs="80",
    ),
    figures.CURVES,
    Result("squash", "HitNet with squash on MNIST", "section 3.1", ("mnist-squash",), squash_section),
    Result("speed", "Speed against CapsNet", "section 3.1", (SPEED_HITNET, SPEED_CAPSNET), speed_section),
    Result(
        "table2",
        "HitNet on five data sets",
        "table 2",
        tuple(name for _, name in TABLE2_PAPER),
        table2_section,
        paper_runs="100",
    ),
    Result("affnist-shifts", "affNIST with shifts", "comments on table 2", ("affnist-hitnet-shifts",), shifts_section),
    figures.PROTOTYPES,
    figures.TRAVERSAL,
    figures.COMPONENTS,
    figures.AUGMENTATION,
    Result(
        "table3",
        "Hybrid data augmentation",
        "table 3",
        tuple(name for _, name in TABLE3_ROWS if "hybrid" in name),
        table3_section,
        paper_runs="20 per row on MNIST, else not given",
    ),
    ghosts.MNIST,
    ghosts.SVHN,
    arm_sections.TOP_K,
    arm_sections.ARMS_RESULT,
    arm_sections.COMMITTEES,
    Result(
        "ours",
        "Hit-or-Miss beyond the paper's recipe and network",
        "beyond the paper",
        (OUR_TEACHER.name, *(name for _, name, _ in OURS_ROWS)),
        ours_section,
        paper_runs="",
    ),
    Result(
        "softmax",
        "Hit-or-Miss against softmax",
        "beyond the paper",
        tuple(name for _, *names in SOFTMAX_PAIRS for name in names),
        softmax_section,
        paper_runs="",
    ),
)
PAPER = Book(EXPERIMENTS, {result.name: result for result in RESULTS}, CLAIMS)
