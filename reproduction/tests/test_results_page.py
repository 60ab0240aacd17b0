"""The page of results: written from the ledger, cell by cell."""

from dataclasses import replace

import pytest
from toy_book import add, add_short, record, table_row

from hitnet import HitNetError
from reproduction.cost import H200
from reproduction.ledger import DIVERGED, Entry


def test_an_empty_ledger_says_so_in_every_cell(page):
    text = page()
    assert "The ledger is empty" in text
    cells = table_row(text, "Toy")
    assert cells[1:7] == ["50.00", "–", "–", "–", "0 of 3", "–"]
    assert "no runs yet; 3 take" in cells[7]
    assert "`python -m reproduction toy`" in cells[7]
    assert "Not drawn yet" in text
    assert "The analysis needs all runs" in text


def test_statistics_in_the_table(page, book, ledger):
    toy = book.experiments["toy"]
    for seed, wrong in enumerate([3, 6]):
        add(ledger, toy, seed, record(toy, [9, wrong]))
    cells = table_row(page(), "Toy")
    # 25 % and 50 %: mean 37.5, standard deviation 17.68, interval ± 12.706 · 17.68 / √2
    assert cells[2] == "37.50 [-121.33, 196.33], undecided"
    assert cells[3:7] == ["17.678", "25.00", "2 of 3", "2.0 (1) on cpu (toy, 1 threads)"]
    assert cells[7].startswith("1 takes")


def test_a_difference_is_named_and_asks_for_a_discussion(page, book, ledger, tmp_path):
    toy = book.experiments["toy"]
    for seed in range(3):
        add(ledger, toy, seed, record(toy, [9, 3]))
    text = page()
    assert table_row(text, "Toy")[2] == "25.00 [25.00, 25.00], differs"
    assert "`discussion/toy-table.md` beside this page" in text
    words = tmp_path / "pages/discussion/toy-table.md"
    words.parent.mkdir()
    words.write_text("The toy is easier than it seems.\n")
    text = page()
    assert "The toy is easier than it seems." in text
    assert "not discussed yet" not in text


def test_a_discussion_that_is_not_text_is_named(page, tmp_path):
    words = tmp_path / "pages/discussion/toy-table.md"
    words.parent.mkdir(parents=True)
    words.write_bytes("café".encode("latin-1"))
    with pytest.raises(HitNetError, match=r"toy-table\.md .* UTF-8"):
        page()


def test_one_run_has_no_interval_and_no_verdict(page, book, ledger):
    add(ledger, book.experiments["toy"], 0)
    cells = table_row(page(), "Toy")
    assert cells[2] == "8.33, no interval from one run"
    assert cells[5] == "1 of 3"


def test_what_is_missing_is_what_the_command_would_do(page, book, ledger):
    toy = book.experiments["toy"]
    for seed in (0, 1, 3):
        add(ledger, toy, seed)
    cells = table_row(page(), "Toy")
    assert cells[5] == "3 of 3"
    assert cells[7].startswith("1 takes")
    add(ledger, toy, 2)
    cells = table_row(page(), "Toy")
    assert (cells[5], cells[7]) == ("4, 3 planned", "")


def test_diverged_runs_are_counted_and_listed(page, book, ledger):
    toy = book.experiments["toy"]
    add(ledger, toy, 0)
    for seed, epochs in ((1, 2), (2, 3)):  # the second with a recipe that is not the experiment's
        how = {"recipe": replace(toy.full_recipe(), epochs=epochs).to_dict(), "model_options": toy.full_options}
        ledger.add(Entry(DIVERGED, "toy", (seed,), {"why": "Training diverged in epoch 7.", **how}))
    text = page()
    cells = table_row(text, "Toy")
    assert cells[5] == "1 of 3, 1 diverged"
    assert cells[7].startswith("1 takes")
    assert table_row(text.split("## Diverged runs")[1], "toy")[1:] == ["1", "Training diverged in epoch 7."]


def test_short_runs_are_shown_apart_and_counted_nowhere(page, book, ledger):
    add_short(ledger, book.experiments["toy"], 0, "1 epochs, 48 images")
    text = page()
    assert table_row(text, "Toy")[5] == "0 of 3"
    assert "The ledger is empty" in text
    assert table_row(text.split("## Short runs")[1], "toy")[1:4] == ["0", "1 epochs, 48 images", "8.33"]


def test_the_same_ledger_gives_the_same_page(page, book, ledger):
    add(ledger, book.experiments["toy"], 0)
    assert page() == page()


def test_the_page_says_how_many_runs_are_in_mixed_precision_on_a_gpu(page, book, ledger):
    toy = book.experiments["toy"]
    assert "bfloat16" not in page()
    add(ledger, toy, 0, record(toy, device=H200))
    text = page()
    assert "- Precision: all 1 runs here train and test with matrix products in bfloat16 on a GPU" in text
    assert "The others train in float32." not in text
    older = {key: value for key, value in toy.full_recipe().to_dict().items() if key != "precision"}
    add(ledger, toy, 1, record(toy, device=H200, recipe=older))
    add(ledger, toy, 2, record(toy))  # on a CPU
    text = page()
    assert "- Precision: 2 of 3 runs here train and test with matrix products in bfloat16 on a GPU" in text
    assert "The others train in float32." in text
