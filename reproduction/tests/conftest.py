"""A toy book and an empty ledger for each test, and what does the work."""

import pytest
from toy_book import toy_book

from reproduction import PAPER, Ledger, reproduce, runner, write_page
from reproduction import page as results_page
from reproduction.cli import app


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    return toy_book(tmp_path_factory.mktemp("toy-book"))


@pytest.fixture
def command(command):
    """Call `python -m reproduction` as a shell does, into a pipe."""
    return lambda *arguments: command(*arguments, program=app)


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
            folder=tmp_path / "pages",
            runs_dir=tmp_path / "runs",
            device="cpu",
            report=said.append,
            **options,
        )
        return outcome, said

    return call


@pytest.fixture
def trained(monkeypatch):
    """The groups that are trained side by side: experiment and seed of each network."""
    groups, real = [], runner.train_jobs

    def train_jobs(jobs, *arguments, **options):
        left = [job for job in jobs if not job.finished]
        groups.append(sorted((job.folder.path.parent.name, job.config.seed) for job in left))
        real(jobs, *arguments, **options)

    monkeypatch.setattr(runner, "train_jobs", train_jobs)
    return groups


@pytest.fixture
def page(book, ledger, tmp_path):
    """Writes the page of a book (the toy book unless told otherwise) and gives its text."""

    def call(chosen=book):
        return write_page(chosen, ledger, tmp_path / "pages").read_text(encoding="utf-8")

    return call


@pytest.fixture
def section(ledger, tmp_path):
    """Gives one section of the paper's page."""

    def call(name):
        text = results_page.section(results_page.Page(PAPER, ledger, tmp_path / "pages", PAPER.results[name]))
        return text.removeprefix(f"## {name}\n")

    return call
