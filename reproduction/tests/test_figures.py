"""The figures: curves, pictures that name their run, and the components of capsules."""

from dataclasses import replace

import pytest
from toy_book import add, record, table_row

from hitnet import Network
from reproduction import PAPER, figures, reproduce
from reproduction.figures import (
    components_section,
    draw_components,
    draw_reconstructions,
    layer_sizes,
    measure_components,
)
from reproduction.ledger import PICTURE, Entry


def test_a_picture_names_its_run_and_a_missing_file(page, book, ledger, tmp_path):
    facts = {"files": ["images/toy-picture.png"], "weights": "abc"}
    ledger.add(Entry(PICTURE, "toy", (0,), facts, "toy-picture"))
    assert "The file images/toy-picture.png is missing" in page()
    file = tmp_path / "pages/images/toy-picture.png"
    file.parent.mkdir(parents=True)
    file.touch()
    text = page()
    assert "![A picture](images/toy-picture.png)" in text
    assert "Drawn from toy, seed 0, weights abc.\n" in text
    add(ledger, book.experiments["toy"], 0)
    assert "is another training (weights w)" in page()


def test_pictures_are_drawn_from_one_run(work, ledger, tmp_path):
    outcome, _ = work("toy-picture")
    assert outcome.done == ["toy, seed 0"]
    entry = ledger.get(PICTURE, "toy", (0,), "toy-picture")
    assert entry.facts["files"] == ["images/toy-toy-picture.png"]
    assert (tmp_path / "pages/images/toy-toy-picture.png").stat().st_size > 1000
    assert work("toy-picture")[0].done == []


def test_the_components_of_capsules(section, ledger):
    assert "Not drawn yet" in section("components")
    measured = {"centre": 0.5, "spread": 0.025, "by_class": [["0", 5923, 0.50123, 0.02345, 0.96789]]}
    facts = {"files": ["images/components.png"], "weights": "abc", "measured": measured}
    ledger.add(Entry(PICTURE, "mnist-hitnet-shared", (0,), facts, "components"))
    text = section("components")
    assert table_row(text, "0")[1:] == ["5,923", "0.501", "0.0234", "96.8"]
    assert "m/√n = 0.0250" in text
    assert "Not measured on test images yet." in text
    measured["by_class_test"] = [["0", 980, 0.5, 0.03, 0.9512]]
    facts = {"files": ["images/components.png"], "weights": "abc", "measured": measured}
    ledger.path.unlink()
    ledger.read()
    ledger.add(Entry(PICTURE, "mnist-hitnet-shared", (0,), facts, "components"))
    text = section("components")
    assert table_row(text.split("test images")[1], "0")[1:] == ["980", "0.500", "0.0300", "95.1"]


def test_runs_that_learned_nothing_are_left_out_of_the_curves(section, ledger, monkeypatch):
    drawn = {}
    monkeypatch.setattr(figures, "draw_curves", lambda histories, file: drawn.update(histories))
    n2 = PAPER.experiments["mnist-n2-shared"]
    for seed, wrong in enumerate((60, 8865, 80)):
        add(ledger, n2, seed, record(n2, [wrong] * n2.epochs))
    assert "- CapsNet-like (N2), mean of 2 runs; 1 of 3, left out, learned nothing\n" in section("curves")
    (history,) = drawn.values()
    assert [row["test_error"] for row in history] == pytest.approx([0.007] * n2.epochs)


def test_the_networks_sizes_are_its_own(section, tmp_path):
    config = PAPER.experiments["mnist-hitnet-shared"].model
    sizes = [(256, 20, 20), (256, 6, 6), (160,), (512,), (1024,), (784,)]
    assert layer_sizes(Network(config)) == sizes
    assert "images/network.png" in section("network")


def test_test_images_are_rebuilt(work, book, ledger, tmp_path):
    """The picture of another seed than 0 needs that run."""
    shown = replace(book.results["toy-picture"], name="toy-rebuilt", draw=draw_reconstructions, seed=1)
    larger = replace(book, results={**book.results, shown.name: shown})
    reproduce(shown.name, book=larger, ledger=ledger, folder=tmp_path, runs_dir=tmp_path / "runs", device="cpu")
    facts = ledger.get(PICTURE, "toy", (1,), shown.name).facts
    assert facts["files"] == ["images/toy-toy-rebuilt.png"]
    assert (tmp_path / facts["files"][0]).is_file()


def test_components_are_measured_from_a_run(work, book, ledger, tmp_path):
    shown = replace(
        book.results["toy-picture"],
        name="toy-components",
        section=components_section,
        draw=draw_components,
        measure=measure_components,
    )
    larger = replace(book, results={**book.results, shown.name: shown})
    reproduce(shown.name, book=larger, ledger=ledger, folder=tmp_path, runs_dir=tmp_path / "runs", device="cpu")
    facts = ledger.get(PICTURE, "toy", (0,), shown.name).facts
    assert [row[1] for row in facts["measured"]["by_class_test"]] == [4, 4, 4]
    rows = facts["measured"]["by_class"]
    assert [row[0] for row in rows] == ["band 0", "band 1", "band 2"]
    assert facts["measured"]["spread"] == pytest.approx(0.1 / 4)
    assert all(0 < row[2] < 1 and 0 <= row[4] <= 1 for row in rows)
