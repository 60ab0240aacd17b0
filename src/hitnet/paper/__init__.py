"""The paper's results: experiments, the ledger of runs, and the tables and figures that are rendered from it.

`reproduce` makes the runs that are missing from a ledger, `write_page` writes the page of results, and `PAPER` is the
book of all results and experiments.
"""

from hitnet.paper.book import Book, Result, standing
from hitnet.paper.experiments import Experiment
from hitnet.paper.ledger import Ledger
from hitnet.paper.page import write_page
from hitnet.paper.reproduction import Outcome, reproduce
from hitnet.paper.sections import PAPER

__all__ = ["PAPER", "Book", "Experiment", "Ledger", "Outcome", "Result", "reproduce", "standing", "write_page"]
