"""Averaged weights: against a plain loop, over interruptions, and label smoothing beside them."""

import copy

import pytest
import torch

import hitnet
from hitnet import choose_model, choose_recipe, open_data
from hitnet.training import engine, scheduler
from hitnet.training import step as steps
from hitnet.training.step import EVERY, Average
from toy import Interrupting, Stop, toy_images

SMALL = {"model": choose_model("hitnet-small", capsule_dim=4), "device": "cpu"}
AVERAGED = {"average": 0.9, "batch_size": 32}


def state(network):
    return {name: value.clone() for name, value in network.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("decay", [0.5, 0.95, 0.999])
def test_against_a_plain_loop(decay):
    network = hitnet.models.build("hitnet-small", (1, 8, 8), 3)
    kept, generator = Average(network, decay), torch.Generator().manual_seed(0)
    expected, seen = None, 0
    for step in range(1, 50):
        with torch.no_grad():
            for name, value in network.state_dict().items():
                value.copy_(torch.rand(value.shape, generator=generator) if value.is_floating_point() else step)
                assert kept.network.state_dict()[name] is not value
        kept.add(step)
        if step % EVERY == 1:
            seen, now = seen + 1, {name: value.double() for name, value in network.state_dict().items()}
            weight = max(1 - decay**EVERY, 1 / seen)
            expected = now if seen == 1 else {k: (1 - weight) * expected[k] + weight * now[k] for k in now}
    for name, value in kept.network.state_dict().items():
        if value.is_floating_point():
            assert torch.allclose(value.double(), expected[name], atol=1e-5)
        else:
            assert value == 49


def test_with_a_long_memory_it_is_the_mean_of_all_weights():
    network = hitnet.models.build("hitnet-small", (1, 8, 8), 3)
    kept, seen = Average(network, 1 - 1e-9), []
    for step in range(1, 1 + 5 * EVERY):
        with torch.no_grad():
            for p in network.parameters():
                p.add_(torch.randn_like(p))
        kept.add(step)
        if step % EVERY == 1:
            seen.append(next(network.parameters()).clone())
    assert torch.allclose(next(kept.network.parameters()), torch.stack(seen).mean(dim=0), atol=1e-5)


def test_the_average_is_what_is_tested_kept_and_given_back(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "EVERY", 2)
    trainers, make = [], engine.Trainer.__init__

    def making(self, *arguments, **options):
        make(self, *arguments, **options)
        trainers.append(self)

    monkeypatch.setattr(engine.Trainer, "__init__", making)
    run = hitnet.train(
        open_data(toy, test=toy), recipe=choose_recipe(epochs=3, **AVERAGED), out=tmp_path / "run", **SMALL
    )
    (trainer,) = trainers
    assert run.model is trainer.average.network
    assert not run.model.training
    assert not same(state(run.model), state(trainer.model))
    assert same(state(run.model), state(hitnet.open_run(tmp_path / "run").model))
    assert run.history[-1]["test_error"] == pytest.approx(hitnet.evaluate(run, toy, device="cpu").error)


def test_training_itself_is_left_alone(toy, monkeypatch):
    """The weights that are averaged are those of a training without it."""
    ended, advance = [], scheduler.Scheduler.advance

    def advancing(self, running):
        advance(self, running)
        if not self.running:
            ended.append(state(running.trainer.model))

    monkeypatch.setattr(scheduler.Scheduler, "advance", advancing)
    for decay in (0.0, 0.9):
        hitnet.train(toy, recipe=choose_recipe(epochs=2, **{**AVERAGED, "average": decay}), **SMALL)
    assert same(*ended)


RESUMED = {"recipe": choose_recipe(epochs=4, **AVERAGED), **SMALL}


@pytest.fixture(scope="module")
def whole():
    toy = toy_images()
    return hitnet.train(open_data(toy, test=toy), **RESUMED)


@pytest.mark.parametrize("stop_after", [1, 3, 4, 8])
def test_resumed_run_ends_with_the_same_weights(toy, whole, tmp_path, monkeypatch, stop_after):
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    options = RESUMED
    with pytest.raises(Stop):
        hitnet.train(open_data(toy, test=toy), out=tmp_path / "cut", progress=Interrupting(stop_after), **options)
    resumed = hitnet.train(open_data(toy, test=toy), out=tmp_path / "cut", resume=True, **options)
    assert same(state(whole.model), state(resumed.model))
    assert [row["test_error"] for row in whole.history] == [row["test_error"] for row in resumed.history]


def test_side_by_side_each_has_its_own(toy, monkeypatch):
    monkeypatch.setitem(scheduler.AT_ONCE, "cpu", 2)
    many = hitnet.train_many(toy, recipe=choose_recipe(epochs=2, **AVERAGED), seeds=[1, 2], **SMALL)
    alone = hitnet.train(toy, recipe=choose_recipe(epochs=2, **AVERAGED), seed=2, **SMALL)
    assert same(state(many[1].model), state(alone.model))
    assert not same(state(many[0].model), state(alone.model))


def test_nothing_waits_for_the_device():
    # Tensors on "meta" have no values: whoever asks for one, as waiting for a GPU would, gets an error.
    with torch.device("meta"):
        kept = Average(hitnet.models.build("hitnet-small", (1, 12, 12), 3), 0.9)
        for step in range(1, 10):
            kept.add(step)


@pytest.mark.gpu
def test_on_a_gpu_with_captured_steps(toy, caplog):
    recipe = choose_recipe(epochs=12, average=0.9, batch_size=16, learning_rate=5e-3)
    runs = hitnet.train_many(open_data(toy, test=toy), seeds=2, recipe=recipe, **SMALL | {"device": "cuda"})
    assert not [record for record in caplog.records if "could not be captured" in record.message]
    assert all(run.history[-1]["test_error"] < 5 for run in runs)


def test_a_copied_network_still_learns(toy):
    """What is given back can be trained on, like any network."""
    run = hitnet.train(toy, recipe=choose_recipe(epochs=1, **AVERAGED), **SMALL)
    assert all(p.requires_grad and p.is_leaf for p in copy.deepcopy(run.model).parameters())
