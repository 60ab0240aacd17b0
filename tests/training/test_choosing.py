"""What is trained on photographs when nobody says: held-out images decide, within the time that is given."""

import logging

import numpy as np
import pytest
import torch
from PIL import Image

import hitnet
from hitnet import choose_model, choose_recipe, open_data
from hitnet.features.heads import HeadOptions
from hitnet.models import backbones
from hitnet.training import api as choosing
from hitnet.training.api import leaves_open
from toy import TinyBackbone, colour_images, write_images

pytestmark = pytest.mark.usefixtures("quick_heads")


@pytest.fixture(autouse=True)
def small_backbone(monkeypatch, tmp_path):
    """The backbone of the package is a tiny one, and trainings are short: what is chosen is told by held-out errors."""
    settings = backbones.Settings(32, (0.5,) * 3, (0.5,) * 3)

    def architecture(name):
        torch.manual_seed(1)
        return TinyBackbone(), settings

    monkeypatch.setattr(backbones, "architecture", architecture)
    monkeypatch.setattr(backbones, "read_weights", lambda module, *_: module.state_dict())
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(HeadOptions, "steps_for", lambda *_: 20)
    monkeypatch.setattr("hitnet.training.recipes.LEAST_STEPS", 1)


@pytest.fixture
def photos(tmp_path):
    write_images(tmp_path / "photos", colour_images(126, side=64))
    return tmp_path / "photos"


def train(data, **options):
    return hitnet.train(data, device="cpu", progress=False, **options)


def test_a_head_is_the_default_for_photographs(photos, caplog):
    caplog.set_level(logging.INFO, "hitnet")
    run = train(photos, minutes=0)
    assert (run.config.model_name, run.config.recipe.backbone_rate) == ("hitnet-pretrained", 0)
    assert "held out" not in caplog.text  # nothing else was tried


def test_photographs_in_memory_get_a_head_too(tmp_path):
    images = colour_images(126, side=70)
    run = train(images, minutes=0, out=tmp_path / "run")
    assert run.config.recipe.backbone_rate == 0
    assert run.config.model.in_shape == (3, 70, 70)  # of which the backbone sees 32 x 32
    assert run.evaluate(data=images, split="train", device="cpu").error == run.history[-1]["train_error"]
    assert train(images, out=tmp_path / "run", resume=True).config == run.config
    assert train(colour_images(30, side=16)).config.model_name == "hitnet-small"


def judged_by(monkeypatch, error):
    """Let the heads err on this share of the images."""
    fit = choosing.FrozenTraining.fit

    def fitted(self, config):
        found = fit(self, config)
        wrong = torch.rand(len(found.distances), generator=torch.Generator().manual_seed(0)) < error
        found.distances[wrong] = -found.distances[wrong]
        return found

    monkeypatch.setattr(choosing.FrozenTraining, "fit", fitted)


def test_a_network_that_is_better_on_held_out_images_is_trained(photos, monkeypatch, caplog, tmp_path):
    caplog.set_level(logging.INFO, "hitnet")
    judged_by(monkeypatch, 0.9)
    run = train(photos, minutes=1000, out=tmp_path / "run")
    assert run.config.model_name == "hitnet-small"
    assert run.config.data["images"] == len(open_data(photos).load("train"))  # trained anew on all of them
    assert "Chosen: hitnet-small." in caplog.text
    monkeypatch.setattr(choosing, "Trial", None)  # the choice stands when the run is resumed
    assert train(photos, out=tmp_path / "run", resume=True).config == run.config


def test_a_network_that_is_far_behind_is_given_up(photos, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "hitnet")
    judged_by(monkeypatch, 0.4)
    monkeypatch.setattr(choosing, "HOPELESS", -1.0)
    assert train(photos, minutes=1000).config.model_name == "hitnet-pretrained"
    assert "given up halfway. Chosen: the head." in caplog.text


def test_a_network_that_takes_too_long_is_not_tried(photos, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "hitnet")
    monkeypatch.setattr(choosing, "MEASURED_STEPS", 2)
    assert train(photos, minutes=1e-6).config.model_name == "hitnet-pretrained"
    assert "more than `minutes` allow. Chosen: the head." in caplog.text


def test_grey_and_small_images_get_a_network(tmp_path):
    write_images(tmp_path / "small", colour_images(30, side=16))
    assert train(tmp_path / "small").config.model_name == "hitnet-small"
    random = np.random.default_rng(0)
    for i in range(40):
        folder = tmp_path / "grey" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (70, 70), np.uint8)).save(folder / f"{i}.png")
    assert train(tmp_path / "grey").config.model_name == "hitnet-small"


def test_what_is_asked_for_is_not_questioned(photos):
    data = open_data(photos)
    assert leaves_open(data, None, "fast")
    assert leaves_open(data, choose_model(None), choose_recipe("fast"))
    assert not leaves_open(data, "hitnet-small", "fast")
    assert not leaves_open(data, choose_model(None, capsule_dim=8), "fast")
    assert not leaves_open(data, None, "paper")
    assert not leaves_open(data, None, choose_recipe("fast", epochs=3))
    assert not leaves_open(open_data(photos, image_size=32), None, "fast")
