"""The images of a training in batches: their order in each epoch, what is drawn for them, and how they are modified.
The random generators behind it: the seed of each epoch, and states that are kept and restored.

There is one copy of the images on the device for all networks, or they are files that are read during training. All
else follows from the seed and the number of the epoch. An epoch can therefore be resumed at any batch, and each of
several processes finds its own part of every batch.

In hybrid augmentation, a trained network modifies the first images of each batch (see models.hybrid). What is added to
an image depends only on the image and on noise that is drawn for it. The differences of several batches are therefore
computed at once: on a GPU, where a step is one captured graph, dozens of launches per batch would take a noticeable
part of the time.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import torch
from torch import Tensor

from hitnet.data import ImageSet
from hitnet.models.hybrid import BATCH, Noise, before_and_after, draw_noise, encode_batch
from hitnet.models.network import Network, to_device
from hitnet.runtime.device import evaluation_batch, sent, training_precision
from hitnet.runtime.ranks import SINGLE, Ranks
from hitnet.training.augmentation import draw
from hitnet.training.recipes import Recipe
from hitnet.training.step import Batch

TOGETHER = 2**20  # pixels whose differences are computed at once, but at least one batch
RANK_STEP = 0x5851F42D4C957F2D  # between the seeds of two processes: more than any number of epochs


def epoch_seed(seed: int, epoch: int, rank: int = 0) -> int:
    """One seed per epoch and process, so that an epoch can be repeated without the epochs before it."""
    return (seed * 1_000_003 + epoch + rank * RANK_STEP) % 2**63


@contextmanager
def own_randomness() -> Iterator[None]:
    """Restore the caller's random state at the end."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        yield


