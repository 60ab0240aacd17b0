"""Networks of several experiments, trained side by side: each as if alone, resumed, reported as soon as it ends."""

import re

import pytest
import torch

import hitnet
from hitnet import HitNetError, Progress, choose_model, choose_recipe, open_data
from hitnet.errors import DivergedError
from hitnet.training import RunFolder, seed_jobs, train_jobs
from toy import toy_images

SMALL = choose_model("hitnet-small", capsule_dim=4)
RECIPE = choose_recipe(epochs=2, batch_size=32)


CPU = torch.device("cpu")


def plan(folder, images, seeds, **options):
    options = {"model": SMALL, "recipe": RECIPE, "device": CPU} | options
    return seed_jobs(open_data(images), images, images, seeds=seeds, out=folder, **options)


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
    jobs = [
        *plan(tmp_path / "a", toy, [3, 1]),
        *plan(tmp_path / "b", other, [2], recipe=choose_recipe(epochs=3, batch_size=16)),
    ]
    ended, watching = [], Watching()
    train_jobs(jobs, lambda *told: ended.append(told), device=CPU, at_once=at_once, progress=watching)
    assert {job for job, _ in ended} == {*jobs}
    for job, run in ended:
        options = {"model": SMALL, "recipe": job.config.recipe, "seed": job.config.seed, "device": "cpu"}
        assert same(run, hitnet.train(open_data(job.images, test=job.images), **options))
        assert run.folder == job.folder.path
        assert same(run, hitnet.open_run(run.folder))
    assert sorted(watching.started) == ["seed-1", "seed-2", "seed-3"]
    assert [row for row in watching.epochs if row[:2] == ("b", 2)] == [("b", 2, epoch) for epoch in (1, 2, 3)]


def test_what_is_finished_is_opened_and_what_was_stopped_is_resumed(toy, tmp_path):
    class Stop(Progress):
        def epoch(self, training):
            self.stop = True

    ended = []
    train_jobs(plan(tmp_path, toy, [0]), lambda *told: ended.append(told), device=CPU)
    both = plan(tmp_path, toy, [0, 1])
    train_jobs(both, lambda *told: ended.append(told), device=CPU, progress=Stop())
    assert [job.config.seed for job, _ in ended] == [0, 0]  # not for the network that was stopped
    assert same(ended[0][1], ended[1][1])
    assert RunFolder(tmp_path / "seed-1").position() == (1, 0)
    train_jobs(both, lambda *told: ended.append(told), device=CPU)
    assert [job for job, _ in ended[2:]] == both
    assert same(ended[-1][1], hitnet.train(open_data(toy, test=toy), model=SMALL, recipe=RECIPE, seed=1, device="cpu"))


def test_a_network_that_diverges_does_not_stop_the_others(toy, tmp_path):
    (wild,) = plan(tmp_path / "wild", toy, [0], recipe=choose_recipe(epochs=3, optimizer="sgd", learning_rate=1e30))
    (calm,) = plan(tmp_path / "calm", toy, [0])
    ended = {}
    train_jobs([wild, calm], ended.__setitem__, device=CPU)
    assert isinstance(ended[wild], DivergedError)
    assert len(ended[calm].history) == 2


def test_a_folder_with_another_run_is_refused_and_nothing_stays_claimed(toy, tmp_path):
    hitnet.train(toy, model=SMALL, recipe=choose_recipe(epochs=1), device="cpu", out=tmp_path / "seed-4")
    with pytest.raises(HitNetError, match=re.escape(f"{tmp_path / 'seed-4'} holds another run")):
        train_jobs(plan(tmp_path, toy, [3, 4]), lambda *_: None, device=CPU)
    assert RunFolder(tmp_path / "seed-3").claim()
