"""The figures: curves, and pictures that name their run."""

from hitnet.paper.ledger import PICTURE, Entry
from toy_book import add


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
    assert "is another training (weights w)" in page()


def test_pictures_are_drawn_from_one_run(work, ledger, tmp_path):
    outcome, _ = work("toy-picture")
    assert outcome.done == ["toy, seed 0"]
    entry = ledger.get(PICTURE, "toy", (0,), "toy-picture")
    assert entry.facts["files"] == ["images/paper/toy-picture.png"]
    assert (tmp_path / "docs/images/paper/toy-picture.png").stat().st_size > 1000
    assert work("toy-picture")[0].done == []
