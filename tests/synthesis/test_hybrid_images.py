"""Hybrid augmentation: examples, and the augmented set."""

import dataclasses
import sys

import numpy as np
import pytest
import torch

import hitnet
from hitnet import HitNetError
from hitnet.data import open_data
from hitnet.models.hybrid import combine
from hitnet.synthesis import augment, hybrid, hybrid_examples, write_images

BRIEF = {"model": "hitnet-small", "recipe": hitnet.choose_recipe("fast", epochs=1), "device": "cpu"}


def drawn(seed, copy, count, strength):
    """The noise added to each of `count` capsules of 4 components, with standard deviation strength · m/√n."""
    noise = np.random.Generator(np.random.PCG64([seed, copy])).standard_normal((count, 4))
    return torch.from_numpy(strength * 0.1 / 2 * noise).float()


def test_examples(toy_run, toy_set):
    examples = hybrid_examples(toy_run, toy_set.select([3, 7]), count=5, strength=2.0, device="cpu")
    assert [example.class_name for example in examples] == [
        toy_set.class_names[k] for k in toy_set.labels[[3, 7]].tolist()
    ]
    example = examples[0]
    assert torch.allclose(example.original, toy_set.pixels[3].float() / 255)
    assert example.modified.shape == example.results.shape == (5, 1, 12, 12)
    assert torch.allclose(
        example.results, combine(example.original, example.reconstruction, example.modified), atol=1e-6
    )
    assert len({tuple(picture.flatten().tolist()) for picture in example.modified}) == 5
    for i, index in enumerate([3, 7]):
        repeated = (toy_set.pixels[index : index + 1].float() / 255).expand(5, -1, -1, -1)
        expected = hybrid(toy_run.model, repeated, toy_set.labels[index].repeat(5), drawn(0, i, 5, 2.0))
        assert torch.allclose(examples[i].modified, expected.modified, atol=1e-5)
        assert torch.allclose(examples[i].reconstruction, expected.reconstruction[0], atol=1e-5)


@pytest.mark.parametrize("out", ["augmented.npz", "augmented"])
def test_an_augmented_set_is_read_back(toy_run, toy_file, toy_set, tmp_path, out):
    stream = augment(toy_run, copies=2, strength=2.0, device="cpu")
    assert stream.total == 3 * len(toy_set) + 24
    write_images(stream, tmp_path / out)
    augmented = open_data(tmp_path / out)
    train, test, original = augmented.load("train"), augmented.load("test"), open_data(toy_file).load("test")
    assert len(train) == 3 * len(toy_set)
    assert train.class_names == toy_set.class_names
    assert train.labels.bincount().tolist() == (3 * toy_set.labels.bincount()).tolist()
    key = lambda images: sorted(zip(images.labels.tolist(), map(bytes, images.pixels.numpy()), strict=True))  # noqa: E731
    assert key(test) == key(original)
    assert set(key(toy_set)) < set(key(train))
    assert len(set(key(train))) == 3 * len(toy_set)
    run = hitnet.train(tmp_path / out, **BRIEF)
    assert run.config.data["test_images"] == 24


def test_no_copy_of_a_given_image_is_tested_on(toy_run, toy_set, tmp_path):
    write_images(augment(toy_run, toy_set, copies=2, strength=0.0, device="cpu"), tmp_path / "augmented.npz")
    train, test = (open_data(tmp_path / "augmented.npz").load(split) for split in ("train", "test"))
    fifth = open_data(toy_set).load("test")
    assert (len(train), len(test)) == (3 * (len(toy_set) - len(fifth)), len(fifth))
    assert torch.equal(test.pixels, fifth.pixels)
    # Without noise a copy equals its original up to rounding.
    apart = (train.pixels.int()[:, None] - test.pixels.int()).flatten(2).abs().amax(dim=2)
    same = (toy_set.pixels.int()[:, None] - fifth.pixels.int()).flatten(2).abs().amax(dim=2)
    assert (same <= 2).sum() == len(fifth)
    assert apart.min() > 2


