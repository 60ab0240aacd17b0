"""Ghosts of an experiment's runs: read during training and at the end, brought together, analysed, shown."""

import math
import shutil
import sys

import numpy as np
import pytest
from toy_book import HERE, add, record, table_row

import hitnet
from hitnet import HitNetError
from hitnet.audit.margins import others
from hitnet.capsules import HIT_RADIUS
from hitnet.data import open_data
from hitnet.inference import find_ghosts
from hitnet.models.network import class_distances
from reproduction import Ledger, runner, write_page
from reproduction.cost import Costs
from reproduction.experiments import Length, PlannedRun
from reproduction.ledger import ANALYSIS, Entry
from reproduction.runner import Runner

TEN = list("0123456789")


def test_ghosts_are_analysed_once_all_runs_are_there(work, ledger, tmp_path):
    work("toy-ghosts", runs=1)
    work("toy-ghosts")
    facts = ledger.get(ANALYSIS, "toy-ghosts", (0, 1)).facts
    assert facts["models"] == 2
    assert sum(count for _, count in facts["agreement"]) == 48
    assert sum(map(sum, facts["pairs"])) == dict(map(tuple, facts["agreement"]))[1]
    assert [epoch for epoch, _, _ in facts["by_epoch"]] == [1, 2]
    assert facts["by_epoch"][-1][1:] == [sum(map(sum, facts["pairs"])), len(facts["doubtful"])]


def test_ghosts_are_read_during_training(work, book, tmp_path, monkeypatch):
    images = open_data(book.experiments["toy-ghosts"].data).load("train")
    seen = {}

    class Looking(runner.Notes):
        def epoch(self, training):
            away = others(class_distances(training.network, images.pixels).double().numpy(), images.labels.numpy())
            seen[training.folder.name, len(training.history)] = away.min(axis=1).astype(np.float32)
            super().epoch(training)

    monkeypatch.setattr(runner, "Notes", Looking)
    work("toy-ghosts")
    assert len(seen) == 4
    for (folder, epoch), distance in seen.items():
        with np.load(tmp_path / f"runs/toy-ghosts/{folder}/ghosts-{epoch}.npz") as kept:
            assert np.array_equal(kept["distance"], distance)
    assert not np.array_equal(seen["seed-0", 1], seen["seed-0", 2])


def test_a_missing_last_reading_is_made_from_the_finished_run(work, ledger, tmp_path):
    work("toy-ghosts", runs=1)
    file = tmp_path / "runs/toy-ghosts/seed-0/ghosts-2.npz"
    with np.load(file) as reading:
        ghost, distance = reading["ghost"], reading["distance"]
    file.unlink()
    work("toy-ghosts")
    with np.load(file) as reading:
        assert np.array_equal(reading["ghost"], ghost)
        assert np.allclose(reading["distance"], distance, atol=1e-5)
    assert ledger.get(ANALYSIS, "toy-ghosts", (0, 1)) is not None


def test_the_analysis_is_that_of_the_ghosts_command(work, book, ledger, tmp_path):
    work("toy-ghosts")
    images = open_data(book.experiments["toy-ghosts"].data).load("train")
    trained = [hitnet.open_run(tmp_path / f"runs/toy-ghosts/seed-{seed}") for seed in (0, 1)]
    distances = np.stack([class_distances(run.model, images.pixels).cpu().numpy() for run in trained])
    ghosts = find_ghosts(distances, images.labels.numpy(), images.class_names)
    facts = ledger.get(ANALYSIS, "toy-ghosts", (0, 1)).facts
    assert facts["pairs"] == ghosts.pairs(ghosts.agreed()).iloc[:-1, :-1].to_numpy().tolist()
    assert facts["agreement"] == ghosts.agreement()[["classes", "images"]].to_numpy().tolist()
    assert len(facts["doubtful"]) == len(ghosts.doubtful())


def test_missing_readings_are_named(work, book, ledger):
    add(ledger, book.experiments["toy-ghosts"], 0)
    _, said = work("toy-ghosts")
    assert "the ghosts of seeds 0 after 2 epochs are missing (ghosts-2.npz in " in said[-2]
    assert "not analysed. Copy the files" in said[-1]
    assert ledger.select(ANALYSIS) == []


def test_a_lost_reading_during_training_is_left_out(work, ledger, tmp_path):
    work("toy-ghosts", runs=1)
    (tmp_path / "runs/toy-ghosts/seed-0/ghosts-1.npz").unlink()
    _, said = work("toy-ghosts")
    assert any("the ghosts of seeds 0 after 1 epochs are missing" in line for line in said)
    assert [epoch for epoch, _, _ in ledger.get(ANALYSIS, "toy-ghosts", (0, 1)).facts["by_epoch"]] == [2]


