"""A training step does what the recipe says: its rate, its momentum, and weight decay of matrices alone."""

import copy

import pytest
import torch
import torch.nn.functional as F

import hitnet
from hitnet import CentripetalLoss, choose_recipe, models
from hitnet.training.engine import Trainer
from hitnet.training.step import Step
from toy import toy_images

CPU = torch.device("cpu")


def gradients(network, images):
    """Of the composite loss, written out, in the order of the network's parameters."""
    pixels = images.pixels.float() / 255
    output = network(pixels, images.labels)
    loss = CentripetalLoss(capsule_dim=network.config.capsule_dim)(output.distances, images.labels)
    loss = loss + network.config.reconstruction_weight * F.mse_loss(output.reconstruction, pixels)
    return torch.autograd.grad(loss, list(network.parameters()))


def nesterov(values, changes, kept, rate):
    kept.mul_(0.9).add_(changes)
    values.sub_(rate * (changes + 0.9 * kept))


def adam(values, changes, kept, rate):
    first, second, steps = kept
    first.mul_(0.9).add_(0.1 * changes)
    second.mul_(0.999).add_(0.001 * changes.square())
    steps += 1
    values.sub_(rate * (first / (1 - 0.9**steps)) / ((second / (1 - 0.999**steps)).sqrt() + 1e-7))


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_steps_against_steps_by_hand(optimizer, decay):
    torch.manual_seed(0)
    images = toy_images(12)
    network = models.build("hitnet-small", (1, 12, 12), 3, capsule_dim=4).train()
    first = gradients(copy.deepcopy(network), images)
    made = choose_recipe("fast", optimizer=optimizer, weight_decay=decay, shift=0, precision="float32").complete()
    step = Step(network, made, CPU)
    begun = [p.detach().clone() for p in network.parameters()]
    values = [p.double() for p in begun]
    blank = torch.zeros_like
    kept = [blank(p) if optimizer == "sgd" else [blank(p), blank(p), torch.zeros(())] for p in values]
    for turn, rate in enumerate([0.1, 0.03, 0.2]):
        step((images.pixels, images.labels, torch.zeros(12, 5, dtype=torch.int32)), rate)
        computed = [p.grad.double() for p in network.parameters()]
        if turn == 0:
            torch.testing.assert_close(computed, [gradient.double() for gradient in first], rtol=1e-4, atol=1e-6)
        for value, gradient, state in zip(values, computed, kept, strict=True):
            change = gradient + decay * value if value.ndim > 1 else gradient
            (nesterov if optimizer == "sgd" else adam)(value, change, state, rate)
    for ours, by_hand, before in zip(network.parameters(), values, begun, strict=True):
        torch.testing.assert_close(ours.double(), by_hand, rtol=1e-4, atol=1e-5)
        assert not torch.equal(ours, before)


def test_a_rate_of_0_changes_no_weight():
    images = toy_images(12)
    network = models.build("hitnet-small", (1, 12, 12), 3)
    before = copy.deepcopy(network)
    made = choose_recipe("fast", optimizer="sgd", weight_decay=0.05).complete()
    step = Step(network.train(), made, CPU)
    step((images.pixels, images.labels, torch.zeros(12, 5, dtype=torch.int32)), 0.0)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), before.parameters(), strict=True))


@pytest.mark.parametrize("schedule", ["constant", "exponential", "cosine", "one-cycle"])
def test_a_training_hands_each_step_its_rate(monkeypatch, schedule):
    handed = []
    take = Step.__call__
    monkeypatch.setattr(Step, "__call__", lambda self, batch, rate: (handed.append(rate), take(self, batch, rate)))
    made = choose_recipe("fast", schedule=schedule, epochs=3, batch_size=16, learning_rate=1e-3).complete()
    run = hitnet.train(toy_images(40), model="hitnet-small", recipe=made, device="cpu")
    assert handed == [made.rate(i, 3) for i in range(9)]
    assert [row["learning_rate"] for row in run.history] == handed[2::3]
    assert len(set(handed)) == {"constant": 1, "exponential": 3, "cosine": 9, "one-cycle": 8}[schedule]


def test_weights_that_the_last_step_spoils_are_no_result(monkeypatch, tmp_path):
    take = Trainer.take

    def spoiling(self, epoch, i, batch):
        take(self, epoch, i, batch)
        if (epoch, i + 1) == (2, self.steps_per_epoch):
            next(self.model.parameters()).data[0] = torch.inf

    monkeypatch.setattr(Trainer, "take", spoiling)
    with pytest.raises(hitnet.HitNetError, match="diverged in epoch 2"):
        hitnet.train(
            toy_images(40), model="hitnet-small", recipe=choose_recipe(epochs=2), device="cpu", out=tmp_path / "run"
        )
    assert not (tmp_path / "run" / "weights.safetensors").exists()
