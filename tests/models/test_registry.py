"""Networks that are not hitnet's own: added by name, checked, trained with their own loss, opened again."""

import pytest
import torch

import hitnet
from hitnet import HitNetError, choose_model, choose_recipe
from hitnet.models import Head, choice, register_features, register_head, register_model, registry
from hitnet.training.step import Objective
from own_networks import DroppingFeatures, FarHead, OriginHead, Pull
from toy import toy_images


@pytest.fixture
def _own_names():
    """What a test registers is gone after it."""
    registers = (registry.FEATURES, registry.HEADS, choice.MODELS)
    before = [dict(known) for known in registers]
    yield
    for known, names in zip(registers, before, strict=True):
        known.clear()
        known.update(names)


@pytest.mark.parametrize("name", ["own-far", "own-origin", "own-dropping"])
def test_networks_of_others_are_trained_kept_and_opened(name, tmp_path):
    run = hitnet.train(toy_images(24), model=name, recipe=choose_recipe(epochs=2), device="cpu", out=tmp_path / "run")
    opened = hitnet.open_run(tmp_path / "run")
    images = torch.rand(3, 1, 12, 12)
    torch.testing.assert_close(opened.model(images).distances, run.model(images).distances)
    assert hitnet.evaluate(opened, toy_images(24), split="all", device="cpu").error <= 100
    assert name in {row["name"] for row in hitnet.list_models()}
    assert ("train_hits" in run.history[0]) == (name != "own-far")


def test_a_head_brings_its_own_loss_and_its_options():
    network = hitnet.models.build("own-far", (1, 12, 12), 3, decoder="none")
    images, labels = torch.rand(6, 1, 12, 12), torch.arange(6) % 3
    output = network(images, labels)
    terms = Objective(network, choose_recipe().complete(), epoch=1)(output, images, labels)
    assert terms["loss"] == Pull()(output.distances, labels)
    for option in ({"ghosts": 1}, {"miss_weight": 2.0}, {"label_smoothing": 0.1}):
        with pytest.raises(HitNetError, match=r"needs? "):
            Objective(network, choose_recipe(**option).complete(), epoch=1)
    origin = hitnet.models.build("own-origin", (1, 12, 12), 3, decoder="none")
    weighted = Objective(origin, choose_recipe(miss_weight=2.0).complete(), epoch=1)
    assert weighted(output, images, labels)["loss"] == origin.head.make_loss(miss_weight=2.0)(output.distances, labels)
    with pytest.raises(HitNetError, match="Ghost capsules need"):
        Objective(origin, choose_recipe(ghosts=1).complete(), epoch=1)


def test_the_batch_norm_of_a_head_is_its_first_or_one_of_its_own():
    assert hitnet.models.build("own-origin", (1, 12, 12), 3).config.norm == "each"
    assert hitnet.models.build("own-origin", (1, 12, 12), 3, norm="shared").head.norm.num_features == 16
    with pytest.raises(HitNetError, match=r"'own-origin' .*each and shared"):
        hitnet.models.build("own-origin", (1, 12, 12), 3, norm="class")


@pytest.mark.usefixtures("_own_names")
def test_a_run_of_a_network_that_nobody_registers_says_so(tmp_path):
    register_head("passing", FarHead)
    register_features("passing", DroppingFeatures)
    recipe = choose_recipe(epochs=1)
    for part in ("head", "features"):
        model = choose_model("hitnet-small", decoder="none", **{part: "passing"})
        hitnet.train(toy_images(12), model=model, recipe=recipe, device="cpu", out=tmp_path / part)
    registry.HEADS.pop("passing")
    registry.FEATURES.pop("passing")
    for part, kind in (("head", "head"), ("features", "feature extractor")):
        with pytest.raises(HitNetError, match=f"no {kind} named 'passing'.*import the module that registers it first"):
            hitnet.open_run(tmp_path / part)


@pytest.mark.usefixtures("_own_names")
def test_registering_is_checked():
    with pytest.raises(HitNetError, match=r"hitnet\.models\.Features"):
        register_features("mine", torch.nn.Linear)
    with pytest.raises(HitNetError, match=r"hitnet\.models\.Head"):
        register_head("mine", OriginHead(4, 3))

    class Empty(Head):
        pass

    with pytest.raises(HitNetError, match="Empty lacks loss and make_loss"):
        register_head("mine", Empty)
    for taken in ("softmax", "timm:mine", "Mine", ""):
        with pytest.raises(HitNetError, match=r"already|lower-case letters"):
            register_head(taken, FarHead)
    with pytest.raises(HitNetError, match="already"):
        register_features("efficientnet-lite0", DroppingFeatures)
    with pytest.raises(HitNetError, match="already"):
        register_model("hitnet", "another")
    with pytest.raises(HitNetError, match=r"'heads'\. Did you mean 'head'"):
        register_model("mine", "a network", heads="softmax")
    with pytest.raises(HitNetError, match="no head named 'nothing'"):
        register_model("mine", "a network", head="nothing")
    register_head("own-far", FarHead)  # the same again
    assert registry.HEADS["own-far"] is FarHead
