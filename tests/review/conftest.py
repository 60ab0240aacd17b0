"""Audits to review; the samples are those of the audit's tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))

from review_samples import client_of, make_folder, open_folder


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path)


@pytest.fixture
def review(folder):
    return open_folder(folder)


@pytest.fixture
def client(review):
    return client_of(review)
