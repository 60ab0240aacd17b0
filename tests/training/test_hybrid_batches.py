"""Differences that are added to pixels: which images get one, what it is, and what becomes of the pixels."""

import dataclasses

import numpy as np
import pytest
import torch

import hitnet
from hitnet.models.hybrid import draw_noise, hybrid
from hitnet.runtime.ranks import Ranks
from hitnet.training.batches import Feed, HybridAugmentation, add, modified_places


@pytest.mark.parametrize(("share", "count"), [(0.01, 1), (0.25, 2), (0.3, 2), (0.5, 4), (1.0, 8)])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_first_images_of_each_batch_are_modified(share, count, processes):
    batches = torch.arange(27).split(8)
    expected = [batch.tolist()[: count if len(batch) == 8 else max(1, round(3 * share))] for batch in batches]
    modified = [[] for _ in batches]
    for rank in range(processes):
        parts = [Ranks(rank, processes).part(batch) for batch in batches]
        for all_of_batch, mine, part in zip(modified, modified_places(share, batches, parts), parts, strict=True):
            assert torch.equal(mine, part[: len(mine)])  # the first ones of this process's part too
            all_of_batch += mine.tolist()
    assert modified == expected


def test_pixels_are_rounded_and_clipped_and_what_follows_is_left_alone():
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (5, 3, 4, 4), generator=generator, dtype=torch.uint8)
    difference = 200 * torch.randn(2, 2, 4, 4, generator=generator)
    before, changed = pixels.numpy().copy(), pixels.clone()
    add(changed, difference)
    for i, c, y, x in np.ndindex(*before.shape):
        expected = int(before[i, c, y, x])
        if i < 2 and c < 2:
            expected = min(255, max(0, round(expected + float(difference[i, c, y, x]))))
        assert int(changed[i, c, y, x]) == expected


class Echo(HybridAugmentation):
    """Gives back what it is asked for, to see that all of it goes together."""

    share = 0.5

    def __init__(self):
        self.calls, self.labels = [], torch.empty(0)

    def draw(self, count, generator):
        return torch.arange(count)[:, None] / 100

    def differences(self, index, noise):
        self.calls.append(len(index))
        return (index[:, None] + noise)[..., None, None]


@pytest.mark.parametrize("first", range(4))
@pytest.mark.parametrize("together", [1, 2, 3, 10])
def test_each_batch_gets_its_own_differences(first, together):
    modify, order = Echo(), torch.randperm(27, generator=torch.Generator().manual_seed(0))
    batches = torch.arange(27).split(8)
    places = modified_places(0.5, batches, batches)
    noise = modify.draw(27, None)
    given = list(modify.epoch(order, noise, places, first=first, together=together, precision="float32"))
    expected = [[order[place].item() + place / 100 for place in batch.tolist()] for batch in places[first:]]
    assert [batch.flatten().tolist() for batch in given] == [pytest.approx(values) for values in expected]
    assert [len(batch) for batch in given] == [4, 4, 4, 2][first:]
    assert len(modify.calls) == -(-4 // together) - first // together


def test_a_process_without_modified_images(source, toy):
    modify = HybridAugmentation(source.model, Feed(toy, torch.device("cpu")), strength=1.0, share=0.1)
    nothing = modify.differences(torch.empty(0, dtype=torch.long), torch.empty(0, 4))
    assert nothing.shape == (0, 1, 12, 12)
    add(pixels := toy.pixels.clone(), nothing)
    assert torch.equal(pixels, toy.pixels)


@pytest.mark.parametrize("kind", ["trained", "extra"])
def test_in_training_it_is_the_same_change_of_the_same_images(source, toy, kind):
    options = {"capsule_dim": 4, "decoder": "conv", "extra_dim": 2}
    network = (
        source.model if kind == "trained" else hitnet.models.build("hitnet-small", (3, 12, 12), 3, **options).eval()
    )
    shape = network.config.in_shape
    pixels = torch.randint(0, 256, (40, *shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    images = hitnet.Images.from_arrays(pixels, torch.arange(40) % 3, class_names=toy.class_names)
    masks = torch.full((40, 1, *shape[1:]), 255, dtype=torch.uint8)
    feed = Feed(dataclasses.replace(images, masks=masks), torch.device("cpu"), masks=True)
    augmentation = HybridAugmentation(network, feed, strength=3.0, share=0.25)
    assert augmentation.capsules.dtype == torch.float32
    noise = augmentation.draw(8, torch.Generator().manual_seed(5))
    assert torch.equal(noise, 3.0 * 0.1 / 2 * torch.randn(8, 4, generator=torch.Generator().manual_seed(5)))
    index = torch.tensor([39, 3, 3, 17, 0, 8, 21, 5])
    expected = hybrid(network, pixels[index].float() / 255, images.labels[index], noise)
    differences = augmentation.differences(index, noise)
    assert torch.allclose(differences, 255 * (expected.modified - expected.reconstruction), atol=1e-3)
    assert differences.abs().max() > 1


def test_noise_on_one_component_changes_the_capsules(source, toy):
    feed = Feed(toy, torch.device("cpu"))
    augmentation = HybridAugmentation(source.model, feed, strength=3.0, share=1.0, noise="component")
    noise = augmentation.draw(4, torch.Generator().manual_seed(5))
    assert torch.equal(noise, draw_noise(source.model, 4, torch.Generator().manual_seed(5), "component", 3.0))
    index = torch.tensor([0, 3, 3, 7])
    expected = hybrid(source.model, toy.pixels[index].float() / 255, toy.labels[index], noise)
    differences = augmentation.differences(index, noise)
    assert torch.allclose(differences, 255 * (expected.modified - expected.reconstruction), atol=1e-3)
    assert differences.abs().max() > 0.1
