"""The paper's results: experiments, the ledger of runs, and the tables and figures that are rendered from it.

`reproduce` makes the runs that are missing from a ledger, `write_page` writes the page of results, and `PAPER` is the
book of all results and experiments.
"""

from reproduction.book import Book, Result, standing
from reproduction.experiments import Experiment
from reproduction.ledger import Ledger
from reproduction.page import write_page
from reproduction.reproduction import Outcome, reproduce
from reproduction.sections import PAPER

__all__ = ["PAPER", "Book", "Experiment", "Ledger", "Outcome", "Result", "reproduce", "standing", "write_page"]
