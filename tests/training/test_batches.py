import pytest
import torch

from hitnet import Recipe
from hitnet.runtime.ranks import Ranks
from hitnet.training.batches import Batches, Feed
from toy import toy_images

RECIPE = Recipe(batch_size=16, shift=2)


def all_batches(images, epoch=1, first=0, recipe=RECIPE, **options):
    feed = Feed(images, torch.device("cpu"))
    return list(Batches(feed, recipe, seed=3, **options)(epoch, first))


def test_an_epoch_has_every_image_once():
    toy = toy_images(45)
    batches = all_batches(toy)
    assert [len(labels) for _, labels, _ in batches] == [16, 16, 13]
    seen = [pixels.tobytes() for batch, _, _ in batches for pixels in batch.numpy()]
    assert sorted(seen) == sorted(pixels.tobytes() for pixels in toy.pixels.numpy())
    again, other = all_batches(toy), all_batches(toy, epoch=2)
    assert all(
        torch.equal(a, b) for one, two in zip(batches, again, strict=True) for a, b in zip(one, two, strict=True)
    )
    assert not torch.equal(batches[0][0], other[0][0])


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("size", [2, 3])
def test_processes_share_every_batch(size, first):
    toy = toy_images(45)
    whole = all_batches(toy, first=first)
    parts = [all_batches(toy, first=first, ranks=Ranks(rank, size)) for rank in range(size)]
    for batch, *shares in zip(whole, *parts, strict=True):
        for i, tensor in enumerate(batch):  # pixels, labels, draws
            assert torch.equal(torch.cat([share[i] for share in shares]), tensor)
