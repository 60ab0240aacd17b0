"""The page of results: from the ledger alone, cell by cell."""

from dataclasses import replace

import pytest

from hitnet.errors import HitNetError
from hitnet.paper import PAPER, render
from hitnet.paper.ledger import ANALYSIS, DIVERGED, PICTURE, Entry
from toy_book import add, add_short, record

TEN = list("0123456789")


@pytest.fixture
def page(book, ledger, tmp_path):
    def call(chosen=book):
        return render(chosen, ledger, tmp_path / "docs").read_text(encoding="utf-8")

    return call


def row(text, start):
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_an_empty_ledger_says_so_in_every_cell(page):
    text = page()
    assert "The ledger is empty" in text
    cells = row(text, "Toy")
    assert cells[1:7] == ["50.00", "–", "–", "–", "0 of 3", "–"]
    assert "no runs yet; 3 take" in cells[7]
    assert "`hitnet reproduce toy`" in cells[7]
    assert "Not drawn yet" in text
    assert "No analysis" in text


def test_statistics_in_the_table(page, book, ledger):
    toy = book.experiments["toy"]
    for seed, wrong in enumerate([3, 6]):
        add(ledger, toy, seed, record(toy, [9, wrong]))
    cells = row(page(), "Toy")
    # 25 % and 50 %: mean 37.5, standard deviation 17.68, interval ± 12.706 · 17.68 / √2
    assert cells[2] == "37.50 [-121.33, 196.33]"
    assert cells[3:7] == ["17.678", "25.00", "2 of 3", "2.0 (1) on cpu (toy, 1 threads)"]
    assert cells[7].startswith("1 takes")


def test_a_difference_is_marked_and_asks_for_words(page, book, ledger, tmp_path):
    toy = book.experiments["toy"]
    for seed in range(3):
        add(ledger, toy, seed, record(toy, [9, 3]))
    text = page()
    assert row(text, "Toy")[2] == "25.00 [25.00, 25.00] **≠**"
    assert "`discussion/toy-table.md` beside this page" in text
    words = tmp_path / "docs/discussion/toy-table.md"
    words.parent.mkdir()
    words.write_text("The toy is easier than it seems.\n")
    text = page()
    assert "The toy is easier than it seems." in text
    assert "not discussed yet" not in text


def test_words_that_are_no_text_are_named(page, tmp_path):
    words = tmp_path / "docs/discussion/toy-table.md"
    words.parent.mkdir(parents=True)
    words.write_bytes("café".encode("latin-1"))
    with pytest.raises(HitNetError, match=r"toy-table\.md cannot be read: .* plain text in UTF-8"):
        page()


def test_one_run_has_no_interval_and_is_not_marked(page, book, ledger):
    add(ledger, book.experiments["toy"], 0)
    cells = row(page(), "Toy")
    assert cells[2] == "8.33, no interval from one run"
    assert cells[5] == "1 of 3"


def test_what_is_missing_is_what_the_command_would_do(page, book, ledger):
    toy = book.experiments["toy"]
    for seed in (0, 1, 3):
        add(ledger, toy, seed)
    cells = row(page(), "Toy")
    assert cells[5] == "3 of 3"
    assert cells[7].startswith("1 takes")
    add(ledger, toy, 2)
    cells = row(page(), "Toy")
    assert (cells[5], cells[7]) == ("4, 3 planned", "")


def test_runs_that_diverged_are_counted_and_told(page, book, ledger):
    toy = book.experiments["toy"]
    add(ledger, toy, 0)
    for seed, epochs in ((1, 2), (2, 3)):  # the second under a recipe that the experiment does not have
        how = {"recipe": replace(toy.full_recipe(), epochs=epochs).to_dict(), "model_options": {}}
        ledger.add(Entry(DIVERGED, "toy", (seed,), {"why": "Training diverged in epoch 7.", **how}))
    text = page()
    cells = row(text, "Toy")
    assert cells[5] == "1 of 3, 1 diverged"
    assert cells[7].startswith("1 takes")
    assert row(text.split("## Diverged runs")[1], "toy")[1:] == ["1", "Training diverged in epoch 7."]


def test_short_runs_are_shown_apart_and_counted_nowhere(page, book, ledger):
    add_short(ledger, book.experiments["toy"], 0, "1 epochs, 48 images")
    text = page()
    assert row(text, "Toy")[5] == "0 of 3"
    assert "The ledger is empty" in text
    assert row(text.split("## Short runs")[1], "toy")[1:4] == ["0", "1 epochs, 48 images", "8.33"]


