"""Many networks in one process: each is what it would be alone, whatever happens to the others."""

import re

import pytest
import torch

import hitnet
import own_networks  # noqa: F401
from hitnet import HitNetError, choose_model, choose_recipe, open_data
from hitnet.errors import DivergedError
from hitnet.runtime.progress import Progress
from hitnet.training import RunFolder, engine, scheduler
from toy import toy_images

TIME = re.compile("second|beside")
SMALL = {"model": choose_model("hitnet-small", capsule_dim=4), "device": "cpu"}
RANDOM = {"ghosts": 1, "ghost_probability": 0.5, "batch_size": 32}


def same(run, other):
    a, b = run.model.state_dict(), other.model.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def timeless(run):
    return [{key: value for key, value in row.items() if not TIME.search(key)} for row in run.history]


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_each_network_is_the_one_that_it_would_be_alone(toy, monkeypatch, at_once):
    """Also where steps draw random numbers and the networks take turns."""
    monkeypatch.setitem(scheduler.AT_ONCE, "cpu", at_once)
    many = hitnet.train_many(
        open_data(toy, test=toy), recipe=choose_recipe(epochs=2, **RANDOM), seeds=[4, 9, 2], **SMALL
    )
    assert [run.config.seed for run in many] == [4, 9, 2]
    for run in many:
        alone = hitnet.train(
            open_data(toy, test=toy), recipe=choose_recipe(epochs=2, **RANDOM), seed=run.config.seed, **SMALL
        )
        assert same(run, alone)
        assert timeless(run) == timeless(alone)
        assert {row["beside"] for row in alone.history} == {1}
    assert not same(many[0], many[1])
    besides = [[row["beside"] for row in run.history] for run in many]
    assert besides == {1: [[1, 1]] * 3, 2: [[2, 2], [2, 2], [1, 1]], 3: [[3, 3]] * 3}[at_once]


def test_networks_whose_layers_draw_are_the_ones_that_they_would_be_alone(monkeypatch, tmp_path):
    """Side by side, and resumed in the middle of an epoch."""
    monkeypatch.setitem(scheduler.AT_ONCE, "cpu", 2)
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    images = toy_images(48, shape=(1, 16, 16))
    options = {"model": "own-dropping", "recipe": choose_recipe(epochs=2, batch_size=20), "device": "cpu"}
    many = hitnet.train_many(images, seeds=[4, 9], **options)
    assert not same(*many)
    for run in many:
        assert same(run, hitnet.train(images, seed=run.config.seed, **options))
    with pytest.raises(KeyboardInterrupt):
        hitnet.train(images, seed=4, out=tmp_path / "cut", progress=Counting(4), **options)
    assert same(many[0], hitnet.train(images, seed=4, out=tmp_path / "cut", resume=True, **options))


@pytest.mark.gpu
def test_chances_of_ghosts_on_a_gpu_are_drawn_outside_the_captured_steps(caplog):
    recipe = choose_recipe(epochs=3, batch_size=20, ghosts=1, ghost_probability=0.5, ghosts_from_epoch=2)
    images, options = toy_images(48), {"model": "hitnet-small", "recipe": recipe, "device": "cuda"}
    many = hitnet.train_many(images, seeds=[4, 9, 2], **options)
    for run in many:
        assert same(run, hitnet.train(images, seed=run.config.seed, **options))
    assert "could not be captured" not in caplog.text


@pytest.mark.gpu
def test_random_layers_on_a_gpu_draw_outside_the_captured_steps(caplog):
    images = toy_images(48, shape=(1, 16, 16))
    options = {"model": "own-dropping", "recipe": choose_recipe(epochs=3, batch_size=20), "device": "cuda"}
    many = hitnet.train_many(images, seeds=[4, 9, 2], **options)
    for run in many:
        assert same(run, hitnet.train(images, seed=run.config.seed, **options))
    assert "could not be captured" not in caplog.text


class Counting(Progress):
    def __init__(self, most=10**9):
        self.planned, self.steps, self.most = [], 0, most

    def part(self, name, steps=None, unit="steps"):
        if steps is not None:
            self.planned.append(steps)

    def step(self):
        self.steps += 1
        if self.steps >= self.most:
            raise KeyboardInterrupt


