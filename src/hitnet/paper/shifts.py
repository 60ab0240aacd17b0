"""affNIST once more, with the shifts of the other experiments."""

from __future__ import annotations

from hitnet.paper.book import Page, Result
from hitnet.paper.markdown import error_table, tested_on

ROWS = (("affNIST, images shifted in training", "affnist-hitnet-shifts"),)


def render(page: Page) -> str:
    return error_table(page, ROWS) + tested_on(page, "affnist-hitnet-shifts")


RESULT = Result(
    "affnist-shifts", "affNIST with shifts", "comments on table 2", tuple(name for _, name in ROWS), render
)  # fmt: skip
