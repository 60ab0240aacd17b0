"""A toy book and an empty ledger for each test."""

import pytest

from hitnet.paper import Ledger
from toy_book import toy_book


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    return toy_book(tmp_path_factory.mktemp("toy-book"))


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.jsonl")