def test_ghosts_and_hits_are_counted_over_the_epochs(work, book, ledger, tmp_path):
    """By a loop over images and networks."""
    work("toy-ghosts")
    images = open_data(book.experiments["toy-ghosts"].data).load("train")
    facts, labels = ledger.get(ANALYSIS, "toy-ghosts", (0, 1)).facts, images.labels.tolist()
    rows, ghosts = [], []
    for run in (hitnet.open_run(tmp_path / f"runs/toy-ghosts/seed-{seed}") for seed in (0, 1)):
        for label, distances in zip(labels, class_distances(run.model, images.pixels).tolist(), strict=True):
            wrong = [math.inf if k == label else distance for k, distance in enumerate(distances)]
            rows.append((distances[label] <= HIT_RADIUS, min(wrong) <= HIT_RADIUS))
            ghosts.append(wrong.index(min(wrong)))
    shares = [100 * sum(hits) / len(rows) for hits in (*zip(*rows, strict=True), [all(row) for row in rows])]
    assert facts["over_epochs"][-1] == pytest.approx([2, 100, *shares], abs=1e-3)
    early = []
    for seed in (0, 1):
        with np.load(tmp_path / f"runs/toy-ghosts/seed-{seed}/ghosts-1.npz") as reading:
            early += reading["ghost"].tolist()
    same = sum(a == b for a, b in zip(early, ghosts, strict=True))
    assert facts["over_epochs"][0][:2] == pytest.approx([1, 100 * same / len(ghosts)], abs=1e-3)


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"PK" + data[50:]]
)
def test_a_damaged_reading_is_named(work, ledger, tmp_path, damage):
    work("toy-ghosts", runs=1)
    kept = tmp_path / "runs/toy-ghosts/seed-0/ghosts-2.npz"
    kept.write_bytes(damage(kept.read_bytes()))
    with pytest.raises(HitNetError, match=r"seed-0/ghosts-2.npz cannot"):
        work("toy-ghosts")
    assert ledger.get(ANALYSIS, "toy-ghosts", (0, 1)) is None


def test_readings_must_be_of_the_ledgers_own_runs(work, ledger, tmp_path):
    work("toy-ghosts", runs=1)
    home = tmp_path / "runs/toy-ghosts"
    first = {epoch: (home / f"seed-0/ghosts-{epoch}.npz").read_bytes() for epoch in (1, 2)}
    work("toy-ghosts")
    text = ledger.path.read_text().splitlines(keepends=True)
    ledger.path.write_text("".join(line for line in text if '"seeds":[0,1]' not in line))
    second = (home / "seed-1/ghosts-2.npz").read_bytes()
    (home / "seed-1/ghosts-1.npz").write_bytes(first[1])
    with pytest.raises(HitNetError, match=r"seed-1/.*seed-0/ghosts-1"):
        work("toy-ghosts", ledger=Ledger(ledger.path))
    (home / "seed-1/ghosts-1.npz").unlink()
    (home / "seed-0/ghosts-2.npz").write_bytes(second)
    (home / "seed-1/ghosts-2.npz").write_bytes(first[2])
    with pytest.raises(HitNetError, match=r"seed-0/.* run with seed 0"):
        work("toy-ghosts", ledger=Ledger(ledger.path))


def test_pictures_of_fewer_networks_do_not_replace_those_of_more(work, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["hitnet.inference.ghosts"], "HIT_RADIUS", 10.0)
    work("toy-ghosts")
    work("toy-ghosts", runs=1)
    few, many = (ledger.get(ANALYSIS, "toy-ghosts", seeds).facts["files"] for seeds in ((0,), (0, 1)))
    assert few[0] == "images/toy-ghosts-1-doubtful-1.png"
    assert not set(few) & set(many)
    assert all((tmp_path / "pages" / file).is_file() for file in few + many)


def test_missing_pictures_are_drawn_again_from_the_ledger(work, book, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["hitnet.inference.ghosts"], "HIT_RADIUS", 10.0)
    work("toy-ghosts")
    files = [tmp_path / "pages" / file for file in ledger.get(ANALYSIS, "toy-ghosts", (0, 1)).facts["files"]]
    drawn = {file: file.read_bytes() for file in files}
    shutil.rmtree(tmp_path / "runs")
    files[0].unlink()
    before = len(ledger.entries)
    text = write_page(book, ledger, tmp_path / "pages").read_text()
    assert f"{files[0].name} is missing from this copy; `python -m reproduction toy-ghosts` draws it." in text
    _, said = work("toy-ghosts")
    assert {file: file.read_bytes() for file in files} == drawn
    assert said == [f"written: {file}" for file in files]
    assert len(ledger.entries) == before
    assert not (tmp_path / "runs").exists()
    _, said = work("toy-ghosts")  # nothing is left to do
    assert said == []


