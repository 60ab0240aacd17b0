"""Ghosts of an experiment's runs: read on the way and at the end, brought together, analysed."""

import sys

import numpy as np
import pytest

import hitnet
from hitnet import data as datasets
from hitnet.audit import find_ghosts
from hitnet.audit.audit import collect
from hitnet.audit.scores import others
from hitnet.errors import HitNetError
from hitnet.paper import Ledger, running
from hitnet.paper.cost import Costs, device_name
from hitnet.paper.ledger import ANALYSIS
from hitnet.training.device import pick_device
from hitnet.training.evaluation import class_distances
from hitnet.training.progress import Progress
from toy_book import add

HERE = device_name(pick_device("cpu"))


def test_ghosts_are_analysed_once_all_runs_are_there(work, ledger, tmp_path):
    work("toy-ghosts", runs=1)
    work("toy-ghosts")
    facts = ledger.get(ANALYSIS, "toy-ghosts", (0, 1)).facts
    assert facts["models"] == 2
    assert sum(count for _, count in facts["agreement"]) == 48
    assert sum(map(sum, facts["pairs"])) == dict(map(tuple, facts["agreement"]))[1]
    assert [epoch for epoch, _, _ in facts["by_epoch"]] == [1, 2]
    assert facts["by_epoch"][-1][1:] == [sum(map(sum, facts["pairs"])), len(facts["doubtful"])]


def test_ghosts_are_read_on_the_way(work, book, tmp_path):
    images = datasets.load(book.experiments["toy-ghosts"].data, "train")
    seen = {}

    class Looking(Progress):
        def network(self, folder, epoch, network):
            away = others(class_distances(network, images.pixels).double().numpy(), images.labels.numpy())
            seen[folder.name, epoch] = away.min(axis=1).astype(np.float32)

    work("toy-ghosts", progress=Looking())
    assert len(seen) == 4
    for (folder, epoch), distance in seen.items():
        with np.load(tmp_path / f"runs/toy-ghosts/{folder}/ghosts-{epoch}.npz") as kept:
            assert np.array_equal(kept["distance"], distance)
    assert not np.array_equal(seen["seed-0", 1], seen["seed-0", 2])


def test_a_reading_that_is_not_there_is_made_from_the_finished_run(work, ledger, tmp_path):
    work("toy-ghosts", runs=1)
    made = tmp_path / "runs/toy-ghosts/seed-0/ghosts-2.npz"
    with np.load(made) as kept:
        ghost, distance = kept["ghost"], kept["distance"]
    made.unlink()
    work("toy-ghosts")
    with np.load(made) as kept:
        assert np.array_equal(kept["ghost"], ghost)
        assert np.allclose(kept["distance"], distance, atol=1e-5)
    assert ledger.get(ANALYSIS, "toy-ghosts", (0, 1)) is not None


def test_the_analysis_is_that_of_the_ghosts_command(work, book, ledger, tmp_path):
    work("toy-ghosts")
    images = datasets.load(book.experiments["toy-ghosts"].data, "train")
    trained = [hitnet.load(tmp_path / f"runs/toy-ghosts/seed-{seed}") for seed in (0, 1)]
    found = find_ghosts(
        collect(trained, images, pick_device("cpu"), plain=True), images.labels.numpy(), images.class_names
    )
    facts = ledger.get(ANALYSIS, "toy-ghosts", (0, 1)).facts
    assert facts["pairs"] == found.pairs(found.agreed()).iloc[:-1, :-1].to_numpy().tolist()
    assert facts["agreement"] == found.agreement()[["classes", "images"]].to_numpy().tolist()
    assert len(facts["doubtful"]) == len(found.doubtful())


def test_ghosts_that_are_elsewhere_are_named(work, book, ledger):
    add(ledger, book.experiments["toy-ghosts"], 0)
    _, said = work("toy-ghosts")
    assert "the ghosts of seeds 0 after 2 epochs are not here (ghosts-2.npz in " in said[-2]
    assert "not analysed. Copy the files" in said[-1]
    assert ledger.of(ANALYSIS) == []


def test_a_reading_on_the_way_that_is_lost_is_left_out(work, ledger, tmp_path):
    work("toy-ghosts", runs=1)
    (tmp_path / "runs/toy-ghosts/seed-0/ghosts-1.npz").unlink()
    _, said = work("toy-ghosts")
    assert any("the ghosts of seeds 0 after 1 epochs are not here" in line for line in said)
    assert [epoch for epoch, _, _ in ledger.get(ANALYSIS, "toy-ghosts", (0, 1)).facts["by_epoch"]] == [2]


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"PK" + data[50:]]
)
def test_a_damaged_reading_is_named(work, ledger, tmp_path, damage):
    work("toy-ghosts", runs=1)
    kept = tmp_path / "runs/toy-ghosts/seed-0/ghosts-2.npz"
    kept.write_bytes(damage(kept.read_bytes()))
    with pytest.raises(HitNetError, match=r"seed-0/ghosts-2.npz cannot be read: .*Bring it again"):
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
    with pytest.raises(HitNetError, match=r"seed-1/ghosts-1.npz and .*seed-0/ghosts-1.npz are of the same network"):
        work("toy-ghosts", ledger=Ledger(ledger.path))
    (home / "seed-1/ghosts-1.npz").unlink()
    (home / "seed-0/ghosts-2.npz").write_bytes(second)
    (home / "seed-1/ghosts-2.npz").write_bytes(first[2])
    with pytest.raises(HitNetError, match=r"seed-0/ghosts-2.npz is of another network .* the ledger's run with seed 0"):
        work("toy-ghosts", ledger=Ledger(ledger.path))


def test_pictures_of_fewer_networks_leave_those_of_more_alone(work, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["hitnet.audit.ghosts"], "HIT_RADIUS", 10.0)
    work("toy-ghosts")
    work("toy-ghosts", runs=1)
    few, many = (ledger.get(ANALYSIS, "toy-ghosts", seeds).facts["files"] for seeds in ((0,), (0, 1)))
    assert few[0] == "images/paper/toy-ghosts-1-doubtful-1.png"
    assert not set(few) & set(many)
    assert all((tmp_path / "docs" / file).is_file() for file in few + many)


def test_estimates_count_the_readings_that_are_ahead(book, ledger, tmp_path):
    ghosts, costs = book.experiments["toy-ghosts"], Costs(HERE)
    runner = running.Runner(book, ledger, tmp_path, None, "cpu", None, None, lambda: 0.0)
    whole, short = (
        runner.estimate(running.Job(ghosts, 0), length, costs)
        for length in (running.Length(), running.Length(epochs=1))
    )
    assert whole == pytest.approx(costs.seconds(ghosts))
    assert short == pytest.approx(costs.seconds(ghosts, epochs=1, readings=0))  # short runs' ghosts are not read
    assert costs.seconds(ghosts, epochs=1, readings=1) > short
