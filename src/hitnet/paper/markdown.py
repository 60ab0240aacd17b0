"""What the rendered results share: tables in Markdown, and cells that say how sure they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hitnet.paper.book import Page
from hitnet.paper.claims import Claim
from hitnet.paper.statistics import Summary, differs, summarise

NONE = "–"
MARK = "**≠**"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def number(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def beside(ours: float | None, claimed: float | None, digits: int) -> str:
    """Our figure, and the paper's in brackets."""
    return f"{number(ours, digits)} ({number(claimed, digits)})"


def mean_cell(summary: Summary, claim: Claim | None) -> str:
    """Our mean with its interval, marked where the paper's lies outside of it."""
    digits = 3 if summary.mean < 1 else 2
    if summary.interval is None:
        return f"{summary.mean:.{digits}f}, no interval from one run"
    low, high = summary.interval
    text = f"{summary.mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
    if claim and claim.mean is not None and differs(summary, claim.mean, half_unit=claim.half_unit):
        text += f" {MARK}"
    return text


def runs_cell(page: Page, name: str, summary: Summary | None) -> str:
    wanted = page.experiment(name).wanted
    return (
        f"{summary.runs if summary else 0} of {wanted}" if wanted else f"{summary.runs if summary else 0}, not planned"
    )


ERROR_HEADER = ("", "paper, error %", "here, error % [95 %]", "std", "best", "runs here", "missing")


def error_row(page: Page, title: str, name: str) -> list[str]:
    """A row of ERROR_HEADER for one experiment."""
    claim, records = page.book.claims.get(name), page.records(name)
    summary = summarise(records)
    said = number(claim.mean if claim else None, 1 if claim and claim.half_unit > 0.01 else 2)
    if claim and claim.best is not None:
        said += f" (best {claim.best:.2f})"
    if claim and claim.runs is None:
        said += " (runs not given)"
    runs = runs_cell(page, name, summary)
    if summary is None:
        return [title, said, NONE, NONE, NONE, runs, page.missing(name)]
    left = page.experiment(name).wanted - summary.runs
    missing = page.missing(name, left).removeprefix("no runs yet; ") if left > 0 else ""
    return [title, said, mean_cell(summary, claim), number(summary.std, 3), number(summary.best), runs, missing]


def error_table(page: Page, rows: Sequence[tuple[str, str]]) -> str:
    """Errors of several experiments: (title, experiment)."""
    return table(ERROR_HEADER, [error_row(page, title, name) for title, name in rows])


def tested_on(page: Page, name: str) -> str:
    """Which test images the runs were tested on: affNIST's own, or rebuilt ones."""
    found = sorted({record.tested_on for record in page.records(name)})
    return f"\n{page.experiment(name).title}: tested on {', '.join(found)}.\n" if found else ""
