"""A toy book and an empty ledger for each test, and what does the work."""

import pytest

from hitnet.paper import Ledger, reproduce, running
from toy_book import toy_book


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    return toy_book(tmp_path_factory.mktemp("toy-book"))


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.jsonl")


@pytest.fixture
def work(book, ledger, tmp_path):
    def call(*names, **options):
        said = []
        options = {"ledger": ledger, **options}
        outcome = reproduce(
            *names,
            book=book,
            docs=tmp_path / "docs",
            runs_dir=tmp_path / "runs",
            device="cpu",
            say=said.append,
            **options,
        )
        return outcome, said

    return call


@pytest.fixture
def trained(monkeypatch):
    """The groups that are trained side by side: experiment and seed of each network."""
    found, real = [], running.train_lots

    def train_lots(lots, *arguments, **options):
        found.append(sorted((task.folder.path.parent.name, task.config.seed) for lot in lots for task in lot.tasks))
        real(lots, *arguments, **options)

    monkeypatch.setattr(running, "train_lots", train_lots)
    return found
