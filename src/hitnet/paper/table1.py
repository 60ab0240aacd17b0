"""Table 1: four networks on MNIST, with a constant and with a decreasing learning rate."""

from __future__ import annotations

from hitnet.paper.book import Page, Result
from hitnet.paper.claims import Claim
from hitnet.paper.experiments import TITLES
from hitnet.paper.markdown import NONE, beside, mean_cell, number, runs_cell, seconds_cell, table
from hitnet.paper.statistics import summarise

NETWORKS = {name: TITLES[name] for name in ("n1", "n2", "n2b", "hitnet")}
OURS = "mnist-ours"  # the same network, by a recipe of our own, whose rate decreases too


def constant(page: Page) -> str:
    return render(page, "constant")


def decay(page: Page) -> str:
    return render(page, "decay")


def render(page: Page, rate: str) -> str:
    """One half of the table; the last figure is the irregularity for a constant rate, the best run for the other."""
    last = "irregularity (paper)" if rate == "constant" else "best % (paper)"
    figures = ("paper, error %", "here, error % [95 %]", "std (paper)", last)
    rows = [row(page, f"mnist-{network}-{rate}", title, rate) for network, title in NETWORKS.items()]
    if rate == "decay":
        rows.append(row(page, OURS, "HitNet, ours", rate))
    return table(("network", *figures, "runs here", "s a model", "missing"), rows)


def row(page: Page, name: str, title: str, rate: str) -> list[str]:
    records = page.records(name)
    claim, summary = page.book.claims.get(name, Claim()), summarise(records)
    runs = runs_cell(page, name, summary)
    said = claim.irregularity if rate == "constant" else claim.best
    digits = 3 if rate == "constant" else 2
    if summary is None:
        empty = [beside(None, claim.std, 3), beside(None, said, digits)]
        return [title, number(claim.mean), NONE, *empty, runs, NONE, page.missing(name)]
    ours = summary.irregularity if rate == "constant" else summary.best
    figures = [beside(summary.std, claim.std, 3), beside(ours, said, digits)]
    mean = mean_cell(summary, claim)
    return [title, number(claim.mean), mean, *figures, runs, seconds_cell(records), page.missing(name)]


CONSTANT = Result(
    "table1-constant",
    "Four networks on MNIST, constant learning rate",
    "table 1, left",
    tuple(f"mnist-{network}-constant" for network in NETWORKS),
    constant,
)
DECAY = Result(
    "table1-decay",
    "Four networks on MNIST, decreasing learning rate",
    "table 1, right",
    tuple(f"mnist-{network}-decay" for network in NETWORKS),
    decay,
)
