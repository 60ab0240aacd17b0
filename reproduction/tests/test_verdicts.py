"""Verdicts: the rule itself, and the findings of the paper from a ledger."""

import json
import math

import pytest
from scipy import stats
from toy_book import add, record, table_row

from reproduction import PAPER, provenance, summary, write_page, write_summary
from reproduction.book import Finding
from reproduction.findings import findings, speed_ratios
from reproduction.ledger import ANALYSIS, Entry
from reproduction.measures import Difference
from reproduction.verdicts import AGREES, DIFFERS, HOLDS, MARGINS, OPEN, REVERSED, UNDECIDED, verdict


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


def all_findings(ledger):
    return [finding for row in findings(PAPER, ledger) for finding in row]


def found(ledger, start):
    (finding,) = [finding for finding in all_findings(ledger) if finding.result.startswith(start)]
    return finding


def test_an_empty_ledger_decides_nothing(ledger):
    rows = all_findings(ledger)
    assert {row.verdict for row in rows} == {UNDECIDED}
    assert {row.direction for row in rows} == {"", OPEN}
    assert len({row.result for row in rows}) == len(rows) >= 16
    assert "without" not in "".join(row.ours for row in rows)


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
    row = found(ledger, "HitNet better than N1, constant")
    assert (row.paper, row.runs, row.direction) == ("0.14", "N1 4, HitNet 4", HOLDS)
    assert row.ours.startswith("0.145 [")
    assert row.last_ten.startswith("0.140 [")
    # The last epoch alone says that it agrees, the last ten that it does not.
    ledger.path.unlink()
    ledger.read()
    fill(ledger, "mnist-hitnet-shared", [[20] * 249 + [38], [20] * 249 + [38]])
    fill(ledger, "mnist-n1-constant", [52, 52])
    assert found(ledger, "HitNet better than N1, constant").verdict == UNDECIDED


def test_a_cell_without_runs(ledger):
    row = found(ledger, "HitNet with squash")
    assert (row.paper, row.ours, row.runs, row.verdict) == ("about 0.40 %", "not run yet", "0", UNDECIDED)


def test_a_run_that_learned_nothing_counts_and_is_named(ledger):
    fill(ledger, "mnist-hitnet-shared", [37, 38, 39])
    fill(ledger, "mnist-n2-shared", [60, 8865, 70])
    row = found(ledger, "HitNet better than N2 ")
    welch = stats.ttest_ind([0.6, 0.7], [0.37, 0.38, 0.39], equal_var=False).confidence_interval()
    figure = f"0.270 [{welch.low:.3f}, {welch.high:.3f}]"
    assert row.ours.startswith("29.60 [")  # by all runs, as the verdict
    assert row.ours.endswith(f" ({figure} without 1 run that learned nothing)")
    assert (row.verdict, row.direction) == (UNDECIDED, OPEN)


def test_guos_capsnet_is_beaten_or_not(ledger):
    fill(ledger, "cifar10-shared", [2800, 2801, 2802])
    row = found(ledger, "HitNet better than Guo's CapsNet")
    assert row.paper == "0.51"
    assert row.ours.startswith("-0.800 [")
    assert (row.verdict, row.direction) == (DIFFERS, REVERSED)


def test_other_published_capsnets_are_beaten_or_not(ledger):
    fill(ledger, "fashion-shared", [800, 801, 802])
    row = found(ledger, "HitNet better than Liao")
    assert row.ours.startswith("1.39 [")
    assert (row.verdict, row.direction, row.note) == (DIFFERS, HOLDS, "")
    assert found(ledger, "HitNet better than Sabour").note == "(affNIST: not the paper's test images)"
    published = [row.paper for row in all_findings(ledger) if "'s CapsNet on" in row.result]
    assert published == ["0.51", "3.48", "1.70", "3.44", "4.03"]


def ghost_facts(agreed, doubtful, date="2026-11-18"):
    rows = [[i, "3", "5", 12, 0.05] for i in range(doubtful)]
    facts = {"images": 60_000, "agreement": [[1, agreed]], "doubtful": rows, "epochs": 60, "files": []}
    return facts | {"weights": ["w"] * 20, "date": date}


def test_ghosts_are_decided_by_several_groups(ledger):
    ledger.add(Entry(ANALYSIS, "mnist-ghosts-shared", tuple(range(20)), ghost_facts(16_800, 70)))
    row = found(ledger, "MNIST images to which")
    assert (row.paper, row.ours, row.runs, row.verdict) == ("28 %", "28 %", "1 group of 20", UNDECIDED)
    ledger.add(Entry(ANALYSIS, "mnist-ghosts-shared-second", tuple(range(20, 40)), ghost_facts(16_860, 71)))
    row = found(ledger, "MNIST images to which")
    assert (row.ours, row.runs, row.verdict) == ("28 %, 28 %", "2 groups of 20", AGREES)
    assert found(ledger, "Doubtful images of MNIST").verdict == AGREES


