"""Making the missing runs: which, within which budget, after which interruption, and what the ledger gets."""

import fcntl
import shutil
from dataclasses import replace

import pytest
from toy_book import HERE, Clock, add, record

import hitnet
from hitnet import HitNetError, Progress
from hitnet.training import RunFolder
from reproduction import Ledger, reproduce, runner
from reproduction.cost import Costs
from reproduction.ledger import ANALYSIS, PICTURE, RUN
from reproduction.records import full_runs, short_runs


def test_missing_runs_are_made_and_recorded(work, book, ledger, tmp_path):
    toy = book.experiments["toy"]
    add(ledger, toy, 1)  # made elsewhere
    outcome, _ = work("toy-table")
    assert outcome.done == ["toy, seed 0", "toy, seed 2"]
    runs = full_runs(Ledger(ledger.path), toy)
    assert sorted(runs) == [0, 1, 2]
    assert not (tmp_path / "runs/toy/seed-1").exists()
    run = hitnet.open_run(tmp_path / "runs/toy/seed-2")
    assert runs[2].error == pytest.approx(100 * run.history[-1]["test_error"])
    assert runs[2].errors == pytest.approx([100 * row["test_error"] for row in run.history])
    assert (runs[2].device, runs[2].images, runs[2].epochs) == (HERE, 48, 2)
    assert runs[2].code.startswith(hitnet.__version__)
    assert work("toy-table")[0].done == []


def test_more_runs_on_demand(work, book, ledger):
    work("toy", runs=1)
    assert sorted(full_runs(ledger, book.experiments["toy"])) == [0]
    work("toy", runs=2)
    assert sorted(full_runs(ledger, book.experiments["toy"])) == [0, 1]


@pytest.mark.parametrize("options", [{"epochs": 1}, {"limit": 32}, {"epochs": 1, "limit": 32}])
def test_short_runs_never_count(work, book, ledger, options):
    toy = book.experiments["toy"]
    work("toy", runs=1, **options)
    _, said = work("toy-picture", "toy-ghosts", **options)
    assert said.count("toy-picture: not drawn: its run is a short one") == 1
    assert full_runs(ledger, toy) == {}
    assert ledger.select(PICTURE) == ledger.select(ANALYSIS) == []
    ((entry, short),) = short_runs(ledger, toy)
    assert entry.label == f"{options.get('epochs', 2)} epochs, {options.get('limit', 48)} images"
    assert short.epochs == options.get("epochs", 2)
    assert work("toy", runs=1, **options)[0].done == []  # recorded once
    work("toy", runs=1)  # and the full run is still to be made
    assert len(full_runs(ledger, toy)) == 1


def test_a_run_of_the_full_length_is_not_a_short_run(work, book, ledger):
    work("toy-picture", "toy-ghosts", epochs=2, limit=1000)
    assert len(full_runs(ledger, book.experiments["toy"])) == 1
    assert len(ledger.select(PICTURE)) == len(ledger.select(ANALYSIS)) == 1


def test_a_run_cannot_be_made_longer(work, ledger):
    for name in ("toy", "toy-picture"):
        with pytest.raises(HitNetError, match=r"`epochs` .*; got 3"):
            work(name, epochs=3)
    assert ledger.entries == {}


def test_a_run_that_would_not_fit_is_not_started(work, book, ledger, tmp_path):
    # Measured here: 2 epochs of 100 s.
    add(ledger, book.experiments["toy"], 0, record(book.experiments["toy"], device=HERE, epoch_seconds=100.0))
    outcome, said = work("toy", budget=3, clock=Clock())
    assert outcome.left == ["toy, seed 1", "toy, seed 2"]
    assert "not started: it would end in 3 min" in said[0]
    assert not (tmp_path / "runs").exists()
    outcome, _ = work("toy", budget=4, clock=Clock())
    assert outcome.done[0] == "toy, seed 1"


def test_the_known_speed_is_used_until_one_is_measured(work, book):
    known = Costs(HERE).seconds(book.experiments["toy"])
    outcome, _ = work("toy", runs=1, budget=0.9 * known / 60, clock=Clock())
    assert (outcome.begun, outcome.left) == (False, ["toy, seed 0"])
    assert work("toy", runs=1, budget=1.1 * known / 60, clock=Clock())[0].begun


