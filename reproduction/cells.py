"""Cells and rows of the tables on the pages, in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from reproduction.book import Page
from reproduction.claims import Claim
from reproduction.cost import H200
from reproduction.measures import Difference, Summary
from reproduction.records import RunRecord

NONE = "–"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def number(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def beside_claim(ours: float | None, claimed: float | None, digits: int) -> str:
    """Our figure, and the paper's in brackets."""
    return f"{number(ours, digits)} ({number(claimed, digits)})"


def mean_cell(summary: Summary | None, *, of: str = "run") -> str:
    """Our mean with its interval; `of` is what the mean is of."""
    if summary is None:
        return NONE
    digits = digits_of(summary.mean)
    if summary.interval is None:
        return f"{summary.mean:.{digits}f}, no interval from one {of}"
    low, high = summary.interval
    return f"{summary.mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def digits_of(error: float) -> int:
    """How many digits of an error in % are worth showing."""
    return 3 if error < 1 else 2


def change_cell(between: Difference | None) -> str:
    """The difference of two means with its interval."""
    if between is None:
        return NONE
    low, high = between.interval
    return f"{between.mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def runs_cell(page: Page, name: str) -> str:
    """Runs made and wanted, and how many diverged."""
    diverged = f", {len(page.diverged(name))} diverged" if page.diverged(name) else ""
    return runs_text(len(page.records(name)), page.experiment(name).wanted) + diverged


def runs_text(made: int, wanted: int) -> str:
    """Runs made and wanted: "3 of 5", or "4, 3 planned" where more were made than wanted."""
    return f"{made} of {wanted}" if made <= wanted and wanted else f"{made}, {wanted or 'not'} planned"


def seconds_cell(records: Sequence[RunRecord]) -> str:
    """The mean time of a run and how many were trained side by side; devices other than an H200 are named."""
    by_device: dict[str, list[RunRecord]] = {}
    for record in records:
        by_device.setdefault(record.device, []).append(record)
    cells = []
    for device, runs in sorted(by_device.items()):
        mean = statistics.mean(run.seconds for run in runs)
        counts = sorted({run.beside for run in runs})
        beside = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        cell = f"{mean:.{0 if mean >= 10 else 1}f} ({beside})"
        cells.append(cell + ("" if device == H200 else f" on {device}"))
    return "; ".join(cells) or NONE


def claim_cell(claim: Claim | None) -> str:
    """The paper's mean, with as many digits as it gives, its best run, and whether the number of runs is known."""
    if claim is None:
        return NONE
    mean = "about " * claim.about + number(claim.mean, 1 if claim.half_unit > 0.01 else 2)
    best = "" if claim.best is None else f" (best {claim.best:.2f})"
    return mean + best + (" (runs not given)" if claim.runs is None else "")


def tested_on_line(page: Page, name: str) -> str:
    """Which test images the runs were tested on: affNIST's own, or rebuilt ones; empty without runs."""
    names = sorted({record.tested_on for record in page.records(name)})
    return f"\n{page.experiment(name).title}: tested on {', '.join(names)}.\n" if names else ""
