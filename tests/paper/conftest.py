"""A toy book and an empty ledger for each test, and what does the work."""

import pytest

from hitnet.paper import Ledger, reproduce
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
            *names, book=book, docs=tmp_path / "docs", runs_dir=tmp_path / "runs", device="cpu", say=said.append,
            **options,
        )  # fmt: skip
        return outcome, said

    return call
