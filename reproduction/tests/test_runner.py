"""Runs: trained, recorded once, refused if they are others; teachers first; diverged ones not tried again."""

import shutil
from dataclasses import replace

import pytest
from toy_book import HERE, Clock, add, record

import hitnet
from hitnet import HitNetError, Progress
from hitnet.errors import DivergedError
from hitnet.runtime import Together, Training
from reproduction import Ledger, reproduce, runner
from reproduction.book import Completion, completion
from reproduction.callbacks import Guard
from reproduction.cost import Costs
from reproduction.ledger import ANALYSIS, DIVERGED, PICTURE, RUN, SHORT
from reproduction.provenance import note_origin
from reproduction.records import full_runs, short_runs

SOFT = {"head": "softmax", "decoder": "none"}


def diverging(monkeypatch, which):
    """Make the networks diverge at once for whose configuration `which` is true."""
    real = runner.train_jobs

    def train_jobs(jobs, on_end, **options):
        for job in jobs:
            if which(job.config):
                note_origin(job.folder.path, "toy")
                on_end(job, DivergedError("Training diverged in epoch 1."))
        real([job for job in jobs if not which(job.config)], on_end, **options)

    monkeypatch.setattr(runner, "train_jobs", train_jobs)


def test_complete_experiments_are_analysed_while_other_work_is_left(work, ledger, monkeypatch):
    diverging(monkeypatch, lambda config: config.augment_from is not None)
    assert work("all")[0].failed == ["toy-hybrid, seed 0: Training diverged in epoch 1."]
    assert len(ledger.select(PICTURE)) == len(ledger.select(ANALYSIS)) == 1


def test_a_diverged_run_does_not_stop_the_others(work, ledger, monkeypatch):
    diverging(monkeypatch, lambda config: config.seed == 0)
    outcome, _ = work("toy", runs=2)
    assert outcome.done == ["toy, seed 1"]
    assert outcome.failed == ["toy, seed 0: Training diverged in epoch 1."]
    assert [line.seeds for line in ledger.select(RUN)] == [(1,)]
    (failure,) = ledger.select(DIVERGED)
    assert (failure.seeds, failure.facts["why"]) == ((0,), "Training diverged in epoch 1.")
    assert {"device", "torch", "code", "date", "recipe"} <= set(failure.facts)


def test_a_diverged_run_is_recorded_and_not_tried_again(work, book, ledger, monkeypatch, trained):
    diverging(monkeypatch, lambda config: config.seed == 0)
    work("toy-ghosts", runs=2)
    assert [line.seeds for line in ledger.select(ANALYSIS)] == [(1,)]  # only of the finished run
    outcome, _ = work("toy-ghosts", runs=2)
    assert (outcome.done, outcome.left, outcome.failed) == ([], [], [])
    assert trained == [[], [("toy-ghosts", 1)]]
    assert completion(book, "toy-ghosts", ledger, Costs(HERE)) == Completion(2, 2, 0.0)


def test_a_diverged_short_run_does_not_count_as_a_diverged_full_run(work, ledger, monkeypatch):
    diverging(monkeypatch, lambda config: True)
    assert work("toy", runs=1, epochs=1)[0].failed == [
        "toy, seed 0 (short: 1 epochs, 48 images): Training diverged in epoch 1."
    ]
    assert ledger.select(DIVERGED) == []


def test_a_teacher_that_diverged_is_not_tried_again_and_teaches_nobody(work, ledger, monkeypatch, trained):
    diverging(monkeypatch, lambda config: config.seed == 0)
    work("toy", runs=1)
    for name in ("toy-hybrid", "toy-picture"):
        outcome, said = work(name)
        assert outcome.done == outcome.failed == []
    assert trained == [[]]
    assert said == []
    outcome, said = work("toy-hybrid")
    assert outcome.left == ["toy-hybrid, seed 0"]
    assert said == ["toy-hybrid, seed 0: not made: its teacher, toy with seed 0, diverged"]
    assert ledger.select(RUN) == []


def test_a_teacher_comes_first(work, book, ledger):
    outcome, _ = work("toy-hybrid")
    assert outcome.done == ["toy, seed 0", "toy-hybrid, seed 0"]
    pupil = full_runs(ledger, book.experiments["toy-hybrid"])[0]
    assert pupil.teacher == full_runs(ledger, book.experiments["toy"])[0].weights


