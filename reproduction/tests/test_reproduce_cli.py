"""`python -m reproduction`: the list, the work, the page, and mistakes."""

import re
import shutil

import pytest
from toy_book import add, add_short, toy_book

import reproduction as paper
from reproduction import Ledger
from reproduction.missing_runs import OWN_LEDGER
from reproduction.provenance import LABORATORY
from reproduction.records import full_runs


@pytest.fixture
def book(tmp_path, monkeypatch):
    book = toy_book(tmp_path)
    monkeypatch.setattr(paper, "PAPER", book)
    monkeypatch.chdir(tmp_path)
    return book


@pytest.fixture
def reproduce(book, command):
    return lambda *words: command(*words, "--ledger", "ledger.jsonl", "--device", "cpu", "--pages", "pages")


def line(text, name):
    (match,) = [row for row in text.splitlines() if row.split()[:1] == [name]]
    return " ".join(match.split())


def test_the_list_of_the_papers_results(command):
    ended = command("--list", "--device", "cpu", "--ledger", "none.jsonl")
    assert ended.code == 0
    for name in paper.PAPER.results:
        assert line(ended.out, name)
    assert " left 0 of 50 " in line(ended.out, "table1-constant")
    assert "days" in line(ended.out, "table1-constant")


def test_the_list_says_how_far_it_has_come(reproduce, book):
    ledger = Ledger("ledger.jsonl")
    for seed in range(2):
        add(ledger, book.experiments["toy"], seed)
    add_short(ledger, book.experiments["toy"], 2, "1 epochs, 48 images")
    out = reproduce("--list").out
    assert "2 of 3" in line(out, "toy-table")
    assert "1 short, not counted 2 of 3" in line(out, "toy")
    add(ledger, book.experiments["toy"], 2)
    assert line(reproduce("--list").out, "toy-table").endswith("3 of 3 done")


def test_the_list_counts_runs_that_were_not_planned(command, tmp_path):
    experiment, ledger = paper.PAPER.experiments["mnist-hitnet-each-60"], tmp_path / "ledger.jsonl"
    for seed in range(2):
        add(Ledger(ledger), experiment, seed)
    ended = command("--list", "--device", "cpu", "--ledger", ledger)
    assert " 2, 1 planned " in line(ended.out, experiment.name)


def test_runs_and_page(reproduce, book, tmp_path):
    ended = reproduce("toy-table", "--runs", 2)
    assert ended.code == 0, ended.err
    assert "toy, seed 1: error" in ended.out
    assert "2 done, 0 left; ledger: ledger.jsonl" in ended.out
    assert sorted(full_runs(Ledger("ledger.jsonl"), book.experiments["toy"])) == [0, 1]
    assert (tmp_path / "runs/paper/toy/seed-1/weights.safetensors").is_file()
    ended = reproduce("--render")
    assert ended.code == 0, ended.err
    assert "written: pages/results.md" in ended.out
    assert "| 2 of 3 |" in (tmp_path / "pages/results.md").read_text()
    assert "Of 0 results" in (tmp_path / "pages/README.md").read_text()


def test_the_budget_leaves_work(reproduce):
    ended = reproduce("toy", "--budget", "0.000001")
    assert ended.code == 0
    assert "toy, seed 0: not started: it would end in 0 s, but the budget ends in 0 s" in ended.out
    assert "0 done, 3 left" in ended.out
    assert "Nothing was started; the reasons are above." in ended.out


def test_a_short_run(reproduce, book):
    ended = reproduce("toy", "--epochs", 1, "--runs", 1, "--runs-dir", "elsewhere")
    assert "toy, seed 0 (short: 1 epochs, 48 images): error" in ended.out
    assert full_runs(Ledger("ledger.jsonl"), book.experiments["toy"]) == {}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "Give one of: a NAME"),
        (("toy", "--list"), "Give one of: a NAME"),
        (("--list", "--render"), "Give one of: a NAME"),
        (("--list", "--runs", "2"), "--runs needs the NAME"),
        (("--render", "--epochs", "2"), "--epochs needs the NAME"),
        (("--render",), "There is no ledger ledger.jsonl"),
        (("toy-tabel",), "Did you mean 'toy-table'"),
        (("toy", "--epochs", "9"), "--epochs can only shorten it"),
        (("toy", "--budget", "-1"), "--budget must be above 0"),
        (("toy", "--runs", "0"), "--runs must be above 0"),
        (("toy", "--side-by-side", "0"), "--side-by-side must be above 0"),
    ],
)
def test_mistakes(reproduce, tmp_path, words, says):
    ended = reproduce(*words)
    assert ended.code == 1
    assert says in ended.err
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "ledger.jsonl").exists()


def test_a_damaged_ledger_is_named_with_its_line(reproduce, tmp_path):
    (tmp_path / "ledger.jsonl").write_text("\n\nwhat?\n")
    for words in (("--list",), ("--render",), ("toy",)):
        ended = reproduce(*words)
        assert ended.code == 1
        assert "ledger.jsonl, line 3 is damaged" in ended.err


def test_a_ledger_of_ones_own_has_documents_of_its_own(book, command, tmp_path):
    add(Ledger("mine.jsonl"), book.experiments["toy"], 0)
    ended = command("--render", "--ledger", "mine.jsonl")
    assert ended.code == 0, ended.err
    assert "of runs (`mine.jsonl`)" in (tmp_path / "mine-pages/results.md").read_text(encoding="utf-8")


def test_the_packages_ledger_is_sound():
    ledger = Ledger(OWN_LEDGER)
    assert OWN_LEDGER.is_file()
    for experiment in paper.PAPER.experiments.values():
        full_runs(ledger, experiment)


@pytest.mark.slow
def test_the_pages_in_the_repository_are_those_of_the_ledger(command, tmp_path):
    for part in ("discussion", "images"):
        shutil.copytree(LABORATORY / part, tmp_path / part)
    ended = command("--render", "--pages", tmp_path)
    assert ended.code == 0, ended.err
    written = ["README.md", "results.md", *(f"lists/{file.name}" for file in (tmp_path / "lists").iterdir())]
    assert len(written) == 2 + len(list((LABORATORY / "lists").iterdir()))
    for name in written:
        assert (LABORATORY / name).read_text(encoding="utf-8") == (tmp_path / name).read_text(encoding="utf-8"), name


def test_the_readme_counts_the_verdicts():
    page = (LABORATORY / "README.md").read_text(encoding="utf-8")  # which the test above compares with the ledger
    counted = r"Of (\d+) results .*?\*\*(\d+ agree, \d+ differ, \d+ are undecided)"
    results, verdicts = re.search(counted, page).groups()
    directed = r"(\d+) of (\d+) such statements hold .*?(\d+ (?:is|are) open) .*? (\d+ (?:is|are) reversed)"
    hold, statements, still_open, reversed_here = re.search(directed, page).groups()
    readme = " ".join((LABORATORY.parent / "README.md").read_text(encoding="utf-8").split())
    assert f"Of {results} results, {verdicts}" in readme
    assert f"Of {statements} statements that A is better than B, {hold} hold here beyond chance" in readme
    assert f"{still_open} and {reversed_here}" in readme


def test_every_discussion_belongs_to_a_result():
    written = {file.stem for file in (LABORATORY / "discussion").glob("*.md")}
    assert written - {"README"} <= set(paper.PAPER.results)
