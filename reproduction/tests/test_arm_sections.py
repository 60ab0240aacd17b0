"""Arms on the page: beside their cell, and never in it."""

from dataclasses import replace

from scipy import stats
from toy_book import add, record, table_row

from reproduction import PAPER, reproduce
from reproduction.ledger import ARM, RUN, Entry
from reproduction.records import full_runs


def add_arm(ledger, name, seed, wrong):
    arm = PAPER.experiments[name]
    ledger.add(Entry(ARM, name, (seed,), record(arm, [wrong] * arm.epochs).to_facts()))


def test_an_arm_stands_beside_its_cell_and_is_not_in_it(section, page, ledger):
    cell = PAPER.experiments["cifar10-hitnet"]
    for seed, wrong in enumerate((2900, 2920)):
        add(ledger, cell, seed, record(cell, [wrong] * 250))
    before = section("table2")
    for seed, wrong in enumerate((2660, 2670, 2680)):
        add_arm(ledger, "cifar10-shift3-nearest", seed, wrong)
    assert section("table2") == before
    cells = table_row(section("arms"), "cifar10-shift3-nearest: shifts of 3, nearest pixel")
    # Of the arm: mean 26.70, standard deviation 0.1, ± 4.303 · 0.1 / √3. Of the cell: ± 12.706 · 0.1414 / √2.
    assert cells[1:5] == ["cifar10-hitnet", "26.70", "29.10 [27.83, 30.37]", "26.70 [26.45, 26.95]"]
    assert cells[5].startswith("-2.400 [")
    assert cells[6] == "3 of 3"
    assert "cifar10-shift3-nearest (" not in section("arms")  # nothing is missing
    assert "- svhn-shared-shift3-nearest (" in section("arms")


def test_a_figure_outside_the_interval_of_an_arm_is_marked(section, ledger):
    for seed, wrong in enumerate((2500, 2501, 2502)):
        add_arm(ledger, "cifar10-shift3-nearest", seed, wrong)
    assert table_row(section("arms"), "cifar10-shift3-nearest: shifts of 3, nearest pixel")[4].endswith("**≠**")


def test_a_shorter_arm_stands_beside_the_same_epochs_of_its_cell(section, ledger):
    cell, arm = (PAPER.experiments[name] for name in ("cifar10-hitnet", "cifar10-float32-60"))
    add(ledger, cell, 0, record(cell, [9000] * 50 + [2800] * 10 + [3000] * 190))
    ledger.add(Entry(ARM, arm.name, (0,), record(arm, [9000] * 50 + [2500, 2700] * 5).to_facts()))
    cells = table_row(section("arms"), "cifar10-float32-60: float32 in training, 60 epochs")
    assert cells[1:5] == [
        "cifar10-hitnet",
        "26.70",
        "28.00, no interval from one run",
        "26.00, no interval from one run",
    ]


def test_hybrid_images_stand_beside_the_same_network_without_them(section, ledger):
    assert "What hybrid images change" not in section("arms")
    without, hybrid = (PAPER.experiments[name] for name in ("fashion-shared", "fashion-hybrid-shared-component"))
    for seed, wrong in enumerate((740, 760)):
        add_arm(ledger, without.name, seed, wrong)
    for seed, wrong in enumerate((710, 730, 720)):
        errors = [wrong] * 240 + [wrong + 4, wrong] * 5  # the mean of the last ten epochs is 0.02 points higher
        ledger.add(Entry(ARM, hybrid.name, (seed,), record(hybrid, errors).to_facts()))
    cells = table_row(section("arms"), hybrid.name)
    low, high = stats.ttest_ind([7.1, 7.3, 7.2], [7.4, 7.6], equal_var=False).confidence_interval()
    assert cells[1:] == [
        "fashion-shared",
        "7.70 → 7.50",
        "7.50 (2) → 7.20 (3)",
        f"-0.300 [{low:+.3f}, {high:+.3f}]",
        f"-0.280 [{low + 0.02:+.3f}, {high + 0.02:+.3f}]",
    ]


def test_runs_and_arms_are_told_apart_by_the_ledger(ledger):
    arm = PAPER.experiments["cifar10-shift3-nearest"]
    ledger.add(Entry(RUN, arm.name, (0,), record(arm).to_facts()))
    assert full_runs(ledger, arm) == {}
    add_arm(ledger, arm.name, 0, 2660)
    assert list(full_runs(ledger, arm)) == [0]
    assert full_runs(ledger, PAPER.experiments["cifar10-hitnet"]) == {}


def test_an_arm_is_trained_and_recorded_as_an_arm(book, ledger, tmp_path):
    toy = book.experiments["toy"]
    options = {**toy.options, "shift_fill": "nearest"}
    arm = replace(toy, name="toy-arm", wanted=1, arm_of="toy", reading="nearest pixel", options=options)
    larger = replace(book, experiments={**book.experiments, arm.name: arm})
    reproduce(arm.name, book=larger, ledger=ledger, docs=tmp_path / "docs", runs_dir=tmp_path / "runs", device="cpu")
    (entry,) = ledger.entries.values()
    assert (entry.kind, entry.experiment, entry.seeds) == ("arm", "toy-arm", (0,))
    assert entry.facts["recipe"]["shift_fill"] == "nearest"
    assert (
        reproduce(
            arm.name, book=larger, ledger=ledger, docs=tmp_path / "docs", runs_dir=tmp_path / "runs", device="cpu"
        ).done
        == []
    )


def test_ghost_arms_stand_beside_the_paper(section, ledger):
    add_arm(ledger, "mnist-ghosts-still", 0, 80)
    text = section("arms")
    assert table_row(text, "the paper")[1:] == ["20", "16,859 (28 %)", "71", "2,333", "2,580", "1,360", "2,380"]
    assert table_row(text, "mnist-ghosts-still: ghosts, no shifts, 60 epochs")[1:3] == ["1 of 5", "–"]
