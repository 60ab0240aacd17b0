"""affNIST once more, with the shifts of the other experiments."""

from __future__ import annotations

from hitnet.paper.book import Page, Result
from hitnet.paper.markdown import error_table, tested_on

ROWS = (
    ("affNIST, images shifted in training", "affnist-hitnet-shifts"),
    ("affNIST, ours, ResNet-9, images shifted", "affnist-ours"),
)


def render(page: Page) -> str:
    return error_table(page, ROWS) + "".join(tested_on(page, name) for _, name in ROWS)


RESULT = Result("affnist-shifts", "affNIST with shifts", "comments on table 2", ("affnist-hitnet-shifts",), render)
