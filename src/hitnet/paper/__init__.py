"""The paper's results: experiments, the ledger of runs, and every table and figure rendered from it.

`reproduce` does the runs that are missing from a ledger, `render` writes the page of results, `PAPER` is the book of
all of them.
"""

from hitnet.paper.book import Book, Result, standing
from hitnet.paper.experiments import Experiment
from hitnet.paper.ledger import Ledger
from hitnet.paper.registry import PAPER
from hitnet.paper.render import render
from hitnet.paper.reproduce import Outcome, reproduce

__all__ = ["PAPER", "Book", "Experiment", "Ledger", "Outcome", "Result", "render", "reproduce", "standing"]
