"""Traversal: the values of a sweep, what is swept, and how much the picture changes."""

import math

import numpy as np
import pytest
import torch

from hitnet import HitNetError
from hitnet.synthesis import decode, traverse
from hitnet.synthesis.datasets import as_picture
from hitnet.synthesis.decoding import Traversal, sweep, sweep_values


def test_the_values_of_a_sweep(toy_run):
    values = sweep_values(toy_run.model, reach=2, steps=5)
    edge = 2 * 0.1 / math.sqrt(4)
    assert values.tolist() == pytest.approx([0.5 - edge, 0.5 - edge / 2, 0.5, 0.5 + edge / 2, 0.5 + edge])
    assert sweep_values(toy_run.model)[5] == 0.5


def test_a_class_by_hand(toy_run):
    traversal = traverse(toy_run, "band 1", steps=3, device="cpu")
    assert traversal.images.shape == (4, 3, 1, 12, 12)
    for component in range(4):
        for step, value in enumerate(traversal.values.tolist()):
            capsule = torch.full((1, 4), 0.5)
            capsule[0, component] = value
            by_hand = decode(toy_run.model, capsule, torch.tensor([1]))[0]
            assert torch.allclose(traversal.images[component, step], by_hand, atol=1e-5)


def test_an_image_keeps_its_other_components(toy_run, toy_set):
    traversal = traverse(toy_run, image=toy_set.pixels[0], steps=3, device="cpu")
    output = toy_run.model(toy_set.pixels[:1].float() / 255)
    label = int(output.prediction[0])
    assert traversal.class_name == f"band {label}"
    assert torch.allclose(traversal.start, output.capsules[0, label])
    capsule = traversal.start.clone()[None]
    capsule[0, 2] = traversal.values[0]
    assert torch.allclose(traversal.images[2, 0], decode(toy_run.model, capsule, torch.tensor([label]))[0], atol=1e-5)
    assert torch.allclose(traversal.original, toy_set.pixels[0].float() / 255)


def test_an_image_file_and_a_class_that_is_not_the_predicted_one(toy_run, toy_set, tmp_path):
    as_picture(toy_set.pixels[0]).save(tmp_path / "a.png")
    other = f"band {(int(toy_set.labels[0]) + 1) % 3}"
    assert traverse(toy_run, other, image=tmp_path / "a.png", device="cpu").class_name == other


def test_the_change_by_hand():
    torch.manual_seed(0)
    images = torch.rand(2, 3, 1, 4, 4)
    images[1] = images[1, 0]
    traversal = Traversal(images, torch.linspace(0, 1, 3), torch.zeros(2), "a")
    array = images[0].double().numpy()
    mean = sum(array[s] for s in range(3)) / 3
    total = sum(float(((array[s] - mean) ** 2).sum()) for s in range(3))
    assert traversal.change[0] == pytest.approx(math.sqrt(total / array.size))
    assert traversal.change[1] == pytest.approx(0, abs=1e-9)
    summary = traversal.summary()
    assert summary["component"].tolist() == [0, 1]
    assert summary["share"].sum() == pytest.approx(1)


def test_a_picture_that_never_changes_has_no_shares():
    traversal = Traversal(torch.zeros(2, 3, 1, 4, 4), torch.zeros(3), torch.zeros(2), "a")
    assert np.array_equal(traversal.summary()["share"], [0, 0])


def test_extra_components_stay(extra_network):
    values = sweep_values(extra_network, steps=2)
    extra = torch.tensor([[1.0, -1.0]])
    images = sweep(extra_network, torch.full((4,), 0.5), 2, values, extra)
    capsule = torch.full((1, 4), 0.5)
    capsule[0, 3] = values[1]
    assert torch.allclose(images[3, 1], decode(extra_network, capsule, torch.tensor([2]), extra)[0], atol=1e-5)


def test_errors(toy_run, toy_set):
    with pytest.raises(HitNetError, match="Name a class"):
        traverse(toy_run, device="cpu")
    with pytest.raises(HitNetError, match="steps must be"):
        traverse(toy_run, "band 0", steps=1, device="cpu")
    for reach in (0, float("nan"), float("inf")):
        with pytest.raises(HitNetError, match="reach must be"):
            traverse(toy_run, "band 0", reach=reach, device="cpu")
    with pytest.raises(HitNetError, match=r"shape \(1, 12, 12\); got"):
        traverse(toy_run, image=torch.zeros(1, 10, 12, dtype=torch.uint8), device="cpu")
    with pytest.raises(HitNetError, match="no class named 'bandit'"):
        traverse(toy_run, "bandit", device="cpu")
