"""The laboratory: the paper's experiments, the ledger of their runs, and the pages that are written from it.

`reproduce` makes the runs that are missing from a ledger, `write_summary` and `write_page` write README.md and
results.md, and `PAPER` is the book of all results and experiments. It uses only hitnet's public names.
"""

from reproduction.book import Book, Result, completion
from reproduction.contents import PAPER
from reproduction.experiments import Experiment
from reproduction.ledger import Ledger
from reproduction.missing_runs import Outcome, reproduce
from reproduction.page import write_page
from reproduction.summary import write_summary

__all__ = [
    "PAPER",
    "Book",
    "Experiment",
    "Ledger",
    "Outcome",
    "Result",
    "completion",
    "reproduce",
    "write_page",
    "write_summary",
]