class Steps(Progress):
    """Counts steps; each epoch takes the next of `seconds` on a clock."""

    def __init__(self, clock=None, seconds=()):
        self.steps, self.clock, self.seconds = 0, clock, list(seconds)

    def step(self):
        self.steps += 1

    def epoch(self, training):
        if self.seconds:
            self.clock.now += self.seconds.pop(0)


def test_a_run_stops_inside_the_budget_and_resumes(work, book, ledger, tmp_path):
    clock = Clock()
    # The estimate says that it fits, but the first epoch takes the whole budget.
    outcome, said = work("toy", runs=1, budget=1, clock=clock, progress=Steps(clock, [59.999]))
    assert outcome.left == ["toy, seed 0"]
    assert "toy, seed 0: stopped after epoch 1, the budget is spent" in said[0]
    assert ledger.entries == {}
    assert RunFolder(tmp_path / "runs/toy/seed-0").position() == (1, 0)
    counted = Steps()
    assert work("toy", runs=1, progress=counted)[0].done == ["toy, seed 0"]
    assert counted.steps == 2  # 48 images in batches of 32: only the second epoch
    assert full_runs(ledger, book.experiments["toy"])[0].epochs == 2


def test_an_interrupted_run_ends_with_the_same_weights(work, book, ledger, tmp_path, monkeypatch):
    monkeypatch.setattr("hitnet.training.engine.CHECKPOINT_SECONDS", -1.0)

    class Interrupt(Progress):
        steps = 0

        def step(self):
            self.steps += 1
            if self.steps == 3:  # in the second epoch
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work("toy", runs=1, progress=Interrupt())
    assert ledger.entries == {}
    work("toy", runs=1)
    whole = Ledger(tmp_path / "other.jsonl")
    reproduce("toy", book=book, ledger=whole, folder=tmp_path, runs=1, runs_dir=tmp_path / "others", device="cpu")
    toy = book.experiments["toy"]
    assert full_runs(ledger, toy)[0].weights == full_runs(whole, toy)[0].weights


def test_a_ledger_that_cannot_be_written_is_reported_before_training(work, tmp_path):
    (tmp_path / "file").touch()
    for place, why in ((tmp_path / "file/ledger.jsonl", "is not a folder"), (tmp_path, "it is not a file")):
        ledger = Ledger(tmp_path / "none.jsonl")
        ledger.path = place
        with pytest.raises(HitNetError, match=f"Cannot write the ledger .*{why}"):
            work("toy", ledger=ledger)
    assert not (tmp_path / "runs").exists()


def test_everything(work, ledger):
    outcome, _ = work("all")
    assert outcome.done[0] == "toy, seed 0"  # the teacher, which the picture is drawn from too
    assert len(outcome.done) == 3 + 1 + 2
    assert len(ledger.select(RUN)) == 6
    assert len(ledger.select(PICTURE)) == len(ledger.select(ANALYSIS)) == 1


def test_networks_are_trained_side_by_side_as_far_as_the_budget_goes(work, book, ledger, monkeypatch, trained):
    monkeypatch.setitem(runner.AT_ONCE, "cpu", 2)
    toy = book.experiments["toy"]
    add(ledger, toy, 0, record(toy, device=HERE, epoch_seconds=10.0))
    outcome, _ = work("toy", budget=0.5, clock=Clock())  # 30 s, 20 s a run
    assert (trained, outcome.left) == ([[("toy", 1)]], ["toy, seed 2"])
    work("toy", runs=7)
    assert trained[1:] == [[("toy", 2)], [("toy", 3), ("toy", 4)], [("toy", 5), ("toy", 6)]]
    runs = full_runs(ledger, toy)
    assert [runs[seed].beside for seed in range(7)] == [1, 1, 1, 2, 2, 2, 2]


def test_experiments_that_cost_about_the_same_are_trained_side_by_side(work, book, ledger, monkeypatch, trained):
    work("toy", runs=1)
    before = {seed: run.weights for seed, run in full_runs(ledger, book.experiments["toy"]).items()}
    shutil.rmtree(ledger.path.parent / "runs")
    ledger.path.unlink()
    ledger.read()
    monkeypatch.setitem(runner.AT_ONCE, "cpu", 8)
    outcome, _ = work("all")
    teacher, *others = trained[1:]
    assert teacher == [("toy", 0)]
    assert others == [[("toy-hybrid", 0)], [("toy", 1), ("toy", 2), ("toy-ghosts", 0), ("toy-ghosts", 1)]]
    assert len(outcome.done) == 6
    assert full_runs(ledger, book.experiments["toy"])[0].weights == before[0]
    assert {run.beside for run in full_runs(ledger, book.experiments["toy-ghosts"]).values()} == {4}


