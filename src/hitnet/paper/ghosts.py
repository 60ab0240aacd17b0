"""Ghosts over several runs (section 3.3): readings of each run, their analysis together, and its section.

The reading of a run (`ghosts-60.npz` in its folder: class and distance of every training image's ghost after 60
epochs) is small. To analyse runs of several machines, copy these files to one. The ledger keeps the analysis as
counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hitnet import plots
from hitnet.audit.ghosts import Ghosts, find_ghosts
from hitnet.audit.scores import others
from hitnet.capsules import HIT_RADIUS
from hitnet.data.array_files import read_npz
from hitnet.data.images import Images
from hitnet.errors import HitNetError
from hitnet.files import replacing
from hitnet.paper.book import Page, Result
from hitnet.paper.claims import MNIST_GHOSTS, GhostClaim
from hitnet.paper.experiments import Experiment
from hitnet.paper.figures import FOLDER, image_line
from hitnet.paper.ledger import ANALYSIS, Entry, Ledger, today
from hitnet.paper.page import NONE, runs_cell, table
from hitnet.paper.records import full_runs, summarise
from hitnet.plots.ghosts import MOST_DRAWN

COLUMNS = ("label", "ghost", "hits", "mean_distance")  # kept of each doubtful image, after its index
BIN = 0.05  # width of the steps of mean distance over which spreads are kept
Pairs = Counter[tuple[str, str]]  # (true class, ghost class)
Facts = dict[str, Any]


def reading_path(folder: Path, epoch: int) -> Path:
    """The file of a run's ghosts after an epoch."""
    return folder / f"ghosts-{epoch}.npz"


def save_reading(file: Path, distances: np.ndarray, labels: np.ndarray, *, fingerprint: str, weights: str) -> None:
    """Write the ghost of every training image in one network.

    Args:
        distances: Distances (N, K) of all capsules to the centre.
        labels: Classes (N,) of the images.
        fingerprint: Fingerprint of the images.
        weights: Fingerprint of the network's weights.
    """
    candidates = others(distances.astype(np.float64), labels)
    with replacing(file) as temporary, temporary.open("wb") as opened:
        np.savez_compressed(
            opened,
            ghost=candidates.argmin(axis=1).astype(np.int16),
            distance=candidates.min(axis=1).astype(np.float32),
            fingerprint=np.array(fingerprint),
            weights=np.array(weights),
        )


def load_readings(files: Sequence[Path], labels: np.ndarray, classes: int) -> tuple[np.ndarray, list[str]]:
    """The readings of M networks.

    Returns:
        Distances (M, N, K), infinite except for the ghosts, and the fingerprints of the M networks' weights.

    Raises:
        HitNetError: A file is damaged, or of other images, or of the same network as another.
    """
    distances = np.full((len(files), len(labels), classes), np.inf)
    fingerprints, networks = set(), []
    for rows, file in zip(distances, files, strict=True):
        ghost, distance, fingerprint, weights = read_reading(file, classes)
        fingerprints.add(fingerprint)
        networks.append(weights)
        if len(ghost) != len(labels) or len(fingerprints) > 1:
            raise HitNetError(f"{file} is of other images than the other readings. Do all runs use the same data?")
        if networks.count(networks[-1]) > 1:
            twin = files[networks.index(networks[-1])]
            raise HitNetError(f"{file} and {twin} are of the same network. Copy each from its own run folder.")
        rows[np.arange(len(labels)), ghost] = distance
    return distances, networks


def read_reading(file: Path, classes: int) -> tuple[np.ndarray, np.ndarray, str, str]:
    """Ghosts (N,), their distances (N,), and the fingerprints of images and weights, as `save_reading` wrote them."""
    hint = "Copy it again from where it was made, or remove it."
    try:
        reading = read_npz(file, ("ghost", "distance", "fingerprint", "weights"))
    except HitNetError as error:
        raise HitNetError(f"{file} cannot be read: {error} {hint}") from error
    kinds = {name: (array.dtype.kind, array.ndim) for name, array in reading.items()}
    expected = {"ghost": ("i", 1), "distance": ("f", 1), "fingerprint": ("U", 0), "weights": ("U", 0)}
    if kinds != expected or reading["ghost"].shape != reading["distance"].shape:
        raise HitNetError(f"{file} cannot be read: it does not hold the ghosts of a network. {hint}")
    ghost = reading["ghost"]
    if len(ghost) and not 0 <= int(ghost.min()) <= int(ghost.max()) < classes:
        raise HitNetError(f"{file} cannot be read: it names classes beyond the {classes} that there are. {hint}")
    return ghost, reading["distance"], str(reading["fingerprint"]), str(reading["weights"])


