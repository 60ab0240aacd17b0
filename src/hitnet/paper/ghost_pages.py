"""Section 3.3 on paper: agreement of the networks, pairs of classes, the doubtful images' table and figure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from hitnet import plots
from hitnet.capsules import HIT_RADIUS
from hitnet.paper.book import Page, Result
from hitnet.paper.claims import MNIST_GHOSTS, GhostClaim
from hitnet.paper.ghosts import BIN
from hitnet.paper.markdown import NONE, runs_cell, table
from hitnet.paper.pictures import FOLDER, image_line
from hitnet.paper.statistics import summarise
from hitnet.plots.ghosts import MOST_DRAWN

Pairs = Counter[tuple[str, str]]  # (true class, ghost class)
Facts = dict[str, Any]


def mnist(page: Page) -> str:
    return render(page, ("mnist-ghosts", "mnist-ghosts-250"), MNIST_GHOSTS)


def svhn(page: Page) -> str:
    return render(page, ("svhn-ghosts",), None)


def render(page: Page, names: tuple[str, ...], claim: GhostClaim | None) -> str:
    found = {name: entry.facts for name in names if (entry := page.analysis(name))}
    said = "The paper does not say for how long it trained here; elsewhere for 250 epochs."
    parts = [said, "\n".join(f"- {standing(page, name)}" for name in names)]
    parts += [figures(page, found, names, claim), by_epoch(found)]
    for name, facts in found.items():
        parts += [f"### {name}", agreement(facts), draw(page, name, facts)]
        parts += ["Images with one ghost class: ghost class down, true class across.", agreed_pairs(facts)]
        brackets = "; paper's counts in brackets" if claim else ""
        parts += [f"Doubtful images: ghost class down, true class across{brackets}.", doubtful_pairs(facts, claim)]
        parts += [pictured(facts), *(image_line(page, "The doubtful images", file) for file in facts["files"])]
        parts.append(listed(facts))
    if not found and claim:
        parts += ["The paper's doubtful images: ghost class down, true class across.", doubtful_pairs(None, claim)]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def standing(page: Page, name: str) -> str:
    """How long an experiment is, how many runs there are, and what is left."""
    summary = summarise(page.records(name))
    said = f"{name}: {page.experiment(name).epochs} epochs, runs here: {runs_cell(page, name, summary)}."
    if page.analysis(name) is not None:
        return said
    if missing := page.missing(name):
        return f"{said} No analysis before all runs are there: {missing}."
    return f"{said} Not analysed yet; the ghosts of all runs have to be brought together: `hitnet reproduce {name}`."


def figures(page: Page, found: dict[str, Facts], names: tuple[str, ...], claim: GhostClaim | None) -> str:
    """The numbers of the text, the paper's beside ours."""
    rows = []

    def row(what: str, theirs: object, ours: Callable[[Facts], object]) -> None:
        rows.append([what, shown(theirs), *(shown(ours(found[name]) if name in found else None) for name in names)])

    row("networks", claim and claim.models, lambda facts: facts["models"])
    row("images with one ghost class (N_c = 1)", claim and share(claim.agreed, claim.images), agreed_share)
    for (true, ghost), count in (claim.agreed_pairs if claim else {}).items():
        row(f"of these, (true {true}, ghost {ghost})", count, partial(pair_count, true=true, ghost=ghost))
    row("doubtful images", claim and claim.doubtful, lambda facts: len(facts["doubtful"]))
    row("fewest hits among them", claim and claim.fewest_hits, lambda facts: min(hits(facts), default=None))
    if claim:
        most, count = claim.many_hits
        row(f"with at least {most} hits", count, lambda facts: sum(h >= most for h in hits(facts)))
    return table(("", "paper", *(f"here, {page.experiment(name).epochs} epochs" for name in names)), rows)


def hits(facts: Facts) -> list[int]:
    return [row[3] for row in facts["doubtful"]]