def test_run_folders_and_resuming(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    options = {"recipe": choose_recipe(epochs=2, batch_size=32), "seeds": [5, 6, 7], **SMALL}
    whole = hitnet.train_many(toy, out=tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        hitnet.train_many(toy, out=tmp_path / "cut", progress=Counting(8), **options)
    finished = [RunFolder(tmp_path / "cut" / f"seed-{seed}").finished for seed in (5, 6, 7)]
    assert finished == [True, False, False]
    with pytest.raises(HitNetError, match="seed-5 already holds a run"):
        hitnet.train_many(toy, out=tmp_path / "cut", **options)
    told = Counting()
    resumed = hitnet.train_many(toy, out=tmp_path / "cut", resume=True, progress=told, **options)
    assert told.planned == [told.steps]
    assert 6 <= told.steps < 12
    assert all(same(a, b) for a, b in zip(whole, resumed, strict=True))
    assert [run.folder.name for run in resumed] == ["seed-5", "seed-6", "seed-7"]


def test_a_network_that_diverges_leaves_the_others_alone(toy, tmp_path, monkeypatch):
    row = engine.Trainer.row

    def diverging(self, *arguments):
        if self.seed == 1:
            self.step.totals.fill_(float("nan"))
        return row(self, *arguments)

    alone = hitnet.train(toy, recipe=choose_recipe(epochs=1), seed=2, **SMALL)
    monkeypatch.setattr(engine.Trainer, "row", diverging)
    monkeypatch.setitem(scheduler.AT_ONCE, "cpu", 2)
    listed = r"1 of 3 networks diverged \(.*seed-1: Training diverged in epoch 1\)"
    with pytest.raises(HitNetError, match=listed) as error:
        hitnet.train_many(toy, recipe=choose_recipe(epochs=1), seeds=3, out=tmp_path, **SMALL)
    assert [RunFolder(tmp_path / f"seed-{seed}").finished for seed in range(3)] == [True, False, True]
    assert isinstance(error.value, DivergedError)
    assert same(error.value.runs[1], alone)


class Greedy:
    """Makes steps that, like a GPU, have memory for so many networks at a time."""

    def __init__(self, room, monkeypatch, *, steps=6):
        self.room, self.alive, self.most = room, set(), 0
        call = engine.Step.__call__

        def step(step, *arguments):
            if id(step) not in self.alive and len(self.alive) >= self.room:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            self.alive.add(id(step))
            self.most = max(self.most, len(self.alive))
            call(step, *arguments)
            step.done = getattr(step, "done", 0) + 1
            if step.done == steps:
                self.alive.discard(id(step))

        monkeypatch.setattr(engine.Step, "__call__", step)


def test_too_little_memory_for_all_at_once(toy, monkeypatch, caplog):
    options = {"recipe": choose_recipe(epochs=2, **RANDOM), **SMALL}
    expected = hitnet.train_many(toy, seeds=4, **options)
    monkeypatch.setitem(scheduler.AT_ONCE, "cpu", 4)
    memory = Greedy(2, monkeypatch)
    runs = hitnet.train_many(toy, seeds=4, **options)
    assert memory.most == 2
    assert all(same(a, b) for a, b in zip(expected, runs, strict=True))
    assert "2 networks continue side by side" in caplog.text


def test_too_little_memory_to_begin_another(toy, monkeypatch):
    """There is room for one network; the second fails while it is made, beside the first that is under way."""
    options = {"recipe": choose_recipe(epochs=2, **RANDOM), **SMALL}
    expected = hitnet.train_many(toy, seeds=3, **options)
    monkeypatch.setitem(scheduler.AT_ONCE, "cpu", 2)
    alive, make, advance = set(), engine.Trainer.__init__, scheduler.Scheduler.advance

    def making(self, *arguments, **more):
        if alive:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        alive.add(1)
        make(self, *arguments, **more)

    def advancing(self, running):
        advance(self, running)
        if not self.running:
            alive.clear()

    monkeypatch.setattr(engine.Trainer, "__init__", making)
    monkeypatch.setattr(scheduler.Scheduler, "advance", advancing)
    assert all(same(a, b) for a, b in zip(expected, hitnet.train_many(toy, seeds=3, **options), strict=True))


def test_too_little_memory_for_one(toy, monkeypatch):
    Greedy(0, monkeypatch)
    with pytest.raises(HitNetError, match="even one such network"):
        hitnet.train_many(toy, recipe=choose_recipe(epochs=1), seeds=2, **SMALL)


@pytest.mark.parametrize("seeds", [0, -1, [], [1, 1]])
def test_seeds_that_make_no_sense(toy, seeds):
    with pytest.raises(HitNetError, match="seeds must be"):
        hitnet.train_many(toy, seeds=seeds, **SMALL)