def test_a_teacher_without_a_run_folder_is_trained_again_and_not_recorded_twice(work, ledger, tmp_path):
    work("toy", runs=1)
    before = ledger.path.read_text()
    shutil.rmtree(tmp_path / "runs")
    outcome, _ = work("toy-hybrid")
    assert outcome.done == ["toy, seed 0", "toy-hybrid, seed 0"]
    assert ledger.path.read_text().startswith(before)
    assert [line.experiment for line in ledger.select(RUN)] == ["toy", "toy-hybrid"]


def test_a_pupil_waits_for_a_teacher_that_does_not_fit(work):
    outcome, said = work("toy-hybrid", budget=1e-6, clock=Clock())
    assert outcome.left == ["toy, seed 0", "toy-hybrid, seed 0"]
    assert "waits for its teacher" in said[1]


@pytest.mark.parametrize("name", ["toy-hybrid", "toy-picture"])
def test_weights_of_another_training_are_refused(work, book, ledger, tmp_path, name):
    hitnet.train(
        book.experiments["toy"].data,
        model="hitnet-small",
        recipe=hitnet.choose_recipe(epochs=1),
        out=tmp_path / "runs/toy/seed-0",
        device="cpu",
    )
    with pytest.raises(HitNetError, match=r"recipe\.epochs was 1, now 2"):
        work(name)
    assert ledger.select(RUN) == ledger.select(PICTURE) == []


def test_a_teacher_shorter_than_its_pupil_is_trained_in_full(book, ledger, tmp_path):
    toy, hybrid = book.experiments["toy"], book.experiments["toy-hybrid"]
    pupil = replace(hybrid, options={**hybrid.options, "epochs": 4})
    small = replace(book, experiments={"toy": toy, "toy-hybrid": pupil}, results={})
    options = {"book": small, "ledger": ledger, "folder": tmp_path, "runs_dir": tmp_path / "runs", "device": "cpu"}
    outcome = reproduce("toy-hybrid", epochs=3, **options)
    assert outcome.done == ["toy, seed 0", "toy-hybrid, seed 0 (short: 3 epochs, 48 images)"]
    assert sorted(full_runs(ledger, toy)) == [0]
    assert [run.epochs for _, run in short_runs(ledger, pupil)] == [3]


def test_model_options_reach_the_network_and_the_ledger(book, ledger, tmp_path):
    soft = replace(book.experiments["toy"], name="toy-soft", model_options=SOFT)
    small = replace(book, experiments={"toy-soft": soft}, results={})
    reproduce("toy-soft", book=small, ledger=ledger, folder=tmp_path, runs=1, runs_dir=tmp_path / "runs", device="cpu")
    run = full_runs(ledger, soft)[0]
    assert run.model_options == {**soft.full_options, **SOFT}
    assert hitnet.open_run(tmp_path / "runs/toy-soft/seed-0").model.config.head == "softmax"
    with pytest.raises(HitNetError, match="it is hitnet-small with"):
        full_runs(ledger, replace(soft, model_options={}))


def test_a_teacher_with_options_is_trained_first(book, ledger, tmp_path):
    teacher = replace(book.experiments["toy"], name="teacher", wanted=1, model_options={"decoder": "conv"})
    pupil = replace(book.experiments["toy-hybrid"], name="pupil", teacher="teacher")
    small = replace(book, experiments={"teacher": teacher, "pupil": pupil}, results={})
    outcome = reproduce("pupil", book=small, ledger=ledger, folder=tmp_path, runs_dir=tmp_path / "runs", device="cpu")
    assert outcome.done == ["teacher, seed 0", "pupil, seed 0"]
    assert full_runs(ledger, pupil)[0].teacher == full_runs(ledger, teacher)[0].weights
    assert hitnet.open_run(tmp_path / "runs/pupil/seed-0").model.config.decoder == "standardised"


def test_a_finished_run_that_was_not_recorded_is_recorded(work, book, ledger):
    work("toy", runs=1)
    before = full_runs(ledger, book.experiments["toy"])[0]
    ledger.path.unlink()
    ledger.read()
    work("toy", runs=1)
    assert full_runs(ledger, book.experiments["toy"])[0] == before


