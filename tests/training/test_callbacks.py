"""Callbacks hear of every epoch of every network, and curves for TensorBoard hold each epoch once."""

import sys

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from typer.testing import CliRunner

import hitnet
from hitnet import HitNetError, Progress, TensorBoard, choose_recipe
from hitnet.cli import app
from hitnet.data import save_npz
from hitnet.training import engine
from hitnet.training.tensorboard import CURVES
from toy import Interrupting, Stop

SMALL = {"model": "hitnet-small", "device": "cpu", "recipe": choose_recipe(epochs=4, batch_size=32)}


class Diary(Progress):
    """Notes what it is told."""

    def __init__(self):
        self.notes = []

    def start(self, training):
        self.notes.append(("start", training.seed, len(training.history)))

    def epoch(self, training):
        self.notes.append(("epoch", training.seed, training.history[-1]["epoch"]))
        self.network, self.folder = training.network, training.folder

    def end(self, training):
        self.notes.append(("end", training.seed, len(training.history)))


def curves(folder):
    """The epochs and values of each curve, as TensorBoard reads them."""
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def column(run, name):
    return [(row["epoch"], pytest.approx(row[name], rel=1e-6)) for row in run.history]


def interrupt(data, folder, *callbacks):
    """Train two epochs of three steps, and a step more."""
    with pytest.raises(Stop):
        hitnet.train(data, out=folder, progress=Interrupting(7), callbacks=callbacks, **SMALL)


def test_a_callback_hears_of_every_epoch(toy, tmp_path):
    diary = Diary()
    run = hitnet.train(toy, out=tmp_path / "run", callbacks=[diary], **SMALL)
    assert diary.notes == [("start", 0, 0), *(("epoch", 0, epoch) for epoch in (1, 2, 3, 4)), ("end", 0, 4)]
    assert diary.network is run.model
    assert diary.folder == tmp_path / "run"


def test_one_callback_hears_of_all_networks(toy):
    diary = Diary()
    hitnet.train_many(toy, seeds=[3, 5], callbacks=[diary], **SMALL)
    ends = [note for note in diary.notes if note[0] != "epoch"]
    assert ends == [("start", 3, 0), ("end", 3, 4), ("start", 5, 0), ("end", 5, 4)]


def test_an_interruption_ends_a_callback_and_resuming_starts_it(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    diary = Diary()
    interrupt(toy, tmp_path / "run", diary)
    assert diary.notes == [("start", 0, 0), ("epoch", 0, 1), ("epoch", 0, 2), ("end", 0, 2)]
    diary.notes.clear()
    hitnet.train(toy, out=tmp_path / "run", resume=True, callbacks=[diary], **SMALL)
    assert diary.notes == [("start", 0, 2), ("epoch", 0, 3), ("epoch", 0, 4), ("end", 0, 4)]


def test_curves_are_the_history_and_change_nothing(toy, tmp_path):
    data = hitnet.open_data(toy, test=toy.first(20))
    plain = hitnet.train(data, **SMALL)
    run = hitnet.train(data, out=tmp_path / "run", callbacks=[TensorBoard()], **SMALL)
    assert all(torch.equal(a, b) for a, b in zip(plain.model.parameters(), run.model.parameters(), strict=True))
    drawn = curves(run.folder)
    assert drawn["error/test"] == column(run, "test_error")
    assert drawn["loss/total"] == column(run, "loss")
    assert set(drawn) == set(CURVES.values())


def test_epochs_that_are_trained_again_are_not_doubled(toy, tmp_path):
    interrupt(toy, tmp_path / "run", TensorBoard())  # without a checkpoint
    assert [epoch for epoch, _ in curves(tmp_path / "run")["loss/total"]] == [1, 2]
    run = hitnet.train(toy, out=tmp_path / "run", resume=True, callbacks=[TensorBoard()], **SMALL)
    assert curves(run.folder)["loss/total"] == column(run, "loss")


def test_resumed_curves_begin_where_training_began(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    interrupt(toy, tmp_path / "run")  # without TensorBoard
    run = hitnet.train(toy, out=tmp_path / "run", resume=True, callbacks=[TensorBoard()], **SMALL)
    assert curves(run.folder)["loss/total"] == column(run, "loss")


def test_many_networks_have_curves_of_their_own(toy, tmp_path):
    runs = hitnet.train_many(toy, seeds=2, out=tmp_path, callbacks=[TensorBoard()], **SMALL)
    assert [curves(run.folder)["loss/total"] for run in runs] == [column(run, "loss") for run in runs]


def test_curves_need_a_run_folder_and_the_package(toy, monkeypatch):
    with pytest.raises(HitNetError, match=r"TensorBoard needs .* `out`"):
        hitnet.train(toy, callbacks=[TensorBoard()], **SMALL)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(HitNetError, match="pip install tensorboard"):
        TensorBoard()


def test_the_command_writes_curves_if_asked_to(toy, tmp_path):
    save_npz(toy, tmp_path / "toy.npz")
    command = ["train", str(tmp_path / "toy.npz"), "--device", "cpu", "--epochs", "1", "--out"]
    for name, options in (("plain", []), ("drawn", ["--tensorboard"])):
        result = CliRunner().invoke(app, [*command, str(tmp_path / name), *options])
        assert result.exit_code == 0, result.output
    assert not (tmp_path / "plain" / "tensorboard").exists()
    assert [epoch for epoch, _ in curves(tmp_path / "drawn")["error/train"]] == [1]
