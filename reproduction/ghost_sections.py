"""The sections of ghosts: their analysis beside the paper's figures, and top-k by ghosts."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hitnet import plots
from hitnet.capsules import HIT_RADIUS
from hitnet.runtime import write_text
from reproduction.book import Page
from reproduction.cells import NONE, change_cell, mean_cell, runs_cell, table
from reproduction.claims import MNIST_GHOSTS, GhostClaim
from reproduction.figures import BLUE, FOLDER, MOST_DRAWN, RED, WIDTH, image_line
from reproduction.ghosts import BIN, Facts
from reproduction.measures import difference, summarise_errors

DOUBTFUL_WORDS = "The doubtful images, each with its label, its ghost class and the number of hits"
LISTS = Path("lists")  # of doubtful images
Pairs = Counter[tuple[str, str]]  # (true class, ghost class)


def ghosts_section(page: Page, claim: GhostClaim | None = None) -> str:
    """Agreement of the networks, pairs of classes, table and figure of the doubtful images, for each experiment."""
    names = page.result.experiments
    analyses = {name: entry.facts for name in names if (entry := page.ghost_analysis(name))}
    cells = [name for name in names if page.experiment(name).arm_of is None]
    note = "The paper does not say how long it trained for this analysis; elsewhere it trained for 250 epochs."
    parts = [note, "\n".join(f"- {progress_line(page, name)}" for name in cells)]
    parts += [figures_table(page, analyses, claim), epochs_table(analyses)]
    for name, facts in analyses.items():
        parts += [f"### {name}", agreement_line(facts), draw_analysis(page, name, facts)]
        parts += ["Images with one ghost class: ghost classes in rows, true classes in columns.", agreed_matrix(facts)]
        brackets = "; the paper's counts in brackets" if claim else ""
        parts += [
            f"Doubtful images: ghost classes in rows, true classes in columns{brackets}.",
            doubtful_matrix(facts, claim),
        ]
        pictures = (image_line(page, DOUBTFUL_WORDS, file, drawn_by=name) for file in facts["files"])
        parts += [drawn_line(facts), *pictures, changes_table(facts)]
        parts.append(doubtful_list(page, name, facts))
    if not analyses and claim:
        parts += [
            "The paper's doubtful images: ghost classes in rows, true classes in columns.",
            doubtful_matrix(None, claim),
        ]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def progress_line(page: Page, name: str) -> str:
    """What an experiment is, how many runs there are, and what is left to do."""
    title = page.experiment(name).title
    line = f"{name}: {title}. Runs here: {runs_cell(page, name)}."
    if page.ghost_analysis(name) is not None:
        return line
    if missing := page.missing(name):
        return f"{line} The analysis needs all runs: {missing}."
    return f"{line} Not analysed yet: `python -m reproduction {name}` does it, with the ghost readings of all runs."


def figures_table(page: Page, analyses: dict[str, Facts], claim: GhostClaim | None) -> str:
    """The numbers of the text, the paper's beside ours."""
    names, rows = page.result.experiments, []

    def add_row(title: str, claimed: object, ours: Callable[[Facts], object]) -> None:
        cells = (ours(analyses[name]) if name in analyses else None for name in names)
        rows.append([title, *map(value_cell, (claimed, *cells))])

    add_row("networks", claim and claim.models, lambda facts: facts["models"])
    add_row("images with one ghost class (N_c = 1)", claim and share(claim.agreed, claim.images), agreed_share)
    for (true, ghost), count in (claim.agreed_pairs if claim else {}).items():
        add_row(f"of these, (true {true}, ghost {ghost})", count, partial(pair_count, true=true, ghost=ghost))
    add_row("doubtful images", claim and claim.doubtful, lambda facts: len(facts["doubtful"]))
    add_row("fewest hits among them", claim and claim.fewest_hits, lambda facts: min(hit_counts(facts), default=None))
    if claim:
        least, count = claim.many_hits
        add_row(f"with at least {least} hits", count, lambda facts: sum(hits >= least for hits in hit_counts(facts)))
    return table(("", "paper", *(f"{name}, {page.experiment(name).epochs} epochs" for name in names)), rows)


def hit_counts(facts: Facts) -> list[int]:
    """The hits of each doubtful image."""
    return [row[3] for row in facts["doubtful"]]


def pair_count(facts: Facts, true: str, ghost: str) -> int:
    names = list(facts["class_names"])
    return int(facts["pairs"][names.index(ghost)][names.index(true)])


def value_cell(value: object) -> str:
    return NONE if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def epochs_table(analyses: dict[str, Facts]) -> str:
    """The counts at earlier epochs, for experiments whose ghosts were read during training; empty if there are none.

    A longer training may repeat a shorter one: the same counts stand there once.
    """
    rows, shown = [], {tuple(facts["by_epoch"][-1]) for facts in analyses.values()}
    for name, facts in analyses.items():
        for epoch, agreed, doubtful in facts["by_epoch"] if len(facts["by_epoch"]) > 1 else ():
            if (epoch, agreed, doubtful) not in shown:
                rows.append([f"{name}, {epoch}", share(agreed, facts["images"]), f"{doubtful:,}"])
                shown.add((epoch, agreed, doubtful))
    return table(("experiment, epochs", "images with one ghost class", "doubtful images"), rows) if rows else ""


