"""What an audit trains: kinds, numbers and lengths, by images and device."""

import math

import pytest
import torch

from hitnet import HitNetError
from hitnet.audit.networks import EPOCHS, FEWER_EPOCHS, GREY_EPOCHS, MANY_IMAGES, Planned, plan
from hitnet.models import ModelChoice
from toy import toy_images

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def images(count=60_000, channels=1):
    """N images of one pixel value; nothing looks at them."""
    return toy_images(6, shape=(channels, 28, 28)).select(torch.zeros(count, dtype=torch.int64))


def test_defaults():
    assert (
        plan(images(), device=GPU)
        == [Planned(ModelChoice("hitnet", {"norm": "each"}), 12), Planned(ModelChoice("hitnet-resnet9"), 12)] * 2
    )
    assert plan(images(channels=3), device=GPU) == [Planned(ModelChoice("hitnet-resnet9"), 40)] * 4
    for channels in (1, 3):
        assert plan(images(channels=channels), device=CPU) == [Planned(ModelChoice("hitnet-small"), 8)] * 4


def test_only_one_kind():
    assert plan(images(), model="hitnet", device=CPU) == [Planned(ModelChoice("hitnet"), 12)] * 4
    assert plan(images(), model=["hitnet-resnet9"], device=CPU) == [Planned(ModelChoice("hitnet-resnet9"), 12)] * 4
    assert (
        plan(images(channels=3), model="hitnet-resnet9", device=CPU) == [Planned(ModelChoice("hitnet-resnet9"), 40)] * 4
    )


def test_of_many_images_pretrained_networks_learn_for_less_long():
    def planned(count):
        return [network.epochs for network in plan(images(count, 3), model="hitnet-pretrained", device=GPU)]

    assert planned(MANY_IMAGES) == [FEWER_EPOCHS] * 4
    assert planned(MANY_IMAGES - 1) == [EPOCHS["pretrained"]] * 4


def test_several_kinds_take_turns():
    kinds = ["hitnet-small", "hitnet", "hitnet-small"]

    def planned(**options):
        return [network.choice.name for network in plan(images(), model=kinds, device=CPU, **options)]

    names = planned()
    assert names == ["hitnet-small", "hitnet", "hitnet-small", "hitnet"]
    assert planned(count=3) == names[:3]
    assert planned(count=1) == names[:1]


def test_small_sets_get_more_epochs():
    """At least 300 steps, 100 of hitnet-small, and never fewer epochs than planned."""
    lengths = {
        count: plan(images(count), model="hitnet-small", device=CPU)[0].epochs for count in (96, 641, 100 * 128 // 8)
    }
    assert lengths == {96: 100, 641: math.ceil(100 / 6), 100 * 128 // 8: EPOCHS["small"]}
    networks = plan(images(5000), model=["hitnet", "hitnet-resnet9"], count=2, device=CPU)
    assert [network.epochs for network in networks] == [12, 30]
    assert GREY_EPOCHS["resnet9"] < 30


def test_kinds_that_cannot_audit_are_refused():
    with pytest.raises(HitNetError, match="n1 has no Hit-or-Miss layer"):
        plan(images(), model=["hitnet", "n1"], device=CPU)
    with pytest.raises(HitNetError, match="Did you mean 'hitnet-small'"):
        plan(images(), model=["hitnet", "hitnet-smal"], device=CPU)
    with pytest.raises(HitNetError, match="`networks` must be at least 1; got 0"):
        plan(images(), count=0, device=CPU)
