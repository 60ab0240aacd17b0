"""The sections of the paper's tables on the page of results, and the list of all results in their order.

To add a result, write a function that renders its section, and add a `Result` to `RESULTS`.
"""

from __future__ import annotations

import statistics

from reproduction import arm_sections, committee_sections, figures, ghost_sections, our_sections
from reproduction.book import TEACHER_SEED, Book, Page, Result
from reproduction.claims import CAPSNET_ELSEWHERE, CAPSNET_SLOWER, CLAIMS, Claim
from reproduction.figures import TABLE1_CONSTANT, TABLE1_NETWORKS
from reproduction.page import (
    NONE,
    beside_claim,
    error_table,
    mean_cell,
    number,
    runs_cell,
    seconds_cell,
    table,
    tested_on_line,
)
from reproduction.plan import EXPERIMENTS
from reproduction.records import RunRecord, summarise

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
    ("MNIST, all images modified, decreasing rate", "mnist-hybrid-decay"),
    ("MNIST, a quarter modified, ours", "mnist-ours"),
    ("Fashion-MNIST", "fashion-hitnet"),
    ("Fashion-MNIST, all images modified", "fashion-hybrid"),
    ("CIFAR-10", "cifar10-hitnet"),
    ("CIFAR-10, all images modified", "cifar10-hybrid"),
    ("SVHN", "svhn-hitnet"),
    ("SVHN, all images modified", "svhn-hybrid"),
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


def table3_section(page: Page) -> str:
    """Training on images that a trained network modifies (hybrid data augmentation)."""
    note = (
        f"The run with seed {TEACHER_SEED} of the same network without augmentation modifies the images; the time of "
        'training it is not included. The paper does not say which part of the images it modified. In the row "ours", '
        "a network with a better decoder, mnist-ours-teacher, modifies them.\n\n"
    )
    return note + error_table(page, TABLE3_ROWS)


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
    ghost_sections.MNIST,
    ghost_sections.SVHN,
    ghost_sections.TOP_K,
    arm_sections.ARMS_RESULT,
    committee_sections.COMMITTEES,
    our_sections.OURS,
    our_sections.SOFTMAX,
)
PAPER = Book(EXPERIMENTS, {result.name: result for result in RESULTS}, CLAIMS)