def changes_table(facts: Facts) -> str:
    """How often classes hit, and how many ghosts are those of the last epoch, over the epochs; empty if not known."""
    rows = [
        [str(epoch), f"{kept:.1f}", *(f"{hits:.3f}" for hits in (own, ghost, both)), percent_cell(both, ghost)]
        for epoch, kept, own, ghost, both in facts.get("over_epochs", ())
    ]
    note = "How often classes hit, and how many images already have the ghost of the last epoch, in %:\n\n"
    header = (
        "after epochs",
        "ghost of the last epoch",
        "true class hits",
        "ghost hits",
        "both hit",
        "both, of ghost hits",
    )
    return note + table(header, rows) if rows else ""


def percent_cell(count: float, total: float) -> str:
    return f"{100 * count / total:.0f}" if total else NONE


def agreed_share(facts: Facts) -> str:
    """How many images have one ghost class in all networks."""
    return share(dict(map(tuple, facts["agreement"])).get(1, 0), facts["images"])


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


def doubtful_list(page: Page, name: str, facts: Facts) -> str:
    """Write the doubtful images into a CSV file, by rising number of hits; a line that leads to it."""
    if not facts["doubtful"]:
        return ""
    text, file = io.StringIO(), LISTS / f"{name}-doubtful.csv"
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("index in the training set", "label", "ghost class", "hits", "mean distance"))
    writer.writerows(facts["doubtful"])
    write_text(page.folder / file, text.getvalue())
    return f"[All doubtful images]({file.as_posix()}), with labels, ghost classes and hits."


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

    figure = Figure(figsize=(WIDTH, 2.8), facecolor="white", layout="constrained")
    left, right = figure.subplots(1, 2)
    left.bar([n for n, _ in facts["agreement"]], [100 * k / facts["images"] for _, k in facts["agreement"]], color=BLUE)
    left.set(xlabel="different ghost classes $N_c$", ylabel="% of the images")
    centres = [low + BIN / 2 for low, _, _ in facts["spreads"]]
    right.plot(centres, [spread for _, _, spread in facts["spreads"]], color=BLUE, marker=".")
    right.axvline(HIT_RADIUS, color=RED, linewidth=1)
    right.set(xlabel="mean ghost distance; red: hit zone", ylabel="standard deviation ($N_c = 1$)")
    file = FOLDER / f"{name}-analysis.png"
    plots.save([figure], page.folder / file)
    return f"![Agreement of the networks, and spread of their distances]({file.as_posix()})"


def top_k_section(page: Page) -> str:
    """Errors within the first k classes, by the number of ghosts in training, and what ghosts change."""
    names = page.result.experiments
    most = page.experiment(names[0]).top_k
    ghosts = {name: str(page.experiment(name).full_recipe().ghosts) for name in names}
    errors = {name: [top_errors(page, name, k) for k in range(most)] for name in names}
    rows = []
    for name in names:
        cells = [mean_cell(summary) for summary in map(summarise_errors, errors[name])]
        rows.append([ghosts[name], *cells, runs_cell(page, name), page.missing(name)])
    without, *others = names
    changes = [
        [ghosts[name], *(change_cell(difference(*pair)) for pair in zip(errors[name], errors[without], strict=True))]
        for name in others
    ]
    note = (
        "The paper proposes k ghosts for top-k classification, without figures. A test image is wrong within the first "
        "k if its class is not among the k capsules that are nearest to the centre.\n\n"
    )
    header = ("ghosts in training", *(f"top {k + 1}, error % [95 %]" for k in range(most)), "runs here", "missing")
    change_header = ("ghosts in training", *(f"top {k + 1}, points [95 %]" for k in range(most)))
    return f"{note}{table(header, rows)}\nWhat ghosts change:\n\n{table(change_header, changes)}"


def top_errors(page: Page, name: str, k: int) -> list[float]:
    """The share of test images, in percent, whose class is not among the first k + 1: one for each run."""
    return [100 * record.top_wrong[k] / record.final_tested for record in page.records(name)]


def ghost_times_section(page: Page) -> str:
    """Errors, ghosts and hits by when ghosts are allowed; then how ghost classes change over the epochs."""
    note = (
        'The paper proposes ghosts "only after a given number of epochs", and ghosts that "generate some loss but with '
        'a given probability", without figures. These are small runs on a CPU: `hitnet-small`, trained on 8,000 of '
        "MNIST's test digits and tested on the other 2,000, which come with hitnet.\n\n"
    )
    rows, changes = [], []
    for name in page.result.experiments:
        title = page.experiment(name).title.split(", ")[-1]
        errors = mean_cell(summarise_errors([record.error for record in page.records(name)]))
        entry = page.ghost_analysis(name)
        if entry is None:
            rows.append([title, errors, *[NONE] * 5, runs_cell(page, name), page.missing(name)])
            continue
        facts = entry.facts
        hits = [f"{value:.2f}" for value in facts["over_epochs"][-1][2:]]
        doubtful = f"{len(facts['doubtful']):,}"
        rows.append([title, errors, agreed_share(facts), doubtful, *hits, runs_cell(page, name), page.missing(name)])
        kept = [f"{row[1]:.0f}" for row in facts["over_epochs"][:-1]]
        changes.append([title, *kept])
        epochs = [row[0] for row in facts["over_epochs"][:-1]]
    shares = ("true class hits, %", "ghost hits, %", "both hit, %")
    header = ("", "error % [95 %]", "images with one ghost class", "doubtful", *shares, "runs here", "missing")
    text = note + table(header, rows)
    if not changes:
        return text
    last = page.experiment(page.result.experiments[0]).epochs
    words = f"\nHow many images have the ghost that they have after {last} epochs already, in %:\n\n"
    return text + words + table(("", *(f"after {epoch}" for epoch in epochs)), changes)


mnist_ghosts_section = partial(ghosts_section, claim=MNIST_GHOSTS)
