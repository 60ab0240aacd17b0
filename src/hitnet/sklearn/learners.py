"""What a classifier learns with: a Hit-or-Miss layer on features, or a network on images.

Once they are fitted, both are on the CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from hitnet.capsules import QUICK_MOMENTUM, HitOrMiss, distances
from hitnet.data import Images
from hitnet.losses import CentripetalLoss
from hitnet.models import ModelChoice, Network, unit_images
from hitnet.runtime.device import evaluation_batch
from hitnet.training import choose_recipe, train

BATCH = 64
RATE = 3e-2
EPOCHS, LEAST_STEPS = 10, 600  # small sets get more epochs


class Learner(Protocol):
    """What has learned to turn N inputs into capsules."""

    def judge(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Capsules (N, K, n), and their distances from the centre (N, K)."""
        ...


@dataclass(frozen=True)
class FeatureLearner:
    """A Hit-or-Miss layer on standardised features (N, D).

    It computes in float64, so that the result of a row does not depend on the rows beside it.
    """

    layer: HitOrMiss
    mean: Tensor
    deviation: Tensor

    @torch.inference_mode()
    def judge(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        capsules = self.layer((inputs - self.mean) / self.deviation)
        return capsules, distances(capsules)


def fit_features(
    features: Tensor, labels: Tensor, classes: int, *, capsule_dim: int, ghosts: int, epochs: int | None, seed: int
) -> FeatureLearner:
    """Fit a layer on features (N, D) by Adam, whose rate falls in a straight line to 0. Global seeds stay as they are.

    Args:
        features: float64.
        labels: Class indices (N,).
        classes: K.
        capsule_dim: n.
        ghosts: Wrong classes per row that go unpunished.
        epochs: Passes over the rows. None: 10, and at least 600 steps.
        seed: Decides first weights and batches.
    """
    mean, deviation = features.mean(dim=0), features.std(dim=0, correction=0)
    deviation = torch.where(deviation > 0, deviation, 1.0)
    standardised = ((features - mean) / deviation).float()
    loss = CentripetalLoss(capsule_dim, ghosts=ghosts)
    per_epoch = math.ceil(len(features) / BATCH)
    if epochs is None:
        epochs = max(EPOCHS, math.ceil(LEAST_STEPS / per_epoch))
    steps = epochs * per_epoch
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = HitOrMiss(features.shape[1], classes, capsule_dim, norm="each", momentum=QUICK_MOMENTUM)
        optimizer = torch.optim.Adam(layer.parameters(), RATE)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
        for _ in range(epochs):
            for rows in torch.randperm(len(features)).split(BATCH):
                optimizer.zero_grad()
                loss(distances(layer(standardised[rows])), labels[rows]).backward()
                optimizer.step()
                schedule.step()
    return FeatureLearner(layer.double().eval(), mean, deviation)


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