def test_a_run_folder_that_holds_another_run_is_not_counted(work, ledger, tmp_path):
    work("toy", runs=1)
    shutil.copytree(tmp_path / "runs/toy/seed-0", tmp_path / "runs/toy/seed-1")
    with pytest.raises(HitNetError, match=r"seed-1 .*: seed was 0, now 1"):
        work("toy", runs=2)
    assert [line.seeds for line in ledger.select(RUN)] == [(0,)]


def test_a_run_that_does_not_say_where_it_was_trained_is_not_recorded(work, ledger, tmp_path):
    work("toy", runs=1)
    ledger.path.unlink()
    ledger.read()
    (tmp_path / "runs/toy/seed-0/origin.json").unlink()
    with pytest.raises(HitNetError, match=r"seed-0 has no origin\.json"):
        work("toy", runs=1)
    assert ledger.entries == {}


def test_a_run_that_another_process_recorded_meanwhile_is_kept(work, book, ledger):
    class Another(Progress):
        def epoch(self, training):
            other = Ledger(ledger.path)
            if training.history[-1]["epoch"] == 2 and not other.entries:
                add(other, book.experiments["toy"], 0)

    outcome, _ = work("toy", runs=2, progress=Another())
    assert outcome.done == ["toy, seed 0", "toy, seed 1"]
    assert full_runs(ledger, book.experiments["toy"])[0].weights == "w"
    assert len(ledger.path.read_text().splitlines()) == 2


def test_a_guard_that_stopped_stays_stopped():
    def after(seconds):
        return Training(None, [{"epoch": 1, "seconds": seconds}], None, 0, None)

    clock, inner = Clock(), Progress()
    guard = Together([inner, Guard(clock.now + 10, clock)])
    guard.epoch(after(11.0))
    assert guard.stop
    guard.epoch(after(1.0))
    assert guard.stop
    other = Together([inner, Guard(None, clock)])
    other.epoch(after(1.0))
    assert not other.stop
    inner.stop = True
    other.epoch(after(1.0))
    assert other.stop


def test_runs_on_another_test_set_are_refused_before_training(work, book, ledger, tmp_path):
    toy = book.experiments["toy"]
    add(ledger, toy, 0, record(toy, tested_on="toy (rebuilt)"))
    with pytest.raises(HitNetError, match=r"\(rebuilt\).* `ledger`"):
        work("toy")
    assert not list(tmp_path.glob("runs/**/*.safetensors"))
    add(ledger, toy, 1)
    with pytest.raises(HitNetError, match=r"toy and toy \(rebuilt\)"):
        full_runs(ledger, toy)


def test_data_that_are_not_whole_cannot_be_counted(book, ledger):
    larger = replace(book.experiments["toy"], images=49)
    with pytest.raises(HitNetError, match=r"48 of 49 .* 12 of 12"):
        reproduce(
            "toy",
            book=replace(book, experiments={"toy": larger}, results={}),
            ledger=ledger,
            folder=".",
            runs=1,
            runs_dir=ledger.path.parent / "more",
            device="cpu",
        )
    assert ledger.select(RUN) == ledger.select(SHORT) == []
    assert not [path for path in ledger.path.parent.glob("more/**/*") if path.is_file()]  # nothing was trained in vain


def test_errors_each_epoch_on_fewer_images_and_at_the_end_on_all(book, ledger, tmp_path):
    fewer = replace(book.experiments["toy"], each_epoch=5)
    small = replace(book, experiments={"toy": fewer}, results={})
    reproduce("toy", book=small, ledger=ledger, folder=tmp_path, runs=1, runs_dir=tmp_path / "runs", device="cpu")
    run = full_runs(ledger, fewer)[0]
    assert (run.tested, run.final_tested) == (5, 12)
    assert run.error == pytest.approx(100 * hitnet.evaluate(tmp_path / "runs/toy/seed-0", device="cpu").error)


@pytest.mark.parametrize(("limit", "each_epoch", "tested"), [(8, 5, (5, 8)), (4, 5, (4, 4)), (32, None, (12, 12))])
def test_a_limited_run_is_tested_on_no_more_images_than_it_learns_from(
    book, ledger, tmp_path, limit, each_epoch, tested
):
    toy = replace(book.experiments["toy"], each_epoch=each_epoch)
    small = replace(book, experiments={"toy": toy}, results={})
    reproduce("toy", book=small, ledger=ledger, folder=tmp_path, runs=1, limit=limit, runs_dir=tmp_path, device="cpu")
    ((_, run),) = short_runs(ledger, toy)
    assert (run.tested, run.final_tested) == tested
