"""What a classifier learns with: a Hit-or-Miss layer on features, or a network on images.

Once they are fitted, both are on the CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from hitnet.capsules import HitOrMiss, distances
from hitnet.data import Images
from hitnet.features.heads import HeadOptions, fit_heads
from hitnet.models import ModelChoice, Network, unit_images
from hitnet.runtime.device import evaluation_batch
from hitnet.training import choose_recipe, train

DROPOUT = 0.5  # labels that are mostly right need less than those of an audit


class Learner(Protocol):
    """What has learned to turn N inputs into capsules."""

    def judge(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Capsules (N, K, n), and their distances from the centre (N, K)."""
        ...


@dataclass(frozen=True)
class FeatureLearner:
    """A Hit-or-Miss layer on features (N, D).

    It computes in float64, so that the result of a row does not depend on the rows beside it.
    """

    layer: HitOrMiss

    @torch.inference_mode()
    def judge(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        capsules = self.layer(inputs)
        return capsules, distances(capsules)


def fit_features(
    features: Tensor, labels: Tensor, classes: int, *, capsule_dim: int, ghosts: int, epochs: int | None, seed: int
) -> tuple[FeatureLearner, Tensor]:
    """Fit a layer on features (N, D) and labels (N,); also distances (N, K) of rows by layers that did not see them.

    Args:
        features: float64.
        labels: Class indices.
        classes: K.
        capsule_dim: n.
        ghosts: Wrong classes per row that go unpunished.
        epochs: Passes over the rows. None: see `HeadOptions`.
        seed: Decides first weights and batches.
    """
    options = HeadOptions(dropout=DROPOUT, capsule_dim=capsule_dim, ghosts=ghosts)
    if epochs is not None:
        options = replace(options, steps=epochs * math.ceil(len(features) / options.batch))
    fitted = fit_heads(features, labels, classes, options=options, seed=seed)
    return FeatureLearner(fitted.layer), fitted.distances


@dataclass(frozen=True)
class ImageLearner:
    """A network on uint8 images (N, C, H, W)."""

    network: Network

    @torch.inference_mode()
    def judge(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        batches = inputs.split(evaluation_batch(tuple(inputs.shape[1:])))
        outputs = [self.network(unit_images(batch), reconstruct=False) for batch in batches]
        return torch.cat([output.capsules for output in outputs]), torch.cat([output.distances for output in outputs])


def fit_images(
    images: Images, model: ModelChoice, *, ghosts: int, epochs: int | None, seed: int, device: str
) -> ImageLearner:
    """Train a network on images as `hitnet.train` does."""
    recipe = choose_recipe("fast", epochs=epochs, ghosts=ghosts)
    run = train(images, model=model, recipe=recipe, seed=seed, device=device, progress=False)
    return ImageLearner(run.model.cpu().eval())
