"""Which judges an audit chooses, and what it says of them."""

import logging

import numpy as np
import pytest
import torch

import hitnet
from hitnet.audit import FeatureHeads, FineTuned, Judgement, NetworksAndHeads, NewNetworks
from hitnet.audit.choice import FEW, SuitableJudges
from hitnet.data import Images
from toy import colour_images, toy_images

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def blank(count, channels):
    return Images.from_arrays(np.zeros((count, channels, 2, 2), np.uint8), np.arange(count) % 2)


@pytest.mark.parametrize(
    ("images", "device", "judges", "reason"),
    [
        ((5000, 3), CPU, FeatureHeads(seed=4), "heads on a frozen, pretrained backbone (colour images, no GPU)"),
        ((50, 3), CPU, FeatureHeads(seed=4), "heads on a frozen, pretrained backbone (colour images, no GPU)"),
        (
            (50, 3),
            GPU,
            FineTuned(seed=4),
            "a pretrained backbone, fine-tuned and frozen (colour images, a GPU)",
        ),
        (
            (20_000, 3),
            GPU,
            FineTuned(seed=4),
            "a pretrained backbone, fine-tuned (20,000 colour images or more, a GPU)",
        ),
        (
            (FEW - 1, 1),
            CPU,
            NetworksAndHeads(NewNetworks(seed=4), FeatureHeads(seed=4)),
            "networks from scratch and heads on a frozen backbone (fewer than 5,000 grey images)",
        ),
        (
            (FEW - 1, 1),
            GPU,
            NetworksAndHeads(NewNetworks(seed=4), FeatureHeads(seed=4)),
            "networks from scratch and heads on a frozen backbone (fewer than 5,000 grey images)",
        ),
        (
            (FEW, 1),
            CPU,
            NewNetworks(seed=4, neighbours=True),
            "networks trained from scratch and the most similar images (many grey images, no GPU)",
        ),
        ((FEW, 1), GPU, NewNetworks(seed=4), "networks trained from scratch (many grey images)"),
    ],
)
def test_the_choice_and_its_reason(images, device, judges, reason):
    assert SuitableJudges(4).choose(blank(*images), device) == (judges, reason)


@pytest.mark.parametrize(
    ("images", "kind", "who"),
    [
        (
            toy_images(12),
            NetworksAndHeads,
            "networks from scratch and heads on a frozen backbone (fewer than 5,000 grey images)",
        ),
        (colour_images(12), FeatureHeads, "heads on a frozen, pretrained backbone (colour images, no GPU)"),
    ],
    ids=["grey", "colour"],
)
def test_an_audit_says_who_judges(images, kind, who, monkeypatch, caplog):
    asked = []

    def judge(self, case):
        asked.append((self, case))
        distances = np.full((1, len(case.images), case.images.num_classes), 1.0, np.float32)
        return Judgement(distances, case.images, {"models": 1, "model": "made up", "networks": []})

    monkeypatch.setattr(kind, "judge", judge)
    with caplog.at_level(logging.INFO, "hitnet"):
        hitnet.audit_labels(images, device="cpu")
    assert caplog.messages == [f"Labels are judged by {who}. Set `judges` to choose otherwise."]
    ((judges, case),) = asked
    assert judges == kind()
    assert case.device == CPU
    assert case.split == "all"


def test_judges_that_are_asked_for_are_not_commented(caplog):
    with caplog.at_level(logging.INFO, "hitnet"):
        networks = NewNetworks("hitnet-small", 1, hitnet.choose_recipe(epochs=1))
        hitnet.audit_labels(toy_images(12), judges=networks, device="cpu")
    assert not any("judged by" in message for message in caplog.messages)
