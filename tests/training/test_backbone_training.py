"""Training on a pretrained backbone: frozen, slower than the head, resumed, and on images of the right size."""

import copy

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import hitnet
from hitnet import choose_model, choose_recipe, models, open_data
from hitnet.data.opened import LONGEST_SIDE
from hitnet.models import backbones
from hitnet.training import engine
from hitnet.training.configuration import at_backbone_size
from hitnet.training.step import Step
from toy import Interrupting, Stop, TinyBackbone, colour_images, toy_images

CPU = torch.device("cpu")


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A pretrained network on a backbone of 8 features, and the weights that it starts from."""
    settings = backbones.Settings(32, (0.5,) * 3, (0.5,) * 3)
    monkeypatch.setattr(backbones, "architecture", lambda _: (TinyBackbone(), settings))
    torch.manual_seed(1)
    module = TinyBackbone()
    module.norm.running_mean.normal_()
    save_file(module.state_dict(), tmp_path / "w.safetensors")
    model = choose_model(
        "hitnet-pretrained", features="timm:tiny", weights=str(tmp_path / "w.safetensors"), capsule_dim=4
    )
    return model, module.state_dict()


def train(model, data=None, *, epochs=2, out=None, resume=False, progress=None, **changes):
    recipe = choose_recipe(epochs=epochs, batch_size=16, **changes)
    return hitnet.train(
        colour_images(48) if data is None else data,
        model=model,
        recipe=recipe,
        device="cpu",
        out=out,
        resume=resume,
        progress=progress,
    )


def test_a_backbone_that_is_not_frozen_changes_with_its_statistics(tiny):
    model, start = tiny
    kept = train(model, epochs=1, backbone_rate=0.5).model.features.module.state_dict()
    assert all(not torch.equal(value, kept[name]) for name, value in start.items())


def test_steps_of_adamw_with_two_rates_against_steps_by_hand():
    """float64 by hand: decay of matrices alone, apart from the gradient, by the rate of their part of the network."""
    torch.manual_seed(0)
    images, decay, factor = toy_images(12), 0.05, 0.5
    network = models.build("hitnet-small", (1, 12, 12), 3, capsule_dim=4).train()
    recipe = choose_recipe(
        "fast", optimizer="adamw", weight_decay=decay, backbone_rate=factor, shift=0, precision="float32"
    ).complete()
    step = Step(network, recipe, CPU)
    values = {name: p.detach().double().clone() for name, p in network.named_parameters()}
    first, second = ({name: torch.zeros_like(value) for name, value in values.items()} for _ in range(2))
    for turn, rate in enumerate([0.01, 0.003, 0.02], start=1):
        step((images.pixels, images.labels, torch.zeros(12, 5, dtype=torch.int32)), rate)
        for name, p in network.named_parameters():
            own = rate * (factor if name.startswith("features.") else 1)
            gradient = p.grad.double()
            if p.ndim > 1:
                values[name] -= own * decay * values[name]
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.999 * second[name] + 0.001 * gradient**2
            spread = (second[name] / (1 - 0.999**turn)).sqrt() + 1e-7
            values[name] -= own * (first[name] / (1 - 0.9**turn)) / spread
    for name, p in network.named_parameters():
        torch.testing.assert_close(p.double(), values[name], rtol=1e-4, atol=1e-5, msg=name)


def test_half_the_rate_is_half_the_step():
    """The first step of Adam, whose length is the rate, for the same network and images."""
    torch.manual_seed(0)
    images = toy_images(12)
    network = models.build("hitnet-small", (1, 12, 12), 3, capsule_dim=4).train()
    moved = {}
    for factor in (1.0, 0.5):
        copied = copy.deepcopy(network)
        recipe = choose_recipe("fast", backbone_rate=factor, shift=0, precision="float32").complete()
        step = Step(copied, recipe, CPU)
        step((images.pixels, images.labels, torch.zeros(12, 5, dtype=torch.int32)), 0.25)
        pairs = zip(copied.named_parameters(), network.parameters(), strict=True)
        moved[factor] = {name: (p - before).detach() for (name, p), before in pairs}
    for name, whole in moved[1.0].items():
        share = 0.5 if name.startswith("features.") else 1.0
        torch.testing.assert_close(moved[0.5][name], share * whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stop_after", [2, 4])
def test_a_resumed_run_ends_with_the_same_weights(tiny, tmp_path, monkeypatch, stop_after):
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    model, _ = tiny
    whole = train(model, backbone_rate=0.5)
    cut = tmp_path / "cut"
    with pytest.raises(Stop):
        train(model, backbone_rate=0.5, out=cut, progress=Interrupting(stop_after))
    resumed = train(model, backbone_rate=0.5, out=cut, resume=True)
    ours, theirs = resumed.model.state_dict(), whole.model.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in theirs.items())


def test_what_is_fast_for_a_backbone(tiny):
    model, _ = tiny
    recipe = train(model, epochs=1, backbone_rate=0.5).config.recipe
    assert (recipe.optimizer, recipe.shift, recipe.cutout) == ("adamw", 1, 4)  # of 16 pixels
    choice = choose_recipe("fast")
    assert choice.complete(features="timm:tiny", device="cuda").backbone_rate == 1 / 3
    assert choice.complete(features="timm:tiny", device="cpu").backbone_rate == 0


@pytest.fixture
def photographs(tmp_path):
    """Photographs of 300 x 200 pixels, in a folder."""
    random = np.random.default_rng(0)
    for i in range(12):
        folder = tmp_path / "photos" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (200, 300, 3), np.uint8)).save(folder / f"{i}.png")
    return tmp_path / "photos"


def test_photographs_are_read_at_the_backbones_size(tiny, photographs):
    model, _ = tiny
    data = open_data(photographs)
    assert data.load("all").shape == (3, 43, LONGEST_SIDE)
    assert at_backbone_size(data, model).load("all").shape == (3, 224, 224)
    assert at_backbone_size(data, "hitnet-pretrained").load("all").shape == (3, 224, 224)
    for other in ("hitnet-small", None):
        assert at_backbone_size(data, other) is data
    run = train(model, photographs, epochs=1, backbone_rate=0.5)
    assert run.model.config.in_shape == (3, 224, 224)
    assert (run.config.recipe.shift, run.config.recipe.cutout) == (16, 56)
    assert hitnet.evaluate(run, data, split="all", device="cpu").images == 12


def test_a_size_that_was_asked_for_is_kept(tiny, photographs):
    model, _ = tiny
    data = open_data(photographs, image_size=48)
    assert at_backbone_size(data, model).load("all").shape == (3, 48, 48)
    assert train(model, data, epochs=1).model.config.in_shape == (3, 48, 48)


def test_images_in_memory_stay_as_they_are(tiny):
    model, _ = tiny
    in_memory = open_data(colour_images(6, side=80))
    assert at_backbone_size(in_memory, model).load("all").shape == (3, 80, 80)


def test_fine_tuned_judges_see_larger_images_than_the_page_shows(tiny, photographs):
    model, _ = tiny
    judges = hitnet.Judges(model=model, networks=1, recipe=choose_recipe(epochs=1, batch_size=16))
    audit = hitnet.audit_labels(photographs, judges=judges, device="cpu")
    assert audit.images.shape == (3, 43, 64)
    assert audit.summary.model == "hitnet-pretrained"
    assert audit.summary.image_size == [43, 64]
    assert audit.summary.networks[0]["recipe"]["shift"] == 16
