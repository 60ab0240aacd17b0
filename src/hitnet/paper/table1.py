"""Table 1: four networks on MNIST, with a constant and with a decreasing learning rate."""

from __future__ import annotations

from hitnet.paper.book import Page, Result
from hitnet.paper.markdown import NONE, beside, mean_cell, number, runs_cell, table
from hitnet.paper.statistics import summarise

NETWORKS = {"n1": "Baseline (N1)", "n2": "CapsNet-like (N2)", "n2b": "N2b", "hitnet": "HitNet"}


def constant(page: Page) -> str:
    return render(page, "constant")


def decay(page: Page) -> str:
    return render(page, "decay")


def render(page: Page, rate: str) -> str:
    """One half of the table; the last figure is the irregularity for a constant rate, the best run for the other."""
    last = "irregularity (paper)" if rate == "constant" else "best % (paper)"
    header = ("network", "paper, error %", "here, error % [95 %]", "std (paper)", last, "runs here", "missing")
    return table(header, [row(page, f"mnist-{network}-{rate}", title, rate) for network, title in NETWORKS.items()])


def row(page: Page, name: str, title: str, rate: str) -> list[str]:
    claim, summary = page.book.claims[name], summarise(page.records(name))
    runs = runs_cell(page, name, summary)
    said = claim.irregularity if rate == "constant" else claim.best
    digits = 3 if rate == "constant" else 2
    if summary is None:
        empty = [beside(None, claim.std, 3), beside(None, said, digits)]
        return [title, number(claim.mean), NONE, *empty, runs, page.missing(name)]
    ours = summary.irregularity if rate == "constant" else summary.best
    left = page.experiment(name).wanted - summary.runs
    missing = page.missing(name, left).removeprefix("no runs yet; ") if left > 0 else ""
    figures = [beside(summary.std, claim.std, 3), beside(ours, said, digits)]
    return [title, number(claim.mean), mean_cell(summary, claim), *figures, runs, missing]


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