def test_given_images_are_all_for_training_beside_test_images(toy_run, toy_set, toy_file, tmp_path):
    tested = open_data(toy_file).load("test")
    stream = augment(toy_run, open_data(dataclasses.replace(toy_set, flip=True), test=tested), device="cpu")
    assert (stream.name, stream.flip, stream.total) == ("toy, augmented", True, 2 * len(toy_set) + len(tested))
    write_images(stream, tmp_path / "augmented.npz")
    assert torch.equal(open_data(tmp_path / "augmented.npz").load("test").pixels, tested.pixels)
    masked = dataclasses.replace(toy_set, masks=torch.ones_like(toy_set.pixels))
    with pytest.raises(HitNetError, match="must both have masks"):
        augment(toy_run, open_data(masked, test=tested), device="cpu")


def test_what_was_said_of_mirroring_is_kept(toy_file, tmp_path):
    run = hitnet.train(open_data(toy_file, flip=True), out=tmp_path / "run", **BRIEF)
    assert not open_data(toy_file).load().flip
    assert augment(run, device="cpu").flip
    assert not augment(run, toy_file, device="cpu").flip


def test_without_the_originals(toy_run, toy_set):
    stream = augment(toy_run, originals=False, device="cpu")
    splits = [(split, len(images)) for split, images in stream.batches]
    assert splits == [("train", len(toy_set)), ("test", 24)]
    assert stream.total == len(toy_set) + 24


@pytest.mark.parametrize("batch", [7, 1000])
def test_each_copy_has_noise_of_its_own(toy_run, toy_set, monkeypatch, batch):
    monkeypatch.setattr(sys.modules[augment.__module__], "BATCH", batch)
    parts = augment(toy_run, copies=2, originals=False, strength=2.0, seed=5, device="cpu").batches
    copies = torch.cat([images.pixels for split, images in parts if split == "train"])
    for copy, pixels in enumerate(copies.split(len(toy_set))):
        change = drawn(5, copy, len(toy_set), 2.0)
        expected = hybrid(toy_run.model, toy_set.pixels.float() / 255, toy_set.labels, change).result
        assert (pixels.float() - 255 * expected).abs().max() < 0.51


def test_no_strength_gives_the_images_back(toy_run, toy_set):
    _, (_, copy), _ = augment(toy_run, strength=0.0, device="cpu").batches
    assert torch.equal(copy.pixels, toy_set.pixels)


def test_masks_stay_where_they_are(toy_run, toy_set, tmp_path):
    masks = (toy_set.pixels > 100).to(torch.uint8) * 255
    masked = dataclasses.replace(toy_set, masks=masks)
    write_images(augment(toy_run, open_data(masked, test=masked), device="cpu"), tmp_path / "a.npz")
    assert torch.equal(open_data(tmp_path / "a.npz").load("all").masks, masks.repeat(3, 1, 1, 1))


def test_copies_differ_and_repeat(toy_run):
    def pixels(**options):
        batches = augment(toy_run, originals=False, strength=2.0, device="cpu", **options).batches
        return [images.pixels for split, images in batches if split == "train"]

    first, second = pixels(copies=2)
    assert not torch.equal(first, second)
    assert torch.equal(first, pixels(copies=1)[0])
    assert not torch.equal(first, pixels(seed=1)[0])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda run: augment(run, strength=-1.0, device="cpu"), "strength must be finite and not negative"),
        (lambda run: augment(run, strength=float("nan"), device="cpu"), "strength must be finite and not negative"),
        (lambda run: hybrid_examples(run, None, strength=float("inf")), "strength must be finite and not negative"),
        (lambda run: augment(run, seed=-1, device="cpu"), "seed must be a whole number from 0 on"),
        (lambda run: hybrid_examples(run, None, seed=-1), "seed must be a whole number from 0 on"),
        (lambda run: augment(run, copies=0, device="cpu"), "copies must be a whole number from 1 on"),
        (lambda run: hybrid_examples(run, None, count=0), "count must be a whole number from 1 on"),
    ],
)
def test_errors(toy_run, call, says):
    with pytest.raises(HitNetError, match=says):
        call(toy_run)
