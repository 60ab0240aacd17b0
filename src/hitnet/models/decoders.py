"""Decoders: the capsules of the one class that counts → an image."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from hitnet.capsules import CENTRE, HIT_RADIUS, mask, one_hot
from hitnet.models.features import keras_init


class DenseDecoder(nn.Module):
    """The decoder of Sabour et al. and of the paper: all capsules but one set to 0, then 512 → 1024 → image.

    standardise=False feeds the capsule itself, as the paper does. A hit differs from 0.5 by about m/√n = 0.025 a
    component, so the decoder then learns the style of an image very slowly. standardise=True feeds
    (capsule − 0.5) / (m/√n) + 1 where the class is on and 0 elsewhere.
    """

    def __init__(
        self, in_shape: tuple[int, int, int], num_classes: int, capsule_dim: int, *, standardise: bool = False
    ) -> None:
        super().__init__()
        self.in_shape, self.standardise = in_shape, standardise
        self.scale = math.sqrt(capsule_dim) / HIT_RADIUS
        self.layers = nn.Sequential(
            nn.Linear(num_classes * capsule_dim, 512),
            nn.ReLU(),
            nn.Linear(512, 1024),
            nn.ReLU(),
            nn.Linear(1024, math.prod(in_shape)),
        )
        keras_init(self)

    def forward(self, capsules: Tensor, classes: Tensor) -> Tensor:
        """Capsules (B, K, n) and the class to decode (B,) → images (B, C, H, W) in [0, 1]."""
        if self.standardise:
            shown = ((capsules - CENTRE) * self.scale + 1) * one_hot(classes, capsules.shape[1])[..., None]
        else:
            shown = mask(capsules, classes)
        return torch.sigmoid(self.layers(shown.flatten(1)).float()).view(-1, *self.in_shape)
