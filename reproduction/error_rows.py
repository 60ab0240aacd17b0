"""Rows of errors beside the paper's, each with its verdict."""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.book import Page
from reproduction.cells import NONE, claim_cell, mean_cell, number, runs_cell, seconds_cell, table
from reproduction.measures import summarise
from reproduction.verdicts import Judge

ERROR_HEADER = ("", "paper, error %", "here, error % [95 %]", "std", "best", "runs here", "s per model", "missing")


def judged_mean(page: Page, name: str) -> str:
    """Our mean with its interval; then the verdict, if the paper gives a mean and several runs can be judged."""
    records, claim = page.records(name), page.book.claims.get(name)
    cell = mean_cell(summarise(records))
    if claim is None or claim.mean is None or len(records) < 2:
        return cell
    return f"{cell}, {Judge(page.book, page.ledger).error_verdict(name)}"


def error_row(page: Page, title: str, name: str, compared: str | None = None) -> list[str]:
    """A row under ERROR_HEADER for one experiment.

    Args:
        compared: The experiment whose error in the paper is shown beside it; None: its own.
    """
    claim, records = page.book.claims.get(compared or name), page.records(name)
    summary = summarise(records)
    figures = [NONE, NONE, NONE]
    if summary is not None:
        mean = judged_mean(page, name) if compared is None else mean_cell(summary)
        figures = [mean, number(summary.std, 3), number(summary.best)]
    return [title, claim_cell(claim), *figures, runs_cell(page, name), seconds_cell(records), page.missing(name)]


def error_table(page: Page, rows: Sequence[tuple[str, str] | tuple[str, str, str]]) -> str:
    """Errors of several experiments: (title, experiment), or (title, experiment, the paper's experiment beside it)."""
    return table(ERROR_HEADER, [error_row(page, *row) for row in rows])
