"""Networks of several experiments, trained side by side: each as if alone, resumed, reported as soon as it ends."""

import re

import pytest
import torch

import hitnet
from hitnet import HitNetError, Progress, choose_model, choose_recipe, open_data
from hitnet.errors import DivergedError
from hitnet.training import RunFolder, TrainingPlan, train_plans
from toy import toy_images

SMALL = choose_model("hitnet-small", capsule_dim=4)
RECIPE = choose_recipe(epochs=2, batch_size=32)


def plan(folder, images, seeds, **options):
    return TrainingPlan(
        open_data(images), images, images, seeds, folder, **{"model": SMALL, "recipe": RECIPE} | options
    )


def same(run, other):
    a, b = run.model.state_dict(), other.model.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class Watching(Progress):
    def __init__(self):
        self.started, self.epochs = [], []

    def start(self, training):
        self.started.append(training.folder.name)

    def epoch(self, training):
        self.epochs.append((training.folder.parent.name, training.seed, len(training.history)))


@pytest.mark.parametrize("at_once", [1, 4])
def test_each_network_is_the_one_that_train_gives(toy, tmp_path, at_once):
    other = toy_images(60, seed=5)
    plans = [
        plan(tmp_path / "a", toy, [3, 1]),
        plan(tmp_path / "b", other, [2], recipe=choose_recipe(epochs=3, batch_size=16)),
    ]
    ended, watching = [], Watching()
    train_plans(plans, lambda *told: ended.append(told), device="cpu", at_once=at_once, progress=watching)
    assert sorted((each.out.name, seed) for each, seed, _ in ended) == [("a", 1), ("a", 3), ("b", 2)]
    for each, seed, run in ended:
        options = {"model": each.model, "recipe": each.recipe, "seed": seed, "device": "cpu"}
        assert same(run, hitnet.train(open_data(each.images, test=each.images), **options))
        assert run.folder == each.out / f"seed-{seed}"
        assert same(run, hitnet.open_run(run.folder))
    assert sorted(watching.started) == ["seed-1", "seed-2", "seed-3"]
    assert [row for row in watching.epochs if row[:2] == ("b", 2)] == [("b", 2, epoch) for epoch in (1, 2, 3)]


def test_what_is_finished_is_opened_and_what_was_stopped_is_resumed(toy, tmp_path):
    class Stop(Progress):
        def epoch(self, training):
            self.stop = True

    ended = []
    first = plan(tmp_path, toy, [0])
    train_plans([first], lambda *told: ended.append(told), device="cpu")
    both = plan(tmp_path, toy, [0, 1])
    train_plans([both], lambda *told: ended.append(told), device="cpu", progress=Stop())
    assert [seed for _, seed, _ in ended] == [0, 0]  # not for the network that was stopped
    assert same(ended[0][2], ended[1][2])
    assert RunFolder(tmp_path / "seed-1").position() == (1, 0)
    train_plans([both], lambda *told: ended.append(told), device="cpu")
    assert [seed for _, seed, _ in ended[2:]] == [0, 1]
    assert same(ended[-1][2], hitnet.train(open_data(toy, test=toy), model=SMALL, recipe=RECIPE, seed=1, device="cpu"))


def test_a_network_that_diverges_does_not_stop_the_others(toy, tmp_path):
    wild = plan(tmp_path / "wild", toy, [0], recipe=choose_recipe(epochs=3, optimizer="sgd", learning_rate=1e30))
    ended = {}
    train_plans(
        [wild, plan(tmp_path / "calm", toy, [0])],
        lambda each, seed, outcome: ended.update({each.out.name: outcome}),
        device="cpu",
    )
    assert isinstance(ended["wild"], DivergedError)
    assert len(ended["calm"].history) == 2


def test_a_folder_with_another_run_is_refused_and_nothing_stays_claimed(toy, tmp_path):
    hitnet.train(toy, model=SMALL, recipe=choose_recipe(epochs=1), device="cpu", out=tmp_path / "seed-4")
    mixed = plan(tmp_path, toy, [3, 4])
    for call in (
        lambda: mixed.check_folders(device="cpu"),
        lambda: train_plans([mixed], lambda *_: None, device="cpu"),
    ):
        with pytest.raises(HitNetError, match=re.escape(f"{tmp_path / 'seed-4'} holds another run")):
            call()
    assert RunFolder(tmp_path / "seed-3").claim()
    plan(tmp_path, toy, [0]).check_folders(device="cpu")  # nothing is there yet
