"""Readings on the page: arms beside the experiment that they read otherwise, and never in its cell."""

from scipy import stats
from toy_book import add, record, table_row

from reproduction import PAPER
from reproduction.ledger import RUN, Entry


def add_run(ledger, name, seed, wrong):
    experiment = PAPER.experiments[name]
    add(ledger, experiment, seed, record(experiment, [wrong] * experiment.epochs))


def test_an_arm_stands_beside_its_cell_and_is_not_in_it(section, ledger):
    for seed, wrong in enumerate((2900, 2920)):
        add_run(ledger, "cifar10-shared", seed, wrong)
    before = section("table2")
    for seed, wrong in enumerate((2660, 2670, 2680)):
        add_run(ledger, "cifar10-shared-shift3-nearest", seed, wrong)
    assert section("table2") == before
    cells = table_row(section("readings"), "cifar10-shared-shift3-nearest: shifts of 3, nearest pixel")
    # Of the arm: mean 26.70, standard deviation 0.1, ± 4.303 · 0.1 / √3.
    assert cells[1:7] == ["cifar10-shared", "26.70", "26.70 [26.45, 26.95]", "0.100", "0.000", "26.60"]
    assert cells[7] == cells[8]
    assert cells[7].startswith("-2.400 [")
    assert cells[9] == "3 of 3"
    assert "cifar10-shared-shift3-nearest (" not in section("readings")  # nothing is missing
    assert "- svhn-shared-shift3-nearest (" in section("readings")


def test_an_arm_of_an_arm_has_the_paper_s_figure(section, ledger):
    for name in ("cifar10-each", "cifar10-each-shift3-nearest"):
        for seed in range(2):
            add_run(ledger, name, seed, 2700 + seed)
    words = "batch-norm of each class and component; shifts of 3, nearest pixel"
    row = table_row(section("readings"), f"cifar10-each-shift3-nearest: {words}")
    assert row[1:3] == ["cifar10-each", "26.70"]
    assert row[7].startswith("+0.000 [")


def test_a_shorter_arm_stands_beside_the_same_epochs_of_the_other(section, ledger):
    other, arm = (PAPER.experiments[name] for name in ("cifar10-each", "cifar10-each-float32-60"))
    add(ledger, other, 0, record(other, [9000] * 50 + [2800] * 10 + [3000] * 190))
    add(ledger, arm, 0, record(arm, [9000] * 50 + [2500, 2700] * 5))
    words = "batch-norm of each class and component; float32 in training, 60 epochs"
    cells = table_row(section("readings"), f"cifar10-each-float32-60: {words}")
    none = "no interval from one run"
    assert cells[1:5] == ["cifar10-each", "26.70", f"28.00, {none}", f"26.00, {none}"]


def test_hybrid_images_stand_beside_the_same_network_without_them(section, ledger):
    without, hybrid = (PAPER.experiments[name] for name in ("fashion-shared", "fashion-hybrid-shared-component"))
    for seed, wrong in enumerate((740, 760)):
        add_run(ledger, without.name, seed, wrong)
    for seed, wrong in enumerate((710, 730, 720)):
        errors = [wrong] * 240 + [wrong + 4, wrong] * 5  # the mean of the last ten epochs is 0.02 points higher
        ledger.add(Entry(RUN, hybrid.name, (seed,), record(hybrid, errors).to_facts()))
    cells = table_row(section("table3").split("What hybrid images change")[1], "Fashion-MNIST")
    low, high = stats.ttest_ind([7.1, 7.3, 7.2], [7.4, 7.6], equal_var=False).confidence_interval()
    assert cells[1:] == [
        "7.70 → 7.50",
        f"-0.300 [{low:+.3f}, {high:+.3f}]",
        f"-0.280 [{low + 0.02:+.3f}, {high + 0.02:+.3f}]",
    ]
    assert "in arms" not in section("readings")


def test_ghost_arms_stand_beside_the_paper(section, ledger):
    add_run(ledger, "mnist-ghosts-each-still", 0, 80)
    text = section("readings")
    assert table_row(text, "the paper")[1:] == ["20", "16,859 (28 %)", "71", "2,333", "2,580", "1,360", "2,380"]
    words = "batch-norm of each class and component; no shifts, 60 epochs"
    assert table_row(text, f"mnist-ghosts-each-still: {words}")[1:3] == ["1 of 5", "–"]
