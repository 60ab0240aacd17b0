"""Section 3.3 on paper: agreement of the networks, pairs of classes, the doubtful images' table and figure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hitnet import plots
from hitnet.capsules import HIT_RADIUS
from hitnet.paper.book import Page, Result
from hitnet.paper.claims import MNIST_GHOSTS, GhostClaim
from hitnet.paper.ghosts import BIN
from hitnet.paper.markdown import NONE, runs_cell, table
from hitnet.paper.pictures import FOLDER
from hitnet.paper.statistics import summarise

Pairs = Counter[tuple[str, str]]  # (true class, ghost class)


def mnist(page: Page) -> str:
    return render(page, "mnist-ghosts", MNIST_GHOSTS)


def svhn(page: Page) -> str:
    return render(page, "svhn-ghosts", None)


def render(page: Page, name: str, claim: GhostClaim | None) -> str:
    entry = page.analysis(name)
    one, summary = page.experiment(name), summarise(page.records(name))
    said = [f"{one.note}." if one.note else "", f"Runs here: {runs_cell(page, name, summary)}."]
    if entry is None:
        why = (
            "Not analysed yet: the runs are there, their ghosts have to be brought together"
            if summary
            else "No analysis"
        )
        said.append(f"{why}: {page.missing(name) or f'`hitnet reproduce {name}`'}.")
    facts = entry.facts if entry else None
    parts = [" ".join(filter(None, said)), figures(facts, claim)]
    if facts:
        parts += [agreement(facts), draw(page, name, facts)]
        parts += ["Images with one ghost class: ghost class down, true class across.", agreed_pairs(facts)]
    if facts or claim:
        brackets = "; paper's counts in brackets" if claim else ""
        parts += [f"Doubtful images: ghost class down, true class across{brackets}.", doubtful_pairs(facts, claim)]
    if facts:
        parts += [f"![The doubtful images]({file})" for file in facts["files"]]
        parts.append(listed(facts))
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def figures(facts: dict[str, Any] | None, claim: GhostClaim | None) -> str:
    """The numbers of the text, the paper's beside ours."""
    rows = [["networks", *both(claim and claim.models, facts and facts["models"])]]
    counts = dict(map(tuple, facts["agreement"])) if facts else {}
    ours = share(counts.get(1, 0), facts["images"]) if facts else None
    rows.append(["images with one ghost class (N_c = 1)", *both(claim and share(claim.agreed, claim.images), ours)])
    for pair, count in (claim.agreed_pairs if claim else {}).items():
        found = facts["pairs"][index(facts, pair[1])][index(facts, pair[0])] if facts else None
        rows.append([f"of these, (true {pair[0]}, ghost {pair[1]})", *both(count, found)])
    hits = [row[3] for row in facts["doubtful"]] if facts else []
    rows.append(["doubtful images", *both(claim and claim.doubtful, len(hits) if facts else None)])
    rows.append(["fewest hits among them", *both(claim and claim.fewest_hits, min(hits) if hits else None)])
    if claim:
        most, count = claim.many_hits
        rows.append([f"with at least {most} hits", *both(count, sum(h >= most for h in hits) if facts else None)])
    return table(("", "paper", "here"), rows)


def both(paper: Any, here: Any) -> list[str]:
    return [NONE if value is None else f"{value:,}" if isinstance(value, int) else value for value in (paper, here)]


def share(count: int, total: int) -> str:
    return f"{count:,} ({100 * count / total:.0f} %)"


def index(facts: dict[str, Any], name: str) -> int:
    return list(facts["class_names"]).index(name)


def agreement(facts: dict[str, Any]) -> str:
    counts = [f"{n}: {share(count, facts['images'])}" for n, count in facts["agreement"]]
    return f"Images by the number of different ghost classes (N_c): {'; '.join(counts)}."


def agreed_pairs(facts: dict[str, Any]) -> str:
    names = facts["class_names"]
    counts = {
        (true, ghost): facts["pairs"][row][column]
        for row, ghost in enumerate(names)
        for column, true in enumerate(names)
    }
    return matrix(names, Counter(counts), None)


def doubtful_pairs(facts: dict[str, Any] | None, claim: GhostClaim | None) -> str:
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


def listed(facts: dict[str, Any]) -> str:
    """The doubtful images by name, by rising number of hits, as (index: true class, ghost class, hits)."""
    rows = [f"{i}: {label}, {ghost}, {hits}" for i, label, ghost, hits, _ in facts["doubtful"]]
    return f"All of them (index in the training set: label, ghost class, hits): {'; '.join(rows)}." if rows else ""


def draw(page: Page, name: str, facts: dict[str, Any]) -> str:
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
    "ghosts-mnist", f"Ghosts of MNIST: {WHAT}", "section 3.3, table 4, last figure (a)", ("mnist-ghosts",), mnist
)  # fmt: skip
SVHN = Result("ghosts-svhn", f"Ghosts of SVHN: {WHAT}", "section 3.3, last figure (b)", ("svhn-ghosts",), svhn)
