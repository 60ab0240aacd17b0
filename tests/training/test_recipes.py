"""Recipes: the paper's values, the schedules, and their way to JSON and back."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import hitnet
from hitnet import HitNetError, Recipe, choose_recipe
from hitnet.training.batches import Feed
from hitnet.training.engine import Trainer
from hitnet.training.recipes import FAST, LEAST_STEPS, RECIPES, complete_recipe


def recipe(name, *, features="paper", images=None, **changes):
    return choose_recipe(name, **changes).complete(features=features, images=images)


def test_paper_recipe_is_what_the_paper_says():
    paper = RECIPES["paper"]
    assert (paper.optimizer, paper.learning_rate, paper.batch_size, paper.epochs) == ("adam", 1e-3, 128, 250)
    assert (paper.schedule, paper.shift, paper.ghosts) == ("constant", 2, 0)
    assert paper.adam_epsilon == 1e-7
    assert (paper.ghost_rule, paper.ghost_probability, paper.ghosts_from_epoch) == ("always", 1, 1)
    assert (paper.weight_decay, paper.label_smoothing, paper.average, paper.augment) == (0, 0, 0, "none")
    assert (paper.flip, paper.cutout, paper.warp, paper.invert) == (False, 0, 0, False)
    assert (paper.shift_fill, paper.rotate, paper.scale) == ("zeros", 0, 0)
    assert {paper.rate(step, 469) for step in (0, 1000, 469 * 250 - 1)} == {1e-3}


def test_decaying_recipe_multiplies_after_each_epoch():
    decay = RECIPES["paper-decay"]
    assert replace(decay, name="paper", schedule="constant") == RECIPES["paper"]
    assert decay.rate(468, 469) == 1e-3
    assert decay.rate(469, 469) == pytest.approx(1e-3 * 0.95)
    assert decay.rate(469 * 249, 469) == pytest.approx(1e-3 * 0.95**249)


def test_cosine_and_one_cycle():
    fast = recipe("fast", epochs=10, learning_rate=1.0, schedule="cosine")
    for step in range(0, 100, 7):
        assert fast.rate(step, 10) == pytest.approx((1 + math.cos(math.pi * step / 100)) / 2)
    cycle = recipe("fast", epochs=10, schedule="one-cycle", learning_rate=1.0)
    assert [cycle.rate(step, 10) for step in (0, 10, 20, 60, 100)] == pytest.approx([0, 0.5, 1, 0.5, 0])


def test_recipes_survive_json():
    for kept in RECIPES.values():
        assert Recipe.from_dict(json.loads(json.dumps(kept.to_dict()))) == kept


def test_overrides_of_none_change_nothing():
    assert recipe("paper", epochs=None, ghosts=None) == RECIPES["paper"]
    assert recipe("paper", epochs=3).epochs == 3
    own = Recipe(epochs=7)
    assert complete_recipe(own, features="resnet9") == own


@pytest.mark.parametrize(("side", "shift", "cutout"), [(224, 16, 56), (160, 11, 40), (96, 6, 24), (32, 2, 8)])
@pytest.mark.parametrize("features", ["efficientnet-lite0", "timm:resnet18"])
def test_fast_for_backbones_shifts_and_cuts_out_by_the_side(features, side, shift, cutout):
    made = complete_recipe("fast", features=features, side=side)
    assert made == replace(FAST["pretrained"], shift=shift, cutout=cutout)
    own = choose_recipe("fast", shift=1, cutout=0).complete(features=features, side=side)
    assert (own.shift, own.cutout) == (1, 0)
    assert complete_recipe("paper", features=features, side=side) == RECIPES["paper"]
    assert complete_recipe("fast", features="resnet9", side=side) == FAST["resnet9"]
    assert FAST["pretrained"] == complete_recipe("fast", features=features)


@pytest.mark.parametrize("rate", [-0.1, math.nan, math.inf, "slow"])
def test_the_rate_of_a_backbone_is_checked(rate):
    with pytest.raises(HitNetError, match="backbone_rate must be"):
        choose_recipe("fast", backbone_rate=rate)


def test_recipes_are_known_by_their_names():
    assert all(kept.name == name for name, kept in RECIPES.items())
    assert {fast.name for fast in FAST.values()} == {"fast"}
    for features, fast in FAST.items():
        assert recipe("fast", features=features) == complete_recipe("fast", features=features) == fast
        assert recipe("paper", features=features) == RECIPES["paper"]


def test_the_fast_recipes_are_what_the_guide_says():
    told = {features: (fast.optimizer, fast.schedule, fast.epochs) for features, fast in FAST.items()}
    assert told == {
        "paper": ("adam", "cosine", 20),
        "small": ("adam", "one-cycle", 12),
        "resnet9": ("sgd", "one-cycle", 24),
        "pretrained": ("adamw", "one-cycle", 8),
    }
    assert FAST["resnet9"].flip
    assert FAST["resnet9"].cutout


def test_the_last_batch_of_an_epoch_may_be_smaller():
    steps = [recipe("fast", batch_size=32).steps_per_epoch(images) for images in (1, 31, 32, 33, 64, 65)]
    assert steps == [1, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("allowed", [True, False])
def test_mirroring_needs_data_that_allows_it(toy, allowed):
    images, flipping = replace(toy, flip=allowed), recipe("fast", flip=True)
    network = hitnet.models.build("hitnet-small", images.shape, images.num_classes)
    trainer = Trainer(network, Feed(images, torch.device("cpu")), None, flipping, seed=0, device=torch.device("cpu"))
    assert trainer.step.recipe.flip is allowed
    assert trainer.training().recipe is flipping


def test_mistakes_are_named():
    with pytest.raises(HitNetError, match="Did you mean 'paper'"):
        recipe("papr")
    with pytest.raises(HitNetError, match=r"epochs must be .*; got 0"):
        recipe("fast", epochs=0)
    with pytest.raises(HitNetError, match="schedule must be one of"):
        recipe("fast", schedule="linear")
    with pytest.raises(HitNetError, match="recipe named 'speed'"):
        Recipe.from_dict({"speed": 3})
    for value in (3, None):
        with pytest.raises(HitNetError, match="Did you mean 'epochs'"):
            recipe("fast", epoch=value)


@pytest.mark.parametrize("value", [-0.1, 2.0, math.nan])
def test_ghost_probability_is_a_probability(value):
    with pytest.raises(HitNetError, match="ghost_probability must be"):
        recipe("fast", ghost_probability=value)


@pytest.mark.parametrize("value", [-1, 1.0, 1.5, "2", math.nan])
@pytest.mark.parametrize("entry", ["epochs", "batch_size", "ghosts_from_epoch", "shift", "cutout", "ghosts"])
def test_counts_are_whole_numbers(entry, value):
    with pytest.raises(
        HitNetError, match=rf"{entry} must be a whole number from [01] on; got {re.escape(repr(value))}"
    ):
        recipe("fast", **{entry: value})


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "a"])
@pytest.mark.parametrize("entry", ["learning_rate", "decay", "adam_epsilon", "weight_decay", "miss_weight"])
def test_amounts_are_finite(entry, value):
    with pytest.raises(HitNetError, match=rf"{entry} must be finite and (above 0|not negative); got {value!r}"):
        recipe("fast", **{entry: value})


def test_numbers_of_numpy_become_those_of_python():
    made = recipe("fast", epochs=np.int64(3), learning_rate=np.float32(0.5), shift=np.uint8(2))
    assert made == recipe("fast", epochs=3, learning_rate=0.5, shift=2)
    assert [type(value) for value in (made.epochs, made.learning_rate, made.shift)] == [int, float, int]
    assert json.loads(json.dumps(made.to_dict())) == made.to_dict()


def test_hybrid_images_take_a_share_and_a_strength():
    assert (Recipe().augment_share, Recipe().augment_strength) == (0.25, 0.5)
    for value in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(HitNetError, match="augment_share must be"):
            recipe("fast", augment_share=value)
    for value in (-0.1, math.inf, math.nan):
        with pytest.raises(HitNetError, match="augment_strength must be"):
            recipe("fast", augment_strength=value)
    edge = recipe("fast", augment_share=1.0, augment_strength=0.0)
    assert (edge.augment_share, edge.augment_strength) == (1.0, 0.0)


@pytest.mark.parametrize("entry", ["warp", "average", "label_smoothing"])
def test_shares_are_below_one(entry):
    for value in (-0.1, 1.0, math.nan):
        with pytest.raises(HitNetError, match=f"{entry} must be at least 0 and below 1"):
            recipe("fast", **{entry: value})


def test_augmentation_of_a_recipe():
    made = recipe("fast", warp=0.1, invert=True, cutout=3)
    assert (made.shift, made.flip, made.cutout, made.warp, made.invert) == (2, False, 3, 0.1, True)
    assert (made.shift_fill, made.rotate, made.scale) == ("zeros", 0, 0)
    turned = recipe("paper", shift_fill="nearest", rotate=15, scale=0.1)
    assert (turned.shift, turned.shift_fill, turned.rotate, turned.scale) == (2, "nearest", 15, 0.1)
    for wrong in ({"shift_fill": "mirror"}, {"rotate": -1}, {"scale": 1.0}, {"augment_noise": "loud"}):
        with pytest.raises(HitNetError, match=next(iter(wrong))):
            recipe("paper", **wrong)


def test_options_of_what_is_off_are_not_in_effect():
    plain = Recipe()
    off = Recipe(
        augment_strength=3.0, augment_share=0.7, ghost_rule="nearer", ghost_probability=0.2, ghosts_from_epoch=4
    )
    assert off != plain
    assert off.in_effect() == plain
    assert Recipe(augment="hybrid", augment_share=0.7).in_effect() != Recipe(augment="hybrid").in_effect()
    assert Recipe(ghosts=1, ghost_rule="nearer").in_effect() != Recipe(ghosts=1).in_effect()
    assert Recipe(shift=1).in_effect() != plain
    assert Recipe(augment_noise="component").in_effect() == plain
    assert Recipe(augment="hybrid", augment_noise="component").in_effect() != Recipe(augment="hybrid").in_effect()
    assert Recipe(shift_fill="nearest").in_effect() != plain
    assert Recipe(shift=0, shift_fill="nearest").in_effect() == Recipe(shift=0)


@pytest.mark.parametrize("features", FAST)
def test_few_images_are_gone_through_more_often(features):
    few, many = (recipe("fast", features=features, images=images) for images in (600, 10**6))
    assert (few.epochs - 1) * few.steps_per_epoch(600) < LEAST_STEPS <= few.epochs * few.steps_per_epoch(600)
    assert replace(few, epochs=FAST[features].epochs) == many == FAST[features]
    assert recipe("fast", features=features, images=600, epochs=3).epochs == 3
    assert recipe("fast", features=features, images=1).epochs == LEAST_STEPS
    wide = recipe("fast", features=features, images=600, batch_size=100)
    assert wide.epochs == LEAST_STEPS / 6


@pytest.mark.parametrize("name", ["paper", "paper-decay", Recipe(epochs=2)])
def test_recipes_that_say_how_long_are_kept(name):
    assert complete_recipe(name, images=10) == complete_recipe(name)


@pytest.mark.parametrize(
    ("images", "steps", "trained"), [(1, 1, 1), (15, 1, 15), (16, 1, 16), (31, 1, 16), (48, 3, 48)]
)
def test_whole_batches_leave_the_rest_out(images, steps, trained):
    whole = Recipe(batch_size=16, whole_batches=True)
    assert (whole.steps_per_epoch(images), whole.images_per_epoch(images)) == (steps, trained)
    assert Recipe(batch_size=16).images_per_epoch(images) == images