def test_pictures_are_not_drawn_of_other_images(work, book, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["hitnet.inference.ghosts"], "HIT_RADIUS", 10.0)
    work("toy-ghosts")
    (file, *_) = ledger.get(ANALYSIS, "toy-ghosts", (0, 1)).facts["files"]
    (tmp_path / "pages" / file).unlink()
    monkeypatch.setattr("hitnet.data.images.Images.fingerprint", "another")
    with pytest.raises(HitNetError, match=r"toy-ghosts .* other images"):
        work("toy-ghosts")
    assert not (tmp_path / "pages" / file).exists()


def test_estimates_include_the_readings_left(book, ledger, tmp_path):
    ghosts, costs = book.experiments["toy-ghosts"], Costs(HERE)
    runner = Runner(book, ledger, tmp_path, None, "cpu", None, None, lambda: 0.0)
    whole, short = (runner.estimate(PlannedRun(ghosts, 0), length, costs) for length in (Length(), Length(epochs=1)))
    assert whole == pytest.approx(costs.seconds(ghosts))
    assert short == pytest.approx(costs.seconds(ghosts, epochs=1, readings=0))  # short runs' ghosts are not read
    assert costs.seconds(ghosts, epochs=1, readings=1) > short


def test_ghosts_beside_the_papers(section, ledger, tmp_path):
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
    ledger.add(Entry(ANALYSIS, "mnist-ghosts-shared", tuple(range(19)), {**facts, "models": 19, "weights": ["w"] * 19}))
    ledger.add(Entry(ANALYSIS, "mnist-ghosts-shared", tuple(range(20)), facts))
    text = section("ghosts-mnist")
    standing = (
        "- mnist-ghosts-shared-250: HitNet on MNIST, ghosts, 250 epochs. Runs here: 0 of 20. The analysis needs all"
    )
    assert standing in text
    assert "experiment, epochs" not in text
    assert table_row(text, "networks")[1:] == ["20", "20", "–", "–", "–"]
    assert table_row(text, "images with one ghost class (N_c = 1)")[1:4] == ["16,859 (28 %)", "15,000 (25 %)", "–"]
    assert table_row(text, "of these, (true 3, ghost 5)")[1:] == ["2,333", "2,000", "–", "–", "–"]
    assert table_row(text, "doubtful images")[1:] == ["71", "2", "–", "–", "–"]
    assert table_row(text, "fewest hits among them")[1:] == ["11", "12", "–", "–", "–"]
    assert table_row(text, "with at least 15 hits")[1:] == ["55", "1", "–", "–", "–"]
    assert "(N_c): 1: 15,000 (25 %); 2: 45,000 (75 %)." in text
    agreed, text = text.split("Doubtful images: ")
    assert table_row(agreed, "**5**") == ["**5**", "·", "·", "·", "2000", *"······", "2000"]
    nines = ["**9**", "·", "·", "·", "0 (1)", "1 (13)", "·", "·", "0 (1)", "·", "·", "1 (15)"]
    assert table_row(text, "**9**") == nines
    assert table_row(text, "**Total**")[-1] == "2 (71)"
    assert "[All doubtful images](lists/mnist-ghosts-shared-doubtful.csv)" in text
    assert (tmp_path / "pages/lists/mnist-ghosts-shared-doubtful.csv").read_text().splitlines() == [
        "index in the training set,label,ghost class,hits,mean distance",
        "7,3,5,12,0.05",
        "9,4,9,20,0.01",
    ]
    assert (tmp_path / "pages/images/mnist-ghosts-shared-analysis.png").is_file()
    longer = {**facts, "epochs": 250, "by_epoch": [[10, 12_000, 40], [250, 15_000, 2]]}
    longer["over_epochs"] = [[10, 71.06, 99.0, 1.5, 1.25], [250, 100.0, 99.9, 0.9, 0.5]]
    assert "true class hits" not in text
    ledger.add(Entry(ANALYSIS, "mnist-ghosts-shared-250", tuple(range(20)), longer))
    text = section("ghosts-mnist")
    assert table_row(text, "doubtful images")[1:] == ["71", "2", "–", "–", "2"]
    assert table_row(text, "10")[1:] == ["71.1", "99.000", "1.500", "1.250", "83"]
    assert table_row(text, "mnist-ghosts-shared-250, 10")[1:] == ["12,000 (20 %)", "40"]
    assert "| mnist-ghosts-shared-250, 250 |" not in text  # the counts of the end stand above


def test_the_section_says_which_runs_the_analysis_waits_for(page, book, ledger):
    ghosts = book.experiments["toy-ghosts"]
    add(ledger, ghosts, 0)
    assert "Runs here: 1 of 2. The analysis needs all runs: 1 takes " in page(book)
    add(ledger, ghosts, 1, record(ghosts, weights="v"))
    assert "Runs here: 2 of 2. Not analysed yet: `python -m reproduction toy-ghosts` does it, with the ghost" in page(
        book
    )
