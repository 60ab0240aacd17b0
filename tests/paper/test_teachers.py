"""Networks whose weights are needed for more than their own row: teachers, and those that pictures are drawn from."""

import shutil
from dataclasses import replace

import pytest

import hitnet
from hitnet.errors import HitNetError
from hitnet.paper import reproduce
from hitnet.paper.ledger import PICTURE, RUN
from hitnet.paper.records import full_runs, short_runs
from toy_book import Clock


def test_a_teacher_comes_first(work, book, ledger):
    outcome, _ = work("toy-hybrid")
    assert outcome.done == ["toy, seed 0", "toy-hybrid, seed 0"]
    pupil = full_runs(ledger, book.experiments["toy-hybrid"])[0]
    assert pupil.teacher == full_runs(ledger, book.experiments["toy"])[0].weights


def test_a_teacher_in_the_ledger_alone_is_trained_again_and_not_recorded_twice(work, ledger, tmp_path):
    work("toy", runs=1)
    before = ledger.path.read_text()
    shutil.rmtree(tmp_path / "runs")
    outcome, _ = work("toy-hybrid")
    assert outcome.done == ["toy, seed 0", "toy-hybrid, seed 0"]
    assert ledger.path.read_text().startswith(before)
    assert [one.experiment for one in ledger.of(RUN)] == ["toy", "toy-hybrid"]


def test_a_pupil_waits_for_a_teacher_that_does_not_fit(work):
    outcome, said = work("toy-hybrid", budget=1e-6, clock=Clock())
    assert outcome.left == ["toy, seed 0", "toy-hybrid, seed 0"]
    assert "waits for its teacher" in said[1]


@pytest.mark.parametrize("name", ["toy-hybrid", "toy-picture"])
def test_weights_of_another_training_are_refused(work, book, ledger, tmp_path, name):
    hitnet.train(
        book.experiments["toy"].data, model="hitnet-small", epochs=1, out=tmp_path / "runs/toy/seed-0", device="cpu"
    )
    with pytest.raises(HitNetError, match=r"seed-0 holds another run, .*recipe\.epochs was 1, now 2"):
        work(name)
    assert ledger.of(RUN) == ledger.of(PICTURE) == []


def test_a_teacher_shorter_than_its_pupil_is_trained_whole(book, ledger, tmp_path):
    toy, hybrid = book.experiments["toy"], book.experiments["toy-hybrid"]
    pupil = replace(hybrid, options={**hybrid.options, "epochs": 4})
    small = replace(book, experiments={"toy": toy, "toy-hybrid": pupil}, results={})
    options = {"book": small, "ledger": ledger, "docs": tmp_path, "runs_dir": tmp_path / "runs", "device": "cpu"}
    outcome = reproduce("toy-hybrid", epochs=3, **options)
    assert outcome.done == ["toy, seed 0", "toy-hybrid, seed 0 (short: 3 epochs, 48 images)"]
    assert sorted(full_runs(ledger, toy)) == [0]
    assert [made.epochs for _, made in short_runs(ledger, pupil)] == [3]
