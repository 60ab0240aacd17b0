"""Pretrained backbones as feature extractors of a network, to be fine-tuned or kept frozen."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.models import backbone_weights, backbones
from hitnet.models.features import Features

SMALL = 96  # pixels; images with both sides below this are enlarged for a backbone that was trained on photographs
ENLARGED = 160


class BackboneFeatures(Features):
    """A backbone by name: normalises images in [0, 1], repeats grey in three channels, enlarges small images.

    It is built without weights; `load_pretrained` reads them before a training.

    Args:
        in_shape: (C, H, W) of an image.
        name: As `models.backbones.open_backbone` takes it.
    """

    smallest = 8
    mean: Tensor
    std: Tensor

    def __init__(self, in_shape: tuple[int, int, int], name: str) -> None:
        super().__init__(in_shape)
        self.name = name
        self.module, settings = backbones.architecture(name)
        self.scale = max(1.0, ENLARGED / max(in_shape[1:])) if max(in_shape[1:]) < SMALL else 1.0
        self.register_buffer("mean", torch.tensor(settings.mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(settings.std)[:, None, None], persistent=False)
        seen = [math.floor(side * self.scale) for side in in_shape[1:]]
        advice = f"It was made for images of {settings.input_size} pixels: set `image_size` to {settings.input_size}."
        self.num_features = backbones.count_features(self.module, name, (seen[0], seen[1]), advice)

    def check_pretrained(self, weights: str | None = None) -> None:
        """Raise if these weights cannot be had or do not fit."""
        backbone_weights.read_weights(self.module, self.name, weights)

    def load_pretrained(self, weights: str | None = None) -> None:
        """Read the backbone's published weights, or a .safetensors file."""
        backbone_weights.load_weights(self.module, self.name, weights)

    def forward(self, images: Tensor) -> Tensor:
        if self.scale > 1:
            images = F.interpolate(images, scale_factor=self.scale, mode="bilinear", align_corners=False)
        normalised = (images - self.mean) / self.std  # grey images are repeated by this
        features: Tensor = self.module(normalised.contiguous(memory_format=torch.channels_last))
        return features