def analyse_ghosts(
    experiment: Experiment,
    readings: Mapping[int, Mapping[int, Path]],
    images: Images,
    ledger: Ledger,
    docs: Path,
    say: Callable[[str], None],
) -> None:
    """Analyse the ghosts of several runs together, and record the analysis.

    Args:
        readings: The file of each reading, by epoch and seed; some may not exist.
        images: The training images.
        docs: The folder of documents, where the pictures of doubtful images go.
        say: Called with what is missing, and with the result.
    """
    by_epoch = []
    for epoch, files in readings.items():
        absent = [str(seed) for seed, file in files.items() if not file.is_file()]
        if absent:
            some = next(iter(files.values()))
            say(
                f"{experiment.name}: the ghosts of seeds {', '.join(absent)} after {epoch} epochs are missing "
                f"({some.name} in {some.parent.parent}/seed-…)"
            )
            continue
        ghosts = read_ghosts(files, images, ledger, experiment, last=epoch == experiment.epochs)
        by_epoch.append([epoch, len(ghosts.agreed()), len(ghosts.doubtful())])
    if not by_epoch or by_epoch[-1][0] != experiment.epochs:
        text = "not analysed. Copy the files named above from their run folders, and repeat the command"
        say(f"{experiment.name}: {text}")
        return
    seeds = tuple(files)
    drawn = draw_doubtful(experiment, ghosts, images, docs)
    weights = [full_runs(ledger, experiment)[seed].weights for seed in seeds]
    facts = analysis_facts(ghosts, images)
    facts |= {"epochs": experiment.epochs, "by_epoch": by_epoch, "files": drawn, "weights": weights, "date": today()}
    ledger.add_if_new(Entry(ANALYSIS, experiment.name, seeds, facts))
    say(f"{experiment.name}: {len(ghosts.doubtful())} doubtful images by {len(seeds)} networks")


def read_ghosts(
    files: Mapping[int, Path], images: Images, ledger: Ledger, experiment: Experiment, *, last: bool
) -> Ghosts:
    """The ghosts of several runs, from their files by seed.

    Raises:
        HitNetError: Readings of the end of training (`last`) are of other networks than the ledger's runs.
    """
    labels = images.labels.numpy()
    distances, networks = load_readings(list(files.values()), labels, images.num_classes)
    runs = full_runs(ledger, experiment)
    for (seed, file), weights in zip(files.items(), networks, strict=True):
        if last and weights != runs[seed].weights:
            raise HitNetError(
                f"{file} is of another network (weights {weights}) than the ledger's run with seed {seed} "
                f"({runs[seed].weights}). Copy the file from that run's folder."
            )
    return find_ghosts(distances, labels, images.class_names)


def analysis_facts(ghosts: Ghosts, images: Images) -> Facts:
    """The analysis as plain values; pairs are counts[ghost class][true class]."""
    doubtful, agreed = ghosts.doubtful(), ghosts.agreed()
    agreement = ghosts.agreement()
    step = np.floor(agreed["mean_distance"].to_numpy() / BIN).astype(int)
    spread = agreed["std_distance"].to_numpy()
    return {
        "data": images.name,
        "images": len(images),
        "models": ghosts.models,
        "class_names": list(images.class_names),
        "agreement": [[int(n), int(count)] for n, count in zip(agreement["classes"], agreement["images"], strict=True)],
        "pairs": ghosts.pairs(agreed).iloc[:-1, :-1].to_numpy().tolist(),
        "doubtful": [
            [int(images.ids[i]), label, ghost, hits, round(mean, 4)]
            for i, label, ghost, hits, mean in zip(
                doubtful.index.tolist(), *(doubtful[name].tolist() for name in COLUMNS), strict=True
            )
        ],
        "spreads": [
            [round(k * BIN, 2), int((step == k).sum()), round(float(spread[step == k].mean()), 4)]
            for k in sorted(set(step.tolist()))
        ],
    }


def draw_doubtful(experiment: Experiment, ghosts: Ghosts, images: Images, docs: Path) -> list[str]:
    """Draw the doubtful images, if there are any; gives the files, relative to `docs`."""
    if not len(ghosts.doubtful()):
        return []
    file = docs / FOLDER / f"{experiment.name}-{ghosts.models}-doubtful.png"
    return [path.relative_to(docs).as_posix() for path in plots.save(plots.doubtful_figures(ghosts, images), file)]