def test_the_summary_counts_verdicts_directions_and_runs(ledger, tmp_path):
    fill(ledger, "mnist-hitnet-shared", [37, 38, 39, 38])
    fill(ledger, "fashion-shared", [790, 792, 794])
    fill(ledger, "cifar10-shared", [2800, 2801, 2802])
    lost = f"0.1.0 sources {provenance.UNHELD[0]}"
    squash = PAPER.experiments["mnist-squash-shared"]
    add(ledger, squash, 0, record(squash, code=lost))
    add(ledger, squash, 1, record(squash, date="2026-11-18"))
    text = write_summary(PAPER, ledger, tmp_path).read_text(encoding="utf-8").replace("\u00a0", " ")
    rows = all_findings(ledger)
    assert f"Of {len(rows)} results" in text
    assert f"**1 agree, 6 differ, {len(rows) - 7} are undecided.**" in text
    assert "2 of 15 such statements hold here" in text
    assert "the size agrees; 12 are open (HitNet better than N1, constant rate; HitNet " in text
    assert "Hybrid gain on SVHN), 1 is reversed (HitNet better than Guo's CapsNet on CIFAR-10)." in text
    assert "11 of the 12 runs were made before 2026-11-18, and 1 of these name sources that no commit holds" in text
    assert "python -m reproduction table1-constant --ledger mine.jsonl" in text
    assert len(text.splitlines()) < 90
    (line,) = [line for line in text.splitlines() if line.startswith("| HitNet on Fashion-MNIST")]
    lines = [cell.strip().split("<br>") for cell in line.strip("|").split("|")]
    assert lines[0] == ["HitNet on Fashion-MNIST", "– CIFAR-10", "– SVHN"]
    assert lines[1] == ["7.70 %", "26.70 %", "5.50 %"]
    assert lines[2] == ["7.92 [7.87, 7.97] %", "28.01 [27.99, 28.03] %", "not run yet"]
    assert lines[3:] == [["3", "3", "0"], [DIFFERS, DIFFERS, UNDECIDED]]
    page = write_page(PAPER, ledger, tmp_path).read_text(encoding="utf-8")
    guo = table_row(page, "HitNet better than Guo's CapsNet on CIFAR-10")
    assert (guo[2][:8], guo[3][:8], *guo[4:]) == ("-0.800 [", "-0.800 [", DIFFERS, REVERSED)


def test_first_verdicts_are_told_where_more_runs_followed(ledger, tmp_path):
    fill(ledger, "fashion-shared", [770, 771])
    ledger.add(Entry(ANALYSIS, "mnist-ghosts-shared", tuple(range(20)), ghost_facts(16_800, 70)))
    assert "first verdict" not in write_summary(PAPER, ledger, tmp_path).read_text(encoding="utf-8")
    fashion = PAPER.experiments["fashion-shared"]
    add(ledger, fashion, 2, record(fashion, [790] * 250, date="2026-11-18"))
    third = ghost_facts(16_860, 71, "2026-11-19")
    ledger.add(Entry(ANALYSIS, "mnist-ghosts-shared-third", tuple(range(40, 60)), third))
    text = write_summary(PAPER, ledger, tmp_path).read_text(encoding="utf-8")
    assert "“HitNet on Fashion-MNIST” (agrees with 2: 7.71 [7.64, 7.77] %)" in text
    assert "same ghost class” (undecided with 1 group of 20: 28 %)" in text


def test_ghosts_of_svhn_say_what_is_planned(ledger):
    assert found(ledger, "Doubtful images of SVHN").note.startswith("(250 epochs planned: 0 of 20 runs made, ")


def test_notes_stand_once_below_the_verdicts_of_a_row():
    row = [Finding(f"HitNet with{end} shifts", "1", "2", "3", DIFFERS, "(rebuilt)") for end in ("out", "")]
    assert summary.merged(row)[0] == "HitNet\u00a0without\u00a0shifts<br>– with shifts"
    assert summary.merged(row)[-1] == "differs<br>differs<br>(rebuilt)"


def test_ratios_of_speed_are_those_of_the_record():
    ratios = {name: round(ratio, 1) for name, ratio in speed_ratios().items()}
    rows = json.loads((provenance.LABORATORY.parent / "benchmarks/records/training.json").read_text(encoding="utf-8"))
    eight = [
        row["images_per_second"]
        for row in rows
        if row.get("networks") == 8 and row.get("network") in ("hitnet", "capsnet")
    ]
    assert ratios["eight"] == round(eight[0] / eight[1], 1)
    assert ratios["eager"] < ratios["kernels"]