def test_the_same_ledger_gives_the_same_page(page, book, ledger):
    add(ledger, book.experiments["toy"], 0)
    assert page() == page()


def test_every_result_of_the_paper_has_its_section_while_nothing_is_done(page):
    text = page(PAPER)
    for name in PAPER.results:
        assert f"\n## {name}\n" in text
    assert row(text, "HitNet with squash")[5] == "0 of 3"
    assert row(text, "CIFAR-10, a quarter modified")[5:] == [
        "0, not planned",
        "–",
        "no runs yet; 1 takes 2 min on an H200: `hitnet reproduce cifar10-hybrid-quarter --runs 1`",
    ]


def test_table_1_and_the_curves_of_a_full_ledger(page, ledger, tmp_path):
    for network, level in {"n1": 52, "n2": 79, "n2b": 76, "hitnet": 38}.items():
        one = PAPER.experiments[f"mnist-{network}-constant"]
        for seed in range(one.wanted):
            wrong = [500] + [level + (seed + epoch) % 3 for epoch in range(249)]
            add(ledger, one, seed, record(one, wrong))
    text = page(PAPER)
    cells = row(text.split("## table1-constant")[1].split("## ")[0], "HitNet")
    assert cells[1] == "0.38"
    # 20 runs that end with 38, 39 or 40 wrong images: 7, 6 and 7 of them. The standard deviation is √(14/19) images,
    # the interval ± 2.093 of it / √20.
    assert cells[2] == "0.390 [0.386, 0.394] **≠**"
    assert cells[3:] == ["0.009 (0.033)", "0.008 (0.025)", "20 of 20", "2.0 (1) on cpu (toy, 1 threads)", ""]
    assert (tmp_path / "docs/images/paper/curves.png").stat().st_size > 5000
    assert "mean of 20 runs" in text


def test_speed_compares_runs_of_the_same_device_with_as_many_side_by_side(page, ledger):
    def rows():
        text = page(PAPER).split("## speed")[1].split("## ")[0]
        return [row(line, line.split("|")[1].strip()) for line in text.splitlines() if line.startswith(("| A", "| B"))]

    fast, slow = PAPER.experiments["mnist-hitnet-50"], PAPER.experiments["mnist-capsnet"]
    assert rows() == []
    add(ledger, fast, 0, record(fast, device="A", images_per_second=5000.0))
    add(ledger, slow, 0, record(slow, device="B", images_per_second=1.0))
    add(ledger, slow, 1, record(slow, device="A", images_per_second=2000.0, beside=2))
    one, many = ["A", "1", "5,000", "–", "–", "1 and 0"], ["A", "2", "–", "2,000", "–", "0 and 1"]
    assert rows() == [one, many, ["B", "1", "–", "1", "–", "0 and 1"]]
    table1 = PAPER.experiments["mnist-hitnet-constant"]  # whose runs are of the same network
    add(ledger, table1, 1, record(table1, device="A", images_per_second=7000.0, beside=2))
    assert rows()[:2] == [one, ["A", "2", "7,000", "2,000", "3.5", "1 and 1"]]
    assert "Guo's CapsNet is about 13 times slower" in page(PAPER)  # what the paper's figure is of