def agreed_share(facts: Facts) -> str:
    return share(dict(map(tuple, facts["agreement"])).get(1, 0), facts["images"])


def pair_count(facts: Facts, true: str, ghost: str) -> int:
    names = list(facts["class_names"])
    return int(facts["pairs"][names.index(ghost)][names.index(true)])


def shown(value: object) -> str:
    return NONE if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def by_epoch(found: dict[str, Facts]) -> str:
    """How the counts go on with training, where ghosts were read on the way."""
    rows = [
        [f"{name}, {epoch}", share(agreed, facts["images"]), f"{doubtful:,}"]
        for name, facts in found.items()
        if len(facts["by_epoch"]) > 1
        for epoch, agreed, doubtful in facts["by_epoch"]
    ]
    return table(("after so many epochs", "images with one ghost class", "doubtful images"), rows) if rows else ""


def share(count: int, total: int) -> str:
    return f"{count:,} ({100 * count / total:.0f} %)"


def agreement(facts: Facts) -> str:
    counts = [f"{n}: {share(count, facts['images'])}" for n, count in facts["agreement"]]
    return f"Images by the number of different ghost classes (N_c): {'; '.join(counts)}."


def agreed_pairs(facts: Facts) -> str:
    names = facts["class_names"]
    counts = {
        (true, ghost): facts["pairs"][row][column]
        for row, ghost in enumerate(names)
        for column, true in enumerate(names)
    }
    return matrix(names, Counter(counts), None)


def doubtful_pairs(facts: Facts | None, claim: GhostClaim | None) -> str:
    """Table 4."""
    names = facts["class_names"] if facts else list("0123456789")
    found = Counter((row[1], row[2]) for row in facts["doubtful"]) if facts else None
    return matrix(names, found, Counter(claim.doubtful_pairs) if claim else None)


def matrix(names: list[str], here: Pairs | None, paper: Pairs | None) -> str:
    """Counts of (true class, ghost class) with totals; None where nothing is known."""
    rows = []
    for ghost in [*names, "Total"]:
        cells = [cell(total(here, true, ghost), total(paper, true, ghost)) for true in [*names, "Total"]]
        rows.append([f"**{ghost}**", *cells])
    return table(("", *names, "Total"), rows)


def total(counts: Pairs | None, true: str, ghost: str) -> int | None:
    if counts is None:
        return None
    return sum(n for (t, g), n in counts.items() if true in (t, "Total") and ghost in (g, "Total"))


def cell(here: int | None, paper: int | None) -> str:
    if not here and not paper:
        return "·"
    return f"{NONE if here is None else here}" + ("" if paper is None else f" ({paper})")


def listed(facts: Facts) -> str:
    """The doubtful images by name, by rising number of hits, as (index: true class, ghost class, hits)."""
    rows = [f"{i}: {label}, {ghost}, {hits}" for i, label, ghost, hits, _ in facts["doubtful"]]
    if not rows:
        return ""
    what = f"All {len(rows):,} of them, as index in the training set: label, ghost class, hits"
    return f"<details><summary>{what}</summary>\n\n{'; '.join(rows)}.\n\n</details>"


def pictured(facts: Facts) -> str:
    count = len(facts["doubtful"])
    if count <= MOST_DRAWN:
        return ""
    return f"The pictures are of {MOST_DRAWN} of the {count:,} doubtful images, those with the most hits."


def draw(page: Page, name: str, facts: Facts) -> str:
    """Agreement, and how the spread of the distances falls towards the hit zone."""
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


WHAT = "agreement, pairs, doubtful images"
MNIST = Result(
    "ghosts-mnist",
    f"Ghosts of MNIST: {WHAT}",
    "section 3.3, table 4, last figure (a)",
    ("mnist-ghosts", "mnist-ghosts-250"),
    mnist,
)
SVHN = Result("ghosts-svhn", f"Ghosts of SVHN: {WHAT}", "section 3.3, last figure (b)", ("svhn-ghosts",), svhn)
