"""Masks in training and evaluation: the decoder rebuilds the object without its background."""

import dataclasses

import pytest
import torch

import hitnet
from hitnet import Images, Recipe, choose_model, choose_recipe, open_data
from hitnet.data.opened import match_classes
from hitnet.inference.evaluation import measure
from hitnet.training.augmentation import augment, draw
from hitnet.training.batches import Feed, HybridAugmentation
from hitnet.training.engine import Trainer
from hitnet.training.step import Step
from toy import toy_images

SMALL = {"model": choose_model("hitnet-small", capsule_dim=4), "device": "cpu"}
CPU = torch.device("cpu")


def masked_images(count=96, shape=(1, 12, 12)) -> Images:
    """Bands on a grey background; the masks say where the bands are."""
    images = toy_images(count, shape=shape)
    masks = ((images.pixels >= 150).any(dim=1, keepdim=True) * 255).to(torch.uint8)
    return dataclasses.replace(images, pixels=images.pixels + 60, masks=masks)


def make_step(images, recipe):
    network = hitnet.models.build("hitnet-small", images.shape, images.num_classes, capsule_dim=4)
    return Step(network, recipe, CPU)


@pytest.mark.parametrize("shape", [(1, 12, 12), (3, 12, 12)])
def test_masks_are_augmented_with_their_images(shape):
    images = masked_images(16, shape)
    recipe = Recipe(shift=2, flip=True, cutout=4)
    draws = draw(recipe, 16, (12, 12), torch.Generator().manual_seed(0))
    pixels = torch.cat([images.pixels, images.masks], dim=1)
    seen, target = make_step(images, recipe).augmented((pixels, images.labels, draws))
    assert torch.equal(seen, augment(recipe, images.pixels, draws).float() / 255)
    assert not torch.equal(seen, target)
    for i in range(16):
        alone = images.pixels[i : i + 1] * (images.masks[i : i + 1] != 0)
        assert torch.equal(target[i], augment(recipe, alone, draws[i : i + 1])[0].float() / 255)


@pytest.mark.parametrize("channels", [1, 2])
def test_nothing_waits_for_the_device(channels):
    # Tensors on "meta" have no values: whoever asks for one, as waiting for a GPU would, gets an error.
    with torch.device("meta"):
        network = hitnet.models.build("hitnet-small", (1, 12, 12), 3)
        batch = (
            torch.zeros(8, channels, 12, 12, dtype=torch.uint8),
            torch.zeros(8, dtype=torch.long),
            torch.zeros(8, 5, dtype=torch.long),
        )
        images, target = Step(network, Recipe(shift=2, flip=True, cutout=3), CPU).augmented(batch)
    assert images.is_meta
    assert images.shape == target.shape == (8, 1, 12, 12)


def test_hybrid_images_are_masked_after_they_are_made(source):
    images = masked_images(8)

    def first_batch(given):
        network = hitnet.models.build("hitnet-small", images.shape, images.num_classes, capsule_dim=4)
        feed = Feed(given, CPU, masks=True)
        modify = HybridAugmentation(source.model, feed, strength=3.0, share=1.0)
        trainer = Trainer(network, feed, None, Recipe(), seed=0, device=CPU, modify=modify)
        return trainer, next(trainer.batches(1, 0))

    trainer, batch = first_batch(images)
    pixels, masks, draws = batch[0][:, :1], batch[0][:, 1:], batch[2]
    assert torch.equal(pixels, first_batch(dataclasses.replace(images, masks=None))[1][0])
    assert sorted(map(bytes, masks.numpy())) == sorted(map(bytes, images.masks.numpy()))
    assert not set(map(bytes, pixels.numpy())) & set(map(bytes, images.pixels.numpy()))
    seen, target = trainer.step.augmented(batch)
    assert torch.equal(target, seen * (augment(trainer.step.recipe, masks, draws) != 0))


def test_the_decoder_learns_the_object_alone():
    images = masked_images()
    options = {"recipe": choose_recipe(epochs=15, batch_size=16, learning_rate=5e-3, shift=0), **SMALL}
    background = images.masks == 0
    shown = {}
    for name, given in {"masked": images, "plain": dataclasses.replace(images, masks=None)}.items():
        run = hitnet.train(open_data(given, test=given), **options)
        assert run.history[-1]["test_error"] < 5  # masks are no part of what is tested
        with torch.inference_mode():
            shown[name] = run.model(images.pixels.float() / 255).reconstruction
    assert shown["masked"][background].mean() < 0.1
    assert shown["plain"][background].mean() > 0.25
    assert shown["masked"][~background].mean() > 0.6


def test_evaluation_compares_with_the_masked_image():
    images = masked_images(20)
    network = hitnet.models.build("hitnet-small", (1, 12, 12), 3, capsule_dim=4).eval()
    with torch.inference_mode():
        rebuilt = network(images.pixels.float() / 255).reconstruction.double()
    target = images.pixels.double() / 255 * (images.masks != 0)
    assert measure(network, images).mse == pytest.approx((rebuilt - target).square().mean().item(), rel=1e-5)
    whole = measure(network, dataclasses.replace(images, masks=None)).mse
    assert whole == pytest.approx((rebuilt - images.pixels.double() / 255).square().mean().item(), rel=1e-5)


def test_masks_and_all_else_survive_the_matching_of_classes():
    images = dataclasses.replace(masked_images(6), paths=tuple("abcdef"), flip=True)
    matched = match_classes(images, ("band 2", "band 1", "band 0"))
    assert matched.labels.tolist() == [2, 1, 0, 2, 1, 0]
    assert torch.equal(matched.masks, images.masks)
    assert (matched.paths, matched.flip, matched.name) == (images.paths, True, images.name)


def test_other_masks_are_other_data():
    images = masked_images(6)
    without = dataclasses.replace(images, masks=None)
    other = dataclasses.replace(images, masks=255 - images.masks)
    assert len({images.fingerprint, without.fingerprint, other.fingerprint}) == 3
