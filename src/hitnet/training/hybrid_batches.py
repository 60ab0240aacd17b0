"""Hybrid augmentation during training: a trained network modifies the first images of each batch (see models.hybrid).

What is added to an image depends only on the image and on noise that is drawn for it. The differences of several
batches are therefore computed at once: on a GPU, where a step is one captured graph, dozens of launches per batch
would take a noticeable part of the time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hitnet.data import ImageSet
from hitnet.errors import HitNetError
from hitnet.models.hybrid import BATCH, Noise, before_and_after, draw_noise, encode_batch, need_decoder
from hitnet.models.inference import to_device
from hitnet.models.network import Network, weights_fingerprint
from hitnet.runtime.device import training_precision
from hitnet.runtime.files import expand
from hitnet.training.batches import Feed, dealt
from hitnet.training.recipes import Recipe
from hitnet.training.runs import Run, open_run


class HybridAugmentation:
    """Hybrid augmentation of the images of a feed, different in every epoch.

    The images themselves never change: they are encoded here, once, and training only decodes.

    Args:
        network: See `frozen_network`; on the feed's device.
        feed: The images.
        strength: Spread of the noise that is added to each capsule component, in units of m/√n.
        share: Part of each batch that is modified: its first images.
        noise: Which noise (see models.hybrid).
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
        """What is added to the images of an epoch's batches, from number `first` on.

        Args:
            order: The image at each place of the epoch.
            noise: What was drawn for each place.
            places: The places of each batch that are modified.
            together: Compute the differences of this many batches at once.
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


def hybrid_augmentation(
    recipe: Recipe, run: Run | str | Path | None, images: ImageSet, device: torch.device
) -> tuple[Prepare | None, dict[str, Any] | None]:
    """What prepares the modification of images by this recipe, if it has any, and what a run's configuration keeps."""
    if recipe.augment == "none":
        if run is not None:
            raise HitNetError("`augment_from` names a run, but the recipe has no augmentation: set `augment` = hybrid.")
        return None, None
    if run is None:
        raise HitNetError(
            "Hybrid augmentation modifies images with a trained network: set `augment_from` to a run that was trained "
            "on the same classes."
        )
    trained = open_run(run)
    network = frozen_network(trained, class_names=images.class_names, in_shape=images.shape, device=device)
    prepare = partial(
        HybridAugmentation,
        network,
        strength=recipe.augment_strength,
        share=recipe.augment_share,
        noise=recipe.augment_noise,
    )
    folder = None if trained.folder is None else str(expand(trained.folder).absolute())
    return prepare, {"run": folder, "weights": weights_fingerprint(network)}


def frozen_network(
    trained: Run, *, class_names: Sequence[str], in_shape: tuple[int, int, int], device: torch.device
) -> Network:
    """A copy of a run's network that modifies images of these classes and this shape; raises HitNetError if it cannot.

    It is in evaluation mode, on the device, in the memory order that is fastest for convolutions.
    """
    need_decoder(trained.model)
    if trained.class_names != tuple(class_names) or trained.config.model.in_shape != tuple(in_shape):
        raise HitNetError(
            f"The run to augment from was trained on images of {trained.config.model.in_shape} in "
            f"{len(trained.class_names)} classes ({', '.join(trained.class_names[:10])}); these are images of "
            f"{tuple(in_shape)} in {len(class_names)} classes ({', '.join(class_names[:10])}). "
            "Give a run on the same data."
        )
    network = copy.deepcopy(trained.model).to(device).eval().requires_grad_(False)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
