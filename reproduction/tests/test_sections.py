"""The sections of the page: the paper's tables, and ours beside the paper's figures."""

from dataclasses import replace

import pytest
from toy_book import add, record, table_row

from reproduction import PAPER
from reproduction.cost import H200
from reproduction.sections import recipe_words


def test_every_result_of_the_paper_has_its_section_while_nothing_is_done(page):
    text = page(PAPER)
    for name in PAPER.results:
        assert f"\n## {name}\n" in text
    # The plan is not the paper's.
    assert table_row(text, "[table1-constant](#table1-constant)")[3:5] == ["80", "0 of 50"]
    assert table_row(text, "[squash](#squash)")[3:5] == ["not given", "0 of 5"]
    assert table_row(text, "[ours](#ours)")[3] == "–"
    assert table_row(text, "HitNet with squash")[1:6] == ["about 0.40 (runs not given)", "–", "–", "–", "0 of 5"]


def test_table_1_and_the_curves_of_a_full_ledger(section, ledger, tmp_path):
    for network, level in {"n1-constant": 52, "n2-shared": 79, "n2b-shared": 76, "hitnet-shared": 38}.items():
        experiment = PAPER.experiments[f"mnist-{network}"]
        for seed in range(experiment.wanted):
            wrong = [500] + [level + (seed + epoch) % 3 for epoch in range(249)]
            add(ledger, experiment, seed, record(experiment, wrong))
    cells = table_row(section("table1-constant"), "HitNet")
    assert cells[1] == "0.38"
    # 20 runs that end with 38, 39 or 40 wrong images: 7, 6 and 7 of them. The mean is 39 images, the standard
    # deviation √(14/19), the interval ± 2.093 of it / √20.
    assert cells[2] == "0.390 [0.386, 0.394], agrees"
    assert cells[3:] == ["0.009 (0.033)", "0.008 (0.025)", "20 of 20", "2.0 (1) on cpu (toy, 1 threads)", ""]
    assert "mean of 20 runs" in section("curves")
    assert (tmp_path / "pages/images/curves.png").stat().st_size > 5000


def test_speed_compares_runs_of_the_same_device_with_as_many_side_by_side(section, ledger):
    def rows():
        lines = [line for line in section("speed").splitlines() if line.startswith(("| A", "| B"))]
        return [table_row(line, line.split("|")[1].strip()) for line in lines]

    fast, slow = PAPER.experiments["mnist-hitnet-each-50"], PAPER.experiments["mnist-capsnet"]
    assert rows() == []
    add(ledger, fast, 0, record(fast, device="A", images_per_second=5000.0))
    add(ledger, slow, 0, record(slow, device="B", images_per_second=1.0))
    add(ledger, slow, 1, record(slow, device="A", images_per_second=2000.0, beside=2))
    single, many = ["A", "1", "5,000", "–", "–", "1 and 0"], ["A", "2", "–", "2,000", "–", "0 and 1"]
    assert rows() == [single, many, ["B", "1", "–", "1", "–", "0 and 1"]]
    table1 = PAPER.experiments["mnist-hitnet-each"]  # whose runs are of the same network
    add(ledger, table1, 1, record(table1, device="A", images_per_second=7000.0, beside=2))
    assert rows()[:2] == [single, ["A", "2", "7,000", "2,000", "3.5", "1 and 1"]]
    assert "Guo's CapsNet is about 13 times slower" in section("speed")  # what the paper's figure is of


def test_affnist_says_which_test_images_it_was(section, ledger):
    for name in ("affnist-still-shared", "affnist-shared"):
        experiment = PAPER.experiments[name]
        add(ledger, experiment, 0, record(experiment, [400] * 250, final_wrong=32_000, tested_on="affNIST (rebuilt)"))
    assert table_row(section("table2"), "affNIST")[2] == "10.00, no interval from one run"
    for name in ("table2", "affnist-shifts"):
        assert section(name).count("tested on affNIST (rebuilt).") == 1


