"""Verdicts: the rule itself, and the findings of the paper from a ledger."""

import math

import pytest
from scipy import stats
from toy_book import add, record

from reproduction import PAPER, write_summary
from reproduction.ledger import ANALYSIS, Entry
from reproduction.measures import Difference
from reproduction.verdicts import AGREES, DIFFERS, MARGINS, UNDECIDED, findings, verdict


@pytest.mark.parametrize(
    ("mean", "half", "said"),
    [
        (0.0, 0.03, AGREES),
        (0.02, 0.01, AGREES),  # the interval excludes 0, but lies within the margin
        (0.02, 0.03, UNDECIDED),
        (0.05, 0.04, DIFFERS),
        (-0.05, 0.04, DIFFERS),
        (0.0, 0.5, UNDECIDED),
        (-0.04, 0.0, AGREES),
    ],
)
def test_the_rule(mean, half, said):
    assert verdict(Difference(mean, half), 0.04) == said


def test_without_an_interval_nothing_is_decided():
    assert verdict(None, 0.04) == UNDECIDED


def test_the_margins():
    assert MARGINS == {"mnist": 0.04, "fashion-mnist": 0.2, "svhn": 0.2, "cifar10": 1.0, "affnist": 1.0}


def fill(ledger, name, wrong):
    experiment = PAPER.experiments[name]
    for seed, counts in enumerate(wrong):
        errors = counts if isinstance(counts, list) else [counts] * experiment.epochs
        add(ledger, experiment, seed, record(experiment, errors))


def found(ledger, start):
    (row,) = [row for row in findings(PAPER, ledger) if row.result.startswith(start)]
    return row


def test_an_empty_ledger_decides_nothing(ledger):
    rows = findings(PAPER, ledger)
    assert {row.verdict for row in rows} == {UNDECIDED}
    assert len({row.result for row in rows}) == len(rows) >= 16


def test_an_error_with_both_spreads(ledger):
    fill(ledger, "mnist-hitnet-shared", [37, 38, 39, 38])
    row = found(ledger, "HitNet on MNIST, constant")
    assert (row.paper, row.runs, row.verdict) == ("0.38 %", "4", AGREES)
    std = 0.01 * math.sqrt(2 / 3)
    half = stats.t.ppf(0.975, 3) * std / 2
    assert row.ours == f"0.380 [{0.38 - half:.3f}, {0.38 + half:.3f}] %"
    fill(ledger, "fashion-shared", [790, 792, 794])
    assert found(ledger, "HitNet on Fashion-MNIST").verdict == DIFFERS


def test_networks_are_compared_by_the_last_epoch_and_by_the_last_ten(ledger):
    fill(ledger, "mnist-hitnet-shared", [37, 38, 39, 38])
    fill(ledger, "mnist-n1-constant", [[52] * 249 + [51 + i] for i in range(4)])
    row = found(ledger, "HitNet better than the baseline N1")
    assert (row.paper, row.runs) == ("0.14", "4, 4")
    last, mean = row.ours.split("; last 10 epochs ")
    assert last.startswith("0.145 [")
    assert mean.startswith("0.140 [")
    # The last epoch alone says that it agrees, the last ten that it does not.
    ledger.path.unlink()
    ledger.read()
    fill(ledger, "mnist-hitnet-shared", [[20] * 249 + [38], [20] * 249 + [38]])
    fill(ledger, "mnist-n1-constant", [52, 52])
    assert found(ledger, "HitNet better than the baseline N1").verdict == UNDECIDED


def test_a_cell_without_runs(ledger):
    row = found(ledger, "HitNet with squash")
    assert (row.paper, row.ours, row.runs, row.verdict) == ("about 0.40 %", "not run yet", "0", UNDECIDED)


def test_a_run_that_learned_nothing_counts_and_is_named(ledger):
    fill(ledger, "mnist-hitnet-shared", [37, 38, 39])
    fill(ledger, "mnist-n2-shared", [60, 8865, 70])
    row = found(ledger, "HitNet better than the CapsNet-like N2")
    assert row.ours.startswith("29.60 [")
    assert row.ours.endswith("; 1 of 3 runs of mnist-n2-shared learned nothing (the other 2: mean error 0.65 %)")
    assert row.verdict == UNDECIDED


def test_guos_capsnet_is_beaten_or_not(ledger):
    fill(ledger, "cifar10-shared", [2800, 2801, 2802])
    row = found(ledger, "Better than reproduced CapsNets")
    assert row.paper == "0.51"
    assert row.ours.startswith("-0.800 [")
    assert row.verdict == DIFFERS


def ghost_facts(agreed, doubtful):
    rows = [[i, "3", "5", 12, 0.05] for i in range(doubtful)]
    facts = {"images": 60_000, "agreement": [[1, agreed]], "doubtful": rows, "epochs": 60, "files": []}
    return facts | {"weights": ["w"] * 20}


def test_ghosts_are_decided_by_several_groups(ledger):
    ledger.add(Entry(ANALYSIS, "mnist-ghosts-shared", tuple(range(20)), ghost_facts(16_800, 70)))
    row = found(ledger, "Images with one ghost class")
    assert (row.paper, row.ours, row.runs, row.verdict) == ("28 %", "28 % after 60 epochs", "1 group of 20", UNDECIDED)
    ledger.add(Entry(ANALYSIS, "mnist-ghosts-shared-second", tuple(range(20, 40)), ghost_facts(16_860, 71)))
    row = found(ledger, "Images with one ghost class")
    assert (row.ours, row.runs, row.verdict) == ("28 %, 28 % after 60 epochs", "2 groups of 20", AGREES)
    assert found(ledger, "Doubtful images of MNIST").verdict == AGREES


def test_the_summary_counts_the_verdicts(ledger, tmp_path):
    fill(ledger, "mnist-hitnet-shared", [37, 38, 39, 38])
    fill(ledger, "fashion-shared", [790, 792, 794])
    text = write_summary(PAPER, ledger, tmp_path).read_text(encoding="utf-8")
    rows = findings(PAPER, ledger)
    assert f"Of {len(rows)} results" in text
    assert f"**1 agree, 1 differ, {len(rows) - 2} are undecided.**" in text
    assert "| HitNet on Fashion-MNIST | 7.70 % | 7.92 [7.87, 7.97] % | 3 | differs |" in text
    assert "python -m reproduction table1-constant" in text
    assert len(text.splitlines()) < 90
