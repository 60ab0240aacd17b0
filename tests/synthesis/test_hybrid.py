"""Hybrid augmentation: the formula, the class for training, and the augmented set."""

import numpy as np
import pytest
import torch

import hitnet
from hitnet import HitNetError
from hitnet.data import load
from hitnet.synthesis import HybridAugmentation, augment, decode, hybrid, hybrid_examples, write_images
from hitnet.synthesis.hybrid import combine


def test_the_formula_by_hand():
    torch.manual_seed(0)
    x, rec, mod = (torch.rand(2, 3, 4, 4, dtype=torch.float64) for _ in range(3))
    found = combine(x, rec, mod)
    for place in np.ndindex(2, 3, 4, 4):
        expected = min(1.0, max(0.0, float(mod[place]) + float(x[place]) - float(rec[place])))
        assert float(found[place]) == pytest.approx(expected)


@pytest.mark.parametrize("which", ["trained", "extra"])
def test_the_three_pictures(toy_run, extra_network, which):
    torch.manual_seed(0)
    network = toy_run.model if which == "trained" else extra_network
    images, labels = torch.rand(4, *network.config.in_shape), torch.tensor([0, 1, 2, 2])
    change = 0.1 * torch.randn(4, 4)
    found = hybrid(network, images, labels, change)
    output = network(images)
    own = output.capsules[torch.arange(4), labels]
    assert torch.allclose(found.reconstruction, decode(network, own, labels, output.extra), atol=1e-5)
    assert torch.allclose(found.modified, decode(network, own + change, labels, output.extra), atol=1e-5)
    assert torch.allclose(found.result, combine(images, found.reconstruction, found.modified), atol=1e-6)


def test_no_change_gives_the_image_back(toy_run):
    images = torch.rand(3, 1, 12, 12)
    found = hybrid(toy_run.model, images, torch.arange(3), torch.zeros(3, 4))
    assert torch.allclose(found.result, images, atol=1e-6)


def test_in_training_a_share_of_the_batch_is_replaced(toy_run):
    augmentation = HybridAugmentation(toy_run.model, strength=3.0, share=0.25)
    images, labels = torch.rand(8, 1, 12, 12), torch.arange(8) % 3
    torch.manual_seed(5)
    found = augmentation(images, labels)
    assert found.shape == images.shape
    assert torch.equal(found[2:], images[2:])
    assert not torch.equal(found[:2], images[:2])
    torch.manual_seed(5)
    noise = 3.0 * 0.1 / 2 * torch.randn(2, 4)
    assert torch.allclose(found[:2], hybrid(toy_run.model, images[:2], labels[:2], noise).result, atol=1e-6)


def test_the_network_is_a_frozen_copy(toy_run):
    network = hitnet.build("hitnet-small", (1, 12, 12), 3, capsule_dim=4).train()
    augmentation = HybridAugmentation(network, share=1.0)
    before = {name: value.clone() for name, value in augmentation.network.state_dict().items()}
    images = torch.rand(4, 1, 12, 12, requires_grad=True)
    found = augmentation(images, torch.zeros(4, dtype=torch.long))
    assert not found.requires_grad
    assert network.training
    assert all(torch.equal(value, before[name]) for name, value in augmentation.network.state_dict().items())
    with torch.no_grad():
        network.head.linear.weight.zero_()
    assert not torch.equal(augmentation.network.head.linear.weight, network.head.linear.weight)


@pytest.mark.parametrize("options", [{}, {"decoder": "conv", "extra_dim": 2}])
def test_nothing_waits_for_the_device(options):
    # Tensors on "meta" have no values: whoever asks for one, as waiting for a GPU would, gets an error.
    with torch.device("meta"):
        network = hitnet.build("hitnet-small", (1, 12, 12), 3, **options)
        found = HybridAugmentation(network)(torch.rand(8, 1, 12, 12), torch.zeros(8, dtype=torch.long))
    assert found.shape == (8, 1, 12, 12)
    with pytest.raises((RuntimeError, NotImplementedError)):
        found.sum().item()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_call_can_be_captured(toy_run):
    augmentation = HybridAugmentation(hitnet.load(toy_run.folder).model.to("cuda"), share=0.5)
    images, labels = torch.rand(8, 1, 12, 12, device="cuda"), torch.arange(8, device="cuda") % 3
    augmentation(images, labels)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = augmentation(images, labels)
    graph.replay()
    first = found.clone()
    graph.replay()
    assert not torch.equal(first[:4], found[:4])
    assert torch.equal(found[4:], images[4:])