def test_ghosts_beside_the_papers(page, ledger, tmp_path):
    pairs = [[0] * 10 for _ in TEN]
    pairs[5][3] = 2000
    facts = {
        "data": "MNIST",
        "images": 60_000,
        "models": 20,
        "class_names": TEN,
        "agreement": [[1, 15_000], [2, 45_000]],
        "pairs": pairs,
        "doubtful": [[7, "3", "5", 12, 0.05], [9, "4", "9", 20, 0.01]],
        "spreads": [[0.0, 2, 0.01], [0.5, 9, 0.2]],
        "epochs": 60,
        "files": [],
        "by_epoch": [[60, 15_000, 2]],
        "weights": ["w"] * 20,
    }
    ledger.add(Entry(ANALYSIS, "mnist-ghosts", tuple(range(19)), {**facts, "models": 19, "weights": ["w"] * 19}))
    ledger.add(Entry(ANALYSIS, "mnist-ghosts", tuple(range(20)), facts))
    text = page(PAPER).split("## ghosts-mnist")[1].split("## ghosts-svhn")[0]
    assert (
        "- mnist-ghosts-250: 250 epochs, runs here: 0 of 20. No analysis before all runs are there: no runs yet;"
        in text
    )
    assert "after so many epochs" not in text
    assert row(text, "networks")[1:] == ["20", "20", "–"]
    assert row(text, "images with one ghost class (N_c = 1)")[1:] == ["16,859 (28 %)", "15,000 (25 %)", "–"]
    assert row(text, "of these, (true 3, ghost 5)")[1:] == ["2,333", "2,000", "–"]
    assert row(text, "doubtful images")[1:] == ["71", "2", "–"]
    assert row(text, "fewest hits among them")[1:] == ["11", "12", "–"]
    assert row(text, "with at least 15 hits")[1:] == ["55", "1", "–"]
    assert "(N_c): 1: 15,000 (25 %); 2: 45,000 (75 %)." in text
    agreed, text = text.split("Doubtful images: ")
    assert row(agreed, "**5**") == ["**5**", "·", "·", "·", "2000", *"······", "2000"]
    assert row(text, "**9**") == ["**9**", "·", "·", "·", "0 (1)", "1 (13)", "·", "·", "0 (1)", "·", "·", "1 (15)"]
    assert row(text, "**Total**")[-1] == "2 (71)"
    assert "7: 3, 5, 12; 9: 4, 9, 20" in text
    assert (tmp_path / "docs/images/paper/mnist-ghosts-analysis.png").is_file()
    longer = {**facts, "epochs": 250, "by_epoch": [[10, 12_000, 40], [250, 15_000, 2]]}
    ledger.add(Entry(ANALYSIS, "mnist-ghosts-250", tuple(range(20)), longer))
    text = page(PAPER).split("## ghosts-mnist")[1].split("## ghosts-svhn")[0]
    assert row(text, "doubtful images")[1:] == ["71", "2", "2"]
    assert row(text, "mnist-ghosts-250, 10")[1:] == ["12,000 (20 %)", "40"]
    assert row(text, "mnist-ghosts-250, 250")[1:] == ["15,000 (25 %)", "2"]


def test_an_analysis_of_other_networks_than_the_runs_is_refused(page, book, ledger):
    ghosts = book.experiments["toy-ghosts"]
    for seed in range(2):
        add(ledger, ghosts, seed, record(ghosts, weights=f"w{seed}"))
    ledger.add(Entry(ANALYSIS, "toy-ghosts", (0, 1), {"weights": ["w0", "w9"]}))
    with pytest.raises(HitNetError, match=r"line 3: .* network \(weights w9\) than the run with seed 1 \(weights w1\)"):
        page(book)


def test_runs_that_wait_for_others_are_not_said_to_be_there(page, book, ledger):
    ghosts = book.experiments["toy-ghosts"]
    add(ledger, ghosts, 0)
    assert "runs here: 1 of 2. No analysis before all runs are there: 1 takes " in page(book)
    add(ledger, ghosts, 1, record(ghosts, weights="v"))
    assert "runs here: 2 of 2. Not analysed yet; the ghosts of all runs have to be brought together" in page(book)


def test_affnist_says_which_test_images_it_was(page, ledger):
    for name in ("affnist-hitnet", "affnist-hitnet-shifts"):
        one = PAPER.experiments[name]
        add(ledger, one, 0, record(one, [400] * 250, final_wrong=32_000, tested_on="affNIST (rebuilt)"))
    text = page(PAPER)
    assert row(text, "affNIST")[2] == "10.00, no interval from one run"
    assert text.count("tested on affNIST (rebuilt).") == 2


def test_a_picture_names_its_run_and_a_missing_file(page, book, ledger, tmp_path):
    facts = {"files": ["images/paper/toy-picture.png"], "weights": "abc"}
    ledger.add(Entry(PICTURE, "toy", (0,), facts, "toy-picture"))
    assert "The file images/paper/toy-picture.png is missing" in page()
    file = tmp_path / "docs/images/paper/toy-picture.png"
    file.parent.mkdir(parents=True)
    file.touch()
    text = page()
    assert "![A picture](images/paper/toy-picture.png)" in text
    assert "Drawn from toy, seed 0, weights abc.\n" in text
    add(ledger, book.experiments["toy"], 0)
    assert "was trained apart from it (weights w)" in page()