def test_what_has_ended_is_recorded_and_the_others_are_kept_when_the_budget_ends(book, ledger, monkeypatch):
    monkeypatch.setitem(runner.AT_ONCE, "cpu", 3)
    toy = replace(book.experiments["toy"], wanted=1)
    longer = replace(toy, name="longer", wanted=2, options={**toy.options, "epochs": 4})
    small = replace(book, experiments={"toy": toy, "longer": longer}, results={})
    clock, said = Clock(), []
    options = {"book": small, "ledger": ledger, "folder": ".", "runs_dir": ledger.path.parent / "runs", "device": "cpu"}
    # Two epochs of each, then the third of the longer ones.
    steps = Steps(clock, [0.1] * 6 + [100.0])
    outcome = reproduce("all", budget=1, clock=clock, progress=steps, report=said.append, **options)
    assert (outcome.done, outcome.left) == (["toy, seed 0"], ["longer, seed 0", "longer, seed 1"])
    assert [text.split(",")[1] for text in said[1:]] == [
        " seed 0: stopped after epoch 3",
        " seed 1: stopped after epoch 3",
    ]
    counted = Steps()
    assert reproduce("all", progress=counted, **options).done == ["longer, seed 0", "longer, seed 1"]
    assert counted.steps == 4


def test_as_many_side_by_side_as_asked_for(work, trained):
    work("toy", side_by_side=3)
    assert trained == [[("toy", 0), ("toy", 1), ("toy", 2)]]


def test_finished_runs_that_are_only_recorded_do_not_fill_the_device(work, book, ledger, tmp_path, monkeypatch):
    """The estimate of a single run left is that of a single network, however many are only recorded beside it."""
    work("toy", runs=3)
    ledger.path.unlink()
    ledger.read()
    shutil.rmtree(tmp_path / "runs/toy/seed-2")
    asked = []
    monkeypatch.setattr(Costs, "fullness", lambda self, experiment, beside: asked.append(beside) or 1.0)
    work("toy", runs=3, budget=100, clock=Clock(), side_by_side=3)
    assert set(asked) == {1}


def test_a_run_too_long_does_not_keep_others_from_the_budget(work, book, ledger, tmp_path):
    toy = book.experiments["toy"]
    work("toy", runs=2)
    before = full_runs(ledger, toy)
    ledger.path.unlink()
    ledger.read()
    shutil.rmtree(tmp_path / "runs/toy/seed-0")
    # Seed 0 would not fit; seed 1 is finished and only to be recorded.
    outcome, _ = work("toy", runs=2, budget=1e-9, clock=Clock())
    assert (outcome.done, outcome.left) == (["toy, seed 1"], ["toy, seed 0"])
    assert full_runs(ledger, toy)[1] == before[1]


@pytest.mark.parametrize("option", ["runs", "epochs", "limit", "budget", "side_by_side"])
def test_numbers_must_be_above_zero(work, option):
    with pytest.raises(HitNetError, match=f"`{option}` must be above 0"):
        work("toy", **{option: 0})


def test_several_names(work, ledger):
    outcome, _ = work("toy-picture", "toy-ghosts", "toy-ghost-page", runs=1)
    assert outcome.done == ["toy, seed 0", "toy-ghosts, seed 0"]
    assert len(ledger.select(PICTURE)) == len(ledger.select(ANALYSIS)) == 1


def test_an_unknown_name_is_answered_with_the_nearest(work):
    with pytest.raises(HitNetError, match="Did you mean 'toy-table'"):
        work("toy-tabel")


def test_processes_share_the_work(work, book, ledger, tmp_path):
    claimed = tmp_path / "runs/toy/seed-1/.training"
    claimed.parent.mkdir(parents=True)
    with claimed.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        outcome, said = work("toy-table")
    assert (outcome.done, outcome.left) == (["toy, seed 0", "toy, seed 2"], ["toy, seed 1"])
    assert "toy, seed 1: another process is training it" in said
    assert not list(tmp_path.glob("runs/toy/seed-[02]/.training"))
    assert work("toy-table")[0].done == ["toy, seed 1"]