def ghosts_section(page: Page, claim: GhostClaim | None = None) -> str:
    """Agreement of the networks, pairs of classes, table and figure of the doubtful images, for each experiment."""
    names = page.result.experiments
    analyses = {name: entry.facts for name in names if (entry := page.ghost_analysis(name))}
    note = "The paper does not say how long it trained for this analysis; elsewhere it trained for 250 epochs."
    parts = [note, "\n".join(f"- {standing_line(page, name)}" for name in names)]
    parts += [figures_table(page, analyses, claim), epochs_table(analyses)]
    for name, facts in analyses.items():
        parts += [f"### {name}", agreement_line(facts), draw_analysis(page, name, facts)]
        parts += ["Images with one ghost class: ghost classes in rows, true classes in columns.", agreed_matrix(facts)]
        brackets = "; the paper's counts in brackets" if claim else ""
        parts += [
            f"Doubtful images: ghost classes in rows, true classes in columns{brackets}.",
            doubtful_matrix(facts, claim),
        ]
        parts += [drawn_line(facts), *(image_line(page, "The doubtful images", file) for file in facts["files"])]
        parts.append(doubtful_list(facts))
    if not analyses and claim:
        parts += [
            "The paper's doubtful images: ghost classes in rows, true classes in columns.",
            doubtful_matrix(None, claim),
        ]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def standing_line(page: Page, name: str) -> str:
    """How long an experiment is, how many runs there are, and what is left to do."""
    summary = summarise(page.records(name))
    line = f"{name}: {page.experiment(name).epochs} epochs, runs here: {runs_cell(page, name, summary)}."
    if page.ghost_analysis(name) is not None:
        return line
    if missing := page.missing(name):
        return f"{line} The analysis needs all runs: {missing}."
    return f"{line} Not analysed yet: `hitnet reproduce {name}` does it, with the ghost readings of all runs."


def figures_table(page: Page, analyses: dict[str, Facts], claim: GhostClaim | None) -> str:
    """The numbers of the text, the paper's beside ours."""
    names, rows = page.result.experiments, []

    def add_row(title: str, claimed: object, ours: Callable[[Facts], object]) -> None:
        cells = (ours(analyses[name]) if name in analyses else None for name in names)
        rows.append([title, *map(value_cell, (claimed, *cells))])

    def ours_agreed(facts: Facts) -> str:
        return share(dict(map(tuple, facts["agreement"])).get(1, 0), facts["images"])

    add_row("networks", claim and claim.models, lambda facts: facts["models"])
    add_row("images with one ghost class (N_c = 1)", claim and share(claim.agreed, claim.images), ours_agreed)
    for (true, ghost), count in (claim.agreed_pairs if claim else {}).items():
        add_row(f"of these, (true {true}, ghost {ghost})", count, partial(pair_count, true=true, ghost=ghost))
    add_row("doubtful images", claim and claim.doubtful, lambda facts: len(facts["doubtful"]))
    add_row("fewest hits among them", claim and claim.fewest_hits, lambda facts: min(hit_counts(facts), default=None))
    if claim:
        least, count = claim.many_hits
        add_row(f"with at least {least} hits", count, lambda facts: sum(hits >= least for hits in hit_counts(facts)))
    return table(("", "paper", *(f"here, {page.experiment(name).epochs} epochs" for name in names)), rows)


def hit_counts(facts: Facts) -> list[int]:
    """The hits of each doubtful image."""
    return [row[3] for row in facts["doubtful"]]


def pair_count(facts: Facts, true: str, ghost: str) -> int:
    names = list(facts["class_names"])
    return int(facts["pairs"][names.index(ghost)][names.index(true)])


def value_cell(value: object) -> str:
    return NONE if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def epochs_table(analyses: dict[str, Facts]) -> str:
    """The counts by epoch, for experiments whose ghosts were read during training; empty if there are none."""
    rows = [
        [f"{name}, {epoch}", share(agreed, facts["images"]), f"{doubtful:,}"]
        for name, facts in analyses.items()
        if len(facts["by_epoch"]) > 1
        for epoch, agreed, doubtful in facts["by_epoch"]
    ]
    return table(("experiment, epochs", "images with one ghost class", "doubtful images"), rows) if rows else ""