def test_from_a_run(toy_run):
    augmentation = HybridAugmentation.from_run(
        toy_run.folder, class_names=toy_run.class_names, in_shape=(1, 12, 12), device="cpu", strength=2.0
    )
    assert augmentation.spread == pytest.approx(2.0 * 0.1 / 2)
    with pytest.raises(HitNetError, match="Give a run on the same data"):
        HybridAugmentation.from_run(toy_run, class_names=("a", "b", "c"), in_shape=(1, 12, 12), device="cpu")
    with pytest.raises(HitNetError, match="Give a run on the same data"):
        HybridAugmentation.from_run(toy_run, class_names=toy_run.class_names, in_shape=(1, 28, 28), device="cpu")


def test_examples(toy_run, toy_set):
    found = hybrid_examples(toy_run, toy_set.select([3, 7]), count=5, strength=2.0, device="cpu")
    assert [one.class_name for one in found] == [toy_set.class_names[k] for k in toy_set.labels[[3, 7]].tolist()]
    one = found[0]
    assert torch.allclose(one.original, toy_set.pixels[3].float() / 255)
    assert one.modified.shape == one.results.shape == (5, 1, 12, 12)
    assert torch.allclose(one.results, combine(one.original, one.reconstruction, one.modified), atol=1e-6)
    assert len({tuple(picture.flatten().tolist()) for picture in one.modified}) == 5


@pytest.mark.parametrize("out", ["augmented.npz", "augmented"])
def test_an_augmented_set_is_read_back(toy_run, toy_file, toy_set, tmp_path, out):
    stream = augment(toy_run, copies=2, strength=2.0, device="cpu")
    assert stream.total == 3 * len(toy_set) + 24
    write_images(stream, tmp_path / out)
    train, test, original = load(tmp_path / out), load(tmp_path / out, "test"), load(toy_file, "test")
    assert len(train) == 3 * len(toy_set)
    assert train.class_names == toy_set.class_names
    assert train.labels.bincount().tolist() == (3 * toy_set.labels.bincount()).tolist()
    key = lambda images: sorted(zip(images.labels.tolist(), map(bytes, images.pixels.numpy()), strict=True))  # noqa: E731
    assert key(test) == key(original)
    assert set(key(toy_set)) < set(key(train))
    assert len(set(key(train))) == 3 * len(toy_set)
    run = hitnet.train(tmp_path / out, model="hitnet-small", epochs=1, device="cpu")
    assert run.config.data["test_images"] == 24


def test_without_the_originals(toy_run, toy_set):
    stream = augment(toy_run, originals=False, device="cpu")
    splits = [(split, len(images)) for split, images in stream.batches]
    assert splits == [("train", len(toy_set)), ("test", 24)]
    assert stream.total == len(toy_set) + 24


def test_copies_differ_and_repeat(toy_run):
    def pixels(**options):
        batches = augment(toy_run, originals=False, strength=2.0, device="cpu", **options).batches
        return [images.pixels for split, images in batches if split == "train"]

    one, two = pixels(copies=2)
    assert not torch.equal(one, two)
    assert torch.equal(one, pixels(copies=1)[0])
    assert not torch.equal(one, pixels(seed=1)[0])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda run: HybridAugmentation(run.model, strength=-1.0), "strength must not be negative"),
        (lambda run: HybridAugmentation(run.model, share=0.0), "share must be above 0"),
        (lambda run: HybridAugmentation(hitnet.build("n1", (1, 28, 28), 3)), "no decoder"),
        (lambda run: augment(run, copies=0, device="cpu"), "copies must be at least 1"),
        (lambda run: hybrid(run.model, torch.rand(1, 1, 9, 9), torch.zeros(1).long(), torch.zeros(1, 4)), "12, 12"),
        (lambda run: hybrid_examples(run, None, count=0), "count must be at least 1"),
    ],
)
def test_errors(toy_run, call, says):
    with pytest.raises(HitNetError, match=says):
        call(toy_run)
