"""Adam's moments on a CPU: those too small to matter become 0, and no weight changes by it."""

import torch

from hitnet import choose_recipe, models
from hitnet.training import step as steps
from toy import toy_images

CPU = torch.device("cpu")
SMALLEST = torch.finfo(torch.float32).smallest_normal


def train(count):
    """A network of which the decoder's first layer is silenced at the tenth step, its moments long faded."""
    images = toy_images(12)
    torch.manual_seed(0)
    network = models.build("hitnet-small", images.shape, images.num_classes)
    recipe = choose_recipe("paper", precision="float32").complete()
    step = steps.Step(network, recipe, CPU)
    draws = torch.zeros(12, 5, dtype=torch.int64)
    for i in range(count):
        if i == 10:
            with torch.no_grad():
                network.decoder.layers[0].bias.fill_(-100)
                step.optimizer.state[network.decoder.layers[0].weight]["exp_avg"].mul_(1e-36)
        step((images.pixels, images.labels, draws), 1e-3)
    return step


def denormal(step):
    states = step.optimizer.state.values()
    moments = torch.cat([state[name].flatten() for state in states for name in ("exp_avg", "exp_avg_sq")])
    return int(((moments != 0) & (moments.abs() < SMALLEST)).sum())


def test_moments_that_fade_are_cleared_and_weights_stay_the_same(monkeypatch):
    monkeypatch.setattr(steps, "CLEAR_STEPS", 15)
    cleared = train(20)
    monkeypatch.setattr(steps, "clear_tiny_moments", lambda optimizer: None)
    left = train(20)
    assert denormal(left) > 10_000
    assert denormal(cleared) == 0
    weights = zip(cleared.model.parameters(), left.model.parameters(), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in weights)


def test_momentum_of_sgd_is_left_alone():
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
    optimizer.state[weight] = {"momentum_buffer": torch.full((3,), 1e-35)}
    steps.clear_tiny_moments(optimizer)
    assert torch.equal(optimizer.state[weight]["momentum_buffer"], torch.full((3,), 1e-35))
