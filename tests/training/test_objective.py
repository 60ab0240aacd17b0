"""What is minimised, and which entries of a recipe change it."""

import pytest
import torch

import hitnet
from hitnet import CentripetalLoss, HitNetError, choose_model, choose_recipe
from hitnet.models import build
from hitnet.training.step import Objective
from toy import toy_images

SMALL = {"model": "hitnet-small", "device": "cpu"}


def test_label_smoothing_changes_cross_entropy_and_is_refused_elsewhere():
    images = toy_images(12)
    softmax = SMALL | {"model": choose_model("hitnet-small", head="softmax", decoder="none")}
    plain, smooth = (
        hitnet.train(images, recipe=choose_recipe(epochs=1, label_smoothing=value), **softmax).history[0]["loss"]
        for value in (0.0, 0.2)
    )
    assert plain != smooth
    with pytest.raises(HitNetError, match="label_smoothing needs"):
        hitnet.train(images, recipe=choose_recipe(epochs=1, label_smoothing=0.1), **SMALL)


@pytest.mark.parametrize("weight", [0.0, 0.5, 2.0])
def test_the_weight_of_the_misses(weight):
    network = build("hitnet-small", (1, 18, 18), 3, decoder="none")
    images, labels = torch.rand(6, 1, 18, 18), torch.tensor([0, 1, 2, 0, 1, 2])
    output = network(images, labels)
    terms = Objective(network, choose_recipe("fast", miss_weight=weight).complete(), epoch=1)(output, images, labels)
    assert terms["loss"] == CentripetalLoss(miss_weight=weight)(output.distances, labels)
    hits, misses = (CentripetalLoss(miss_weight=w)(output.distances, labels) for w in (0.0, 1.0))
    assert terms["loss"].item() == pytest.approx((hits + weight * (misses - hits)).item(), rel=1e-5)


@pytest.mark.parametrize("capsule_dim", [1, 3])
def test_capsules_of_few_components_cannot_miss(capsule_dim):
    in_cube = choose_model("hitnet-small", capsule_dim=capsule_dim)
    with pytest.raises(HitNetError, match=r"at most 0\.\d\d .* 0\.9"):
        hitnet.train(toy_images(12), model=in_cube, recipe=choose_recipe(epochs=1), device="cpu")