def random_state(device: torch.device, mark: str = "") -> dict[str, Tensor]:
    """The state of the random generators that a step draws from; `mark` stands before the names."""
    state = {f"{mark}random.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state[f"{mark}random.cuda"] = torch.cuda.get_rng_state()
    return state


def set_random_state(state: dict[str, Tensor], mark: str = "") -> None:
    """Restore a random state; where more processes resume a training than began it, the others have none."""
    if f"{mark}random.cpu" in state:
        torch.set_rng_state(state[f"{mark}random.cpu"].to(torch.uint8))
    if f"{mark}random.cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state[f"{mark}random.cuda"])


class Feed:
    """A set of images for training steps; with `masks`, known masks follow the images as a last channel."""

    def __init__(self, images: ImageSet, device: torch.device, *, masks: bool = False) -> None:
        self.device = device
        self.places = torch.arange(len(images))  # of its images among those of the source
        self.all_labels = images.labels.to(device)  # of the source
        self.shape = images.shape
        self.size = (images.shape[1], images.shape[2])
        self.flip = images.flip
        self.source = images.on_device(device, masks=masks)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def labels(self) -> Tensor:
        return self.all_labels[self.places.to(self.device)]

    def select(self, index: Tensor | None) -> "Feed":
        """The images at `index`, or all of them, from the same copy."""
        part = copy.copy(self)
        part.places = self.places if index is None else self.places[index]
        return part

    def batches(self, parts: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Pixels (B, C, H, W) and labels (B,) of the images at each part's indices, on the device."""
        indices, labels = dealt(self.places, parts, self.device), self.all_labels
        if isinstance(self.source, Tensor):
            source = self.source
            return ((source[index], labels[index]) for index in indices)
        read = self.source.read([self.places[part] for part in parts])
        return ((pixels.to(self.device), labels[index]) for pixels, index in zip(read, indices, strict=True))

    def in_order(self, batch_size: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """The whole set from its first image to its last."""
        return self.batches(torch.arange(len(self)).split(batch_size or evaluation_batch(self.shape)))


def dealt(values: Tensor, places: Sequence[Tensor], device: torch.device) -> tuple[Tensor, ...]:
    """Split the rows that were drawn for an epoch by batch, and send them to the device."""
    return sent(values[torch.cat(list(places))], device).split([len(batch) for batch in places])


class HybridAugmentation:
    """Hybrid augmentation of the images of a feed by a network (see `configuration.modifying_network`) on its device.

    It differs in every epoch. The images themselves never change: they are encoded here, once, and training only
    decodes. Strength, share and kind of noise are those of a `Recipe`.
    """

    @torch.no_grad()
    def __init__(self, network: Network, feed: Feed, *, strength: float, share: float, noise: Noise = "normal") -> None:
        self.network, self.strength, self.share, self.labels = network, strength, share, feed.labels
        self.noise: Noise = noise
        channels = network.config.in_shape[0]  # masks may follow
        batches = [
            encode_batch(network, to_device(pixels[:, :channels], feed.device), labels)
            for pixels, labels in feed.in_order(BATCH)
        ]
        self.capsules = torch.cat([capsules for capsules, _ in batches])
        extras = [extra for _, extra in batches if extra is not None]
        self.extra = torch.cat(extras) if extras else None

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw noise for `count` images: (count, n), on the CPU."""
        return draw_noise(self.network, count, generator, self.noise, self.strength)

    @torch.no_grad()
    def differences(self, index: Tensor, noise: Tensor) -> Tensor:
        """255 (X_mod − X_rec) of the images at `index` (B,): (B, C, H, W), to be added to pixels from 0 to 255.

        All tensors are on the device, and nothing here waits for it.
        """
        if not len(index):
            return noise.new_empty(0, *self.network.config.in_shape)
        extra = None if self.extra is None else self.extra[index]
        before, after = before_and_after(self.network, self.labels[index], self.capsules[index], extra, noise)
        return 255 * (after - before)

    def epoch(
        self, order: Tensor, noise: Tensor, places: Sequence[Tensor], *, first: int, together: int, precision: str
    ) -> Iterator[Tensor]:
        """What is added to the images of an epoch's batches, from number `first` on, `together` batches at once.

        `order` is the image at each place of the epoch, `noise` what was drawn for it; `places` of each batch are
        modified.
        """
        # Groups are counted from the start of the epoch even if it is resumed: the last bits of a decoded image depend
        # on how many images are decoded together.
        begun, device = first - first % together, self.labels.device
        groups = [places[start : start + together] for start in range(begun, len(places), together)]
        whole = [torch.cat(list(group)) for group in groups]
        indices, noises = dealt(order, whole, device), dealt(noise, whole, device)

        def made() -> Iterator[Tensor]:
            for group, index, drawn in zip(groups, indices, noises, strict=True):
                with training_precision(device, precision):
                    added = self.differences(index, drawn)
                yield from added.split([len(batch) for batch in group])

        return islice(made(), first - begun, None)


Prepare = Callable[[Feed], HybridAugmentation]  # encodes the images of a feed in advance


class Batches:
    """The batches of any epoch of one training. The augmentation is drawn here, and the training step applies it."""

    def __init__(
        self, feed: Feed, recipe: Recipe, *, seed: int, modify: HybridAugmentation | None = None, ranks: Ranks = SINGLE
    ) -> None:
        self.feed, self.recipe, self.seed, self.modify, self.ranks = feed, recipe, seed, modify, ranks

    def __call__(self, epoch: int, first: int) -> Iterator[Batch]:
        """The batches of an epoch from number `first` on, or this process's part of them. No image comes twice."""
        count = len(self.feed)
        generator = torch.Generator().manual_seed(epoch_seed(self.seed, epoch))
        order = torch.randperm(count, generator=generator)
        draws = draw(self.recipe, count, self.feed.size, generator)
        whole = torch.arange(self.recipe.images_per_epoch(count)).split(self.recipe.batch_size)
        parts = [self.ranks.part(places) for places in whole]
        differences = None
        if self.modify is not None:
            noise, places = self.modify.draw(count, generator), modified_places(self.modify.share, whole, parts)
            together = max(1, TOGETHER // (len(whole[0]) * math.prod(self.feed.shape)))
            differences = self.modify.epoch(
                order, noise, places, first=first, together=together, precision=self.recipe.precision
            )
        taken = self.feed.batches([order[places] for places in parts[first:]])
        dealt_draws = dealt(draws, parts[first:], self.feed.device)

        def joined() -> Iterator[Batch]:
            for (pixels, labels), own in zip(taken, dealt_draws, strict=True):
                if differences is not None:
                    add(pixels, next(differences))
                yield pixels, labels, own

        return joined()


def modified_places(share: float, batches: Sequence[Tensor], parts: Sequence[Tensor]) -> list[Tensor]:
    """The places in an epoch whose images this process modifies: the first of each batch, if in its part."""
    ends = [int(batch[0]) + max(1, round(share * len(batch))) for batch in batches]
    return [part[part < end] for part, end in zip(parts, ends, strict=True)]


def add(pixels: Tensor, difference: Tensor) -> None:
    """Add a difference (B, C, H, W) to the first images and channels of uint8 pixels, in place, rounded and clipped."""
    picture = pixels[: difference.shape[0], : difference.shape[1]]
    picture.copy_((picture + difference).round_().clamp_(0, 255))
