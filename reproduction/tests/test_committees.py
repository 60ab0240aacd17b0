"""Committees: kept predictions, their judgement against a loop, and what is refused; top-k errors of runs."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from toy_book import add, record

from hitnet import HitNetError, open_data, open_run
from hitnet.models.network import class_distances
from reproduction import Result, reproduce
from reproduction.book import Page
from reproduction.committees import (
    committee_errors,
    judge_committees,
    load_predictions,
    predictions_path,
    save_predictions,
    wrong_within,
)
from reproduction.ghost_sections import top_k_section
from reproduction.ledger import ANALYSIS, Entry
from reproduction.records import full_runs
from reproduction.sections import committee_row


@pytest.fixture
def five(book):
    """The toy experiment with one committee, of its seeds 1 to 5, and top-2 errors."""
    return replace(book.experiments["toy"], name="toy-five", wanted=6, committees=1, top_k=2)


@pytest.fixture
def five_book(book, five):
    top = Result("toy-top", "Top", "nowhere", (five.name,), top_k_section)
    return replace(book, experiments={**book.experiments, five.name: five}, results={**book.results, "toy-top": top})


@pytest.mark.parametrize("nearest", [True, False])
def test_wrong_within_against_a_loop(nearest):
    generator = torch.Generator().manual_seed(0)
    distances, labels = torch.rand(200, 6, generator=generator), torch.randint(6, (200,), generator=generator)
    expected = []
    for most in range(1, 5):
        wrong = 0
        for row, label in zip(distances.tolist(), labels.tolist(), strict=True):
            ranked = sorted(range(6), key=lambda k: row[k] if nearest else -row[k])
            wrong += label not in ranked[:most]
        expected.append(wrong)
    assert wrong_within(distances, labels, nearest=nearest, most=4) == expected


def test_a_committee_from_training_to_the_page(five_book, five, ledger, tmp_path):
    options = {"book": five_book, "ledger": ledger, "folder": tmp_path / "pages", "runs_dir": tmp_path / "runs"}
    said = []
    reproduce(five.name, device="cpu", report=said.append, **options)
    folders = {seed: tmp_path / "runs" / five.name / f"seed-{seed}" for seed in range(6)}
    assert [predictions_path(folders[seed]).is_file() for seed in range(6)] == [False] + [True] * 5
    entry = ledger.get(ANALYSIS, five.name, (1, 2, 3, 4, 5), "committee")
    runs = {seed: open_run(folders[seed]) for seed in range(6)}
    test = open_data(five.data).load("test")
    distances = [class_distances(runs[seed].model, test.pixels).double() for seed in range(1, 6)]
    wrong = 0
    for i, label in enumerate(test.labels.tolist()):
        sums = [sum(float(member[i, k]) for member in distances) for k in range(3)]
        wrong += sums.index(min(sums)) != label
    assert entry.facts["wrong"] == wrong
    assert any("seeds 1 to 5 together" in line for line in said)
    records = full_runs(ledger, five)
    for seed, run in runs.items():
        row = class_distances(run.model, test.pixels)
        assert records[seed].top_wrong == wrong_within(row, test.labels, nearest=True, most=2)
        assert records[seed].top_wrong[0] == records[seed].final_wrong
    page = Page(five_book, ledger, tmp_path, five_book.results["toy-top"])
    cells = committee_row(page, "Five", five.name)
    assert float(cells[4].removesuffix(", no interval from one committee")) == pytest.approx(
        100 * wrong / len(test), abs=0.006
    )
    assert cells[5] == "1 of 1"
    assert "| 0 |" in top_k_section(page)
    before = len(ledger.entries)
    reproduce(five.name, device="cpu", **options)  # nothing is left to do
    assert len(ledger.entries) == before


def test_what_ghosts_change_in_top_k(five, five_book, ledger, tmp_path):
    two = replace(five, name="toy-ghosts", options={**five.options, "ghosts": 1})
    book = replace(five_book, experiments={**five_book.experiments, two.name: two})
    for seed, (plain, ghosts) in enumerate([((2, 1), (4, 1)), ((3, 1), (5, 1))]):
        add(ledger, five, seed, record(five, final_wrong=plain[0], top_wrong=list(plain)))
        add(ledger, two, seed, record(two, final_wrong=ghosts[0], top_wrong=list(ghosts)))
    top = Result("toy-top", "Top", "nowhere", (five.name, two.name), top_k_section)
    rows = [line for line in top_k_section(Page(book, ledger, tmp_path, top)).splitlines() if line.startswith("| 1 |")]
    assert len(rows) == 2
    tested = full_runs(ledger, five)[0].final_tested
    # Welch's t of two runs each with the same spread: 2 degrees of freedom.
    change, margin = 100 * 2 / tested, 4.302653 * 100 / tested * math.sqrt(0.5)
    assert (
        rows[1] == f"| 1 | {change:+.3f} [{change - margin:+.3f}, {change + margin:+.3f}] | +0.000 [+0.000, +0.000] |"
    )


def kept(ledger, five, folder, weights="w"):
    """Runs in the ledger that were never trained, with predictions; gives their files by seed."""
    files = {}
    for seed in range(6):
        add(ledger, five, seed, record(five, top_wrong=[1, 1]))
        files[seed] = folder / f"{seed}.npz"
        save_predictions(files[seed], np.random.default_rng(seed).random((12, 3)), weights=weights)
    return files


def images(count):
    class Test:
        labels = torch.arange(count) % 3

        def __len__(self):
            return count

    return Test()


def test_missing_damaged_and_foreign_predictions(five, ledger, tmp_path):
    files, said = kept(ledger, five, tmp_path), []
    files[3].rename(tmp_path / "elsewhere")
    judge_committees(five, files, images(12), ledger, said.append)
    assert "the predictions of seeds 3 are missing. Copy 1.npz of each from the machine" in said[0]
    files[3].write_bytes(b"PK")
    with pytest.raises(HitNetError, match=r"3\.npz cannot be read"):
        judge_committees(five, files, images(12), ledger, said.append)
    save_predictions(files[3], np.zeros((12, 3)), weights="other")
    with pytest.raises(HitNetError, match="ledger's run with seed 3"):
        judge_committees(five, files, images(12), ledger, said.append)
    save_predictions(files[3], np.zeros((11, 3)), weights="w")
    with pytest.raises(HitNetError, match="other images"):
        judge_committees(five, files, images(12), ledger, said.append)
    assert not ledger.select(ANALYSIS)


def test_predictions_come_back_as_they_were(tmp_path):
    distances = np.random.default_rng(0).random((5, 3)).astype(np.float32)
    save_predictions(tmp_path / "p.npz", distances, weights="abc")
    loaded, weights = load_predictions(tmp_path / "p.npz")
    assert weights == "abc"
    assert np.array_equal(loaded.numpy(), distances)


def test_a_committee_of_other_runs_is_refused(five, ledger):
    for seed in range(6):
        add(ledger, five, seed, record(five, top_wrong=[1, 1]))
    seeds = (1, 2, 3, 4, 5)
    facts = {"wrong": 3, "tested": 12, "weights": ["w"] * 5, "date": "2026-01-01"}
    assert committee_errors(ledger, five) == []
    ledger.add(Entry(ANALYSIS, five.name, seeds, {**facts, "weights": ["w"] * 4 + ["x"]}, "committee"))
    with pytest.raises(HitNetError, match="seeds 1, 2, 3, 4, 5"):
        committee_errors(ledger, five)


def test_the_error_of_a_committee(five, ledger):
    for seed in range(6):
        add(ledger, five, seed, record(five, top_wrong=[1, 1]))
    facts = {"wrong": 3, "tested": 12, "weights": ["w"] * 5, "date": "2026-01-01"}
    ledger.add(Entry(ANALYSIS, five.name, (1, 2, 3, 4, 5), facts, "committee"))
    assert committee_errors(ledger, five) == [25.0]
