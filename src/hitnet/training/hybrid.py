"""Hybrid augmentation: a trained network modifies the images during training (see synthesis.hybrid_images)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hitnet.data import ImageSet
from hitnet.errors import HitNetError
from hitnet.files import expand
from hitnet.models.coding import BATCH, before_and_after, component_spread, encode_batch, need_decoder
from hitnet.models.network import Network, weights_fingerprint
from hitnet.training.evaluation import to_device
from hitnet.training.feed import Feed
from hitnet.training.modification import Prepare
from hitnet.training.recipes import Recipe
from hitnet.training.runs import Run, open_run


class HybridAugmentation:
    """Hybrid augmentation of the images of a feed (see `training.modification.Modify`).

    The images themselves never change: they are encoded here, once, and training only decodes.

    Args:
        network: See `frozen_network`; on the feed's device.
        feed: The images.
        strength: Spread of the noise that is added to each capsule component, in units of m/√n.
        share: Part of each batch that is modified.
    """

    @torch.no_grad()
    def __init__(self, network: Network, feed: Feed, *, strength: float, share: float) -> None:
        self.network, self.share, self.labels = network, share, feed.labels
        self.spread = strength * component_spread(network)
        channels = network.config.in_shape[0]  # masks may follow
        batches = [
            encode_batch(network, to_device(pixels[:, :channels], feed.device), labels)
            for pixels, labels in feed.in_order(BATCH)
        ]
        self.capsules = torch.cat([capsules for capsules, _ in batches])
        extras = [extra for _, extra in batches if extra is not None]
        self.extra = torch.cat(extras) if extras else None

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        return self.spread * torch.randn(count, self.network.config.capsule_dim, generator=generator)

    @torch.no_grad()
    def differences(self, index: Tensor, noise: Tensor) -> Tensor:
        """255 (X_mod − X_rec), which the caller adds to the pixels."""
        if not len(index):
            return noise.new_empty(0, *self.network.config.in_shape)
        extra = None if self.extra is None else self.extra[index]
        before, after = before_and_after(self.network, self.labels[index], self.capsules[index], extra, noise)
        return 255 * (after - before)


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
    trained = run if isinstance(run, Run) else open_run(run)
    network = frozen_network(trained, class_names=images.class_names, in_shape=images.shape, device=device)
    modify = partial(HybridAugmentation, network, strength=recipe.augment_strength, share=recipe.augment_share)
    folder = None if trained.folder is None else str(expand(trained.folder).absolute())
    return modify, {"run": folder, "weights": weights_fingerprint(network)}