def fill(ledger, name, wrong, **changes):
    experiment = PAPER.experiments[name]
    for seed, count in enumerate(wrong):
        add(ledger, experiment, seed, record(experiment, [count] * experiment.epochs, device=H200, **changes))


def test_rows_without_runs_say_so_with_cost_and_command(section):
    for heading, title, name in [
        ("table1-decay", "HitNet", "mnist-hitnet-shared-decay"),
        ("table2", "CIFAR-10", "cifar10-shared"),
        ("affnist-shifts", "affNIST, images shifted in training", "affnist-shared"),
        ("ours", "SVHN, ResNet-9", "svhn-resnet9"),
    ]:
        cells, wanted = table_row(section(heading), title), PAPER.experiments[name].wanted
        assert f"0 of {wanted}" in cells
        assert cells[-1].startswith(f"no runs yet; {wanted} take ")
        assert cells[-1].endswith(f"on an H200: `python -m reproduction {name}`")
    text = section("softmax")
    assert table_row(text.split("Differences")[0], "SVHN")[-1].endswith("`python -m reproduction svhn-resnet9-softmax`")
    assert table_row(text.split("Welch")[1], "SVHN")[1:] == ["–", "not comparable yet: both need at least two runs"]


def test_ours_beside_the_papers(section, ledger):
    fill(ledger, "mnist-ours", [30, 34], seconds=11.6)
    # 0.30 % and 0.34 %: mean 0.32, standard deviation 0.0283, interval ± 12.706 · 0.0283 / √2
    figures = ["0.320 [0.066, 0.574]", "0.028", "0.30", "2 of 10", "12 (1)"]
    cells = table_row(section("ours"), "MNIST, the paper's network")
    assert cells[1] == "0.36 (best 0.32)"
    assert cells[2:7] == figures
    assert cells[7].startswith("8 take")
    for name in ("table1-decay", "table2", "table3"):
        assert "ours" not in section(name)


def test_another_networks_error_in_the_paper_is_not_marked(section, ledger):
    fill(ledger, "cifar10-resnet9", [500, 510, 520])
    assert table_row(section("ours"), "CIFAR-10, ResNet-9")[1:3] == ["26.70", "5.10 [4.85, 5.35]"]


@pytest.mark.parametrize(
    ("hit", "words"),
    [
        ([500, 510, 520], "Hit-or-Miss has the lower error"),
        ([598, 612, 590], "no difference detected"),
        ([700, 710, 720], "softmax has the lower error"),
    ],
)
def test_both_heads_are_compared(section, ledger, hit, words):
    fill(ledger, "cifar10-resnet9", hit)
    fill(ledger, "cifar10-resnet9-softmax", [590, 600, 610])
    text = section("softmax")
    assert table_row(text.split("Differences")[0], "CIFAR-10")[1:5] == ["6.00 [5.75, 6.25]", "0.100", "5.90", "3 of 5"]
    assert table_row(text.split("Welch")[1], "CIFAR-10")[2] == words


def test_recipes_are_told(section):
    text = section("ours")
    experiment = PAPER.experiments["cifar10-resnet9"]
    assert f"- cifar10-resnet9: {', '.join(recipe_words(experiment))}\n" in text
    assert "25 % of each batch modified by mnist-ours-teacher (strength 1)" in text
    common = "70 epochs, sgd at 0.2, one-cycle, batches of 256, weight decay 0.0005, shift 4, flip, cutout 12"
    own = "Hit-or-Miss: miss weight 2, capsules of size 32; softmax: label smoothing 0.1"
    assert f"- CIFAR-10, both: {common}; {own}\n" in section("softmax")
    told = recipe_words(replace(experiment, options={"epochs": 3, "flip": True, "invert": True, "average": 0.99}))
    assert told[:4] == ["3 epochs", "sgd at 0.4", "one-cycle", "batches of 512"]
    assert told[-5:] == ["flip", "cutout 12", "invert", "average 0.99", "capsules of size 32"]