def share(count: int, total: int) -> str:
    return f"{count:,} ({100 * count / total:.0f} %)"


def agreement_line(facts: Facts) -> str:
    counts = [f"{n}: {share(count, facts['images'])}" for n, count in facts["agreement"]]
    return f"Images by the number of different ghost classes (N_c): {'; '.join(counts)}."


def agreed_matrix(facts: Facts) -> str:
    """Pairs of classes of the images with one ghost class."""
    names = facts["class_names"]
    counts = {(true, ghost): pair_count(facts, true, ghost) for ghost in names for true in names}
    return pairs_matrix(names, Counter(counts), None)


def doubtful_matrix(facts: Facts | None, claim: GhostClaim | None) -> str:
    """Table 4."""
    names = facts["class_names"] if facts else list("0123456789")
    ours = Counter((row[1], row[2]) for row in facts["doubtful"]) if facts else None
    return pairs_matrix(names, ours, Counter(claim.doubtful_pairs) if claim else None)


def pairs_matrix(names: list[str], ours: Pairs | None, claimed: Pairs | None) -> str:
    """Counts of (true class, ghost class) with totals, the paper's in brackets; None where nothing is known."""

    def total(pairs: Pairs, true: str, ghost: str) -> int:
        return sum(n for (t, g), n in pairs.items() if true in (t, "Total") and ghost in (g, "Total"))

    def cell(true: str, ghost: str) -> str:
        here, paper = (None if pairs is None else total(pairs, true, ghost) for pairs in (ours, claimed))
        brackets = "" if paper is None else f" ({paper})"
        return f"{NONE if here is None else here}{brackets}" if here or paper else "·"

    classes = [*names, "Total"]
    return table(("", *classes), [[f"**{ghost}**", *(cell(true, ghost) for true in classes)] for ghost in classes])


def doubtful_list(facts: Facts) -> str:
    """The doubtful images by rising number of hits, as (index: true class, ghost class, hits); empty without any."""
    rows = [f"{i}: {label}, {ghost}, {hits}" for i, label, ghost, hits, _ in facts["doubtful"]]
    if not rows:
        return ""
    heading = f"All {len(rows):,} doubtful images, as index in the training set: label, ghost class, hits"
    return f"<details><summary>{heading}</summary>\n\n{'; '.join(rows)}.\n\n</details>"


def drawn_line(facts: Facts) -> str:
    """Which of the doubtful images are drawn; empty if all are."""
    count = len(facts["doubtful"])
    return (
        ""
        if count <= MOST_DRAWN
        else f"The pictures show the {MOST_DRAWN} of the {count:,} doubtful images that have the most hits."
    )


def draw_analysis(page: Page, name: str, facts: Facts) -> str:
    """Draw the agreement of the networks, and how the spread of the distances falls towards the hit zone."""
    from matplotlib.figure import Figure

    blue, red = plots.sheet.BLUE, plots.sheet.RED
    figure = Figure(figsize=(plots.sheet.WIDTH, 2.8), facecolor="white", layout="constrained")
    left, right = figure.subplots(1, 2)
    left.bar([n for n, _ in facts["agreement"]], [100 * k / facts["images"] for _, k in facts["agreement"]], color=blue)
    left.set(xlabel="different ghost classes $N_c$", ylabel="% of the images")
    centres = [low + BIN / 2 for low, _, _ in facts["spreads"]]
    right.plot(centres, [spread for _, _, spread in facts["spreads"]], color=blue, marker=".")
    right.axvline(HIT_RADIUS, color=red, linewidth=1)
    right.set(xlabel="mean ghost distance; red: hit zone", ylabel="standard deviation ($N_c = 1$)")
    file = FOLDER / f"{name}-analysis.png"
    plots.save([figure], page.docs / file)
    return f"![Agreement of the networks, and spread of their distances]({file.as_posix()})"


MNIST = Result(
    "ghosts-mnist",
    "Ghosts of MNIST: agreement, pairs, doubtful images",
    "section 3.3, table 4, last figure (a)",
    ("mnist-ghosts", "mnist-ghosts-250"),
    partial(ghosts_section, claim=MNIST_GHOSTS),
    paper_runs=str(MNIST_GHOSTS.models),
)
SVHN = Result(
    "ghosts-svhn",
    "Ghosts of SVHN: agreement, pairs, doubtful images",
    "section 3.3, last figure (b)",
    ("svhn-ghosts",),
    ghosts_section,
)
