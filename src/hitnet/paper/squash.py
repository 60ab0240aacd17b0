"""HitNet with CapsNet's squashing function for its sigmoid."""

from __future__ import annotations

from hitnet.paper.book import Page, Result
from hitnet.paper.markdown import error_table

ROWS = (("HitNet with squash", "mnist-squash"), ("HitNet", "mnist-hitnet-constant"))


def render(page: Page) -> str:
    return error_table(page, ROWS)


RESULT = Result("squash", "HitNet with squash on MNIST", "section 3.1", ("mnist-squash",), render)
