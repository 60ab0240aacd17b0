"""Runs that diverge: told, recorded, and not tried again."""

from dataclasses import replace

from hitnet.errors import DivergedError
from hitnet.paper import running
from hitnet.paper.book import Standing, standing
from hitnet.paper.cost import Costs, device_name
from hitnet.paper.ledger import ANALYSIS, DIVERGED, PICTURE, RUN
from hitnet.training.device import pick_device

HERE = device_name(pick_device("cpu"))


def diverging(monkeypatch, which):
    """Let those networks diverge at once of whose lot and task `which` is true."""
    real = running.train_lots

    def train_lots(lots, tell, **options):
        well = []
        for lot in lots:
            for task in lot.tasks:
                if which(lot, task):
                    tell(task, DivergedError("Training diverged in epoch 1."))
            well.append(replace(lot, tasks=[task for task in lot.tasks if not which(lot, task)]))
        real(well, tell, **options)

    monkeypatch.setattr(running, "train_lots", train_lots)


def test_what_is_complete_is_analysed_though_other_work_is_left(work, ledger, monkeypatch):
    diverging(monkeypatch, lambda lot, task: lot.modify is not None)
    assert work("all")[0].failed == ["toy-hybrid, seed 0: Training diverged in epoch 1."]
    assert len(ledger.of(PICTURE)) == len(ledger.of(ANALYSIS)) == 1


def test_a_diverged_run_does_not_stop_the_others(work, ledger, monkeypatch):
    diverging(monkeypatch, lambda lot, task: task.config.seed == 0)
    outcome, _ = work("toy", runs=2)
    assert outcome.done == ["toy, seed 1"]
    assert outcome.failed == ["toy, seed 0: Training diverged in epoch 1."]
    assert [one.seeds for one in ledger.of(RUN)] == [(1,)]
    (failure,) = ledger.of(DIVERGED)
    assert (failure.seeds, failure.facts["why"]) == ((0,), "Training diverged in epoch 1.")
    assert {"device", "torch", "code", "date", "recipe"} <= set(failure.facts)


def test_a_diverged_run_is_recorded_and_not_tried_again(work, book, ledger, monkeypatch, trained):
    diverging(monkeypatch, lambda lot, task: task.config.seed == 0)
    work("toy-ghosts", runs=2)
    assert [one.seeds for one in ledger.of(ANALYSIS)] == [(1,)]  # of those that are there
    outcome, _ = work("toy-ghosts", runs=2)
    assert (outcome.done, outcome.left, outcome.failed) == ([], [], [])
    assert trained == [[], [("toy-ghosts", 1)]]
    assert standing(book, "toy-ghosts", ledger, Costs(HERE)) == Standing(2, 2, 0.0)


def test_a_short_run_that_diverged_says_nothing_of_a_full_one(work, ledger, monkeypatch):
    diverging(monkeypatch, lambda lot, task: True)
    assert work("toy", runs=1, epochs=1)[0].failed == [
        "toy, seed 0 (short: 1 epochs, 48 images): Training diverged in epoch 1."
    ]
    assert ledger.of(DIVERGED) == []


def test_a_teacher_that_diverged_is_not_tried_again_and_teaches_nobody(work, ledger, monkeypatch, trained):
    diverging(monkeypatch, lambda lot, task: task.config.seed == 0)
    work("toy", runs=1)
    for name in ("toy-hybrid", "toy-picture"):
        outcome, said = work(name)
        assert outcome.done == outcome.failed == []
    assert trained == [[]]
    assert said == []
    outcome, said = work("toy-hybrid")
    assert outcome.left == ["toy-hybrid, seed 0"]
    assert said == ["toy-hybrid, seed 0: not made: its teacher, toy with seed 0, diverged"]
    assert ledger.of(RUN) == []
