"""Decoders: the capsule of the one class that counts → an image.

A hit differs from 0.5 by about m/√n = 0.025 a component. Fed with the capsule itself, as in the paper, a decoder
therefore learns the style of an image very slowly; a standardised one sees (capsule − 0.5) / (m/√n) + 1.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hitnet.capsules import CENTRE, HIT_RADIUS, CapsuleNorm, MapNorm, full_precision, in_precision_of, mask, one_hot
from hitnet.models.features import keras_init, norm_relu

DECODERS = ("paper", "standardised", "conv", "none")


def standardise(capsules: Tensor, classes: Tensor, *, centre: float = CENTRE) -> Tensor:
    """Capsules (B, K, n) as (capsule − centre) / (m/√n) + 1 for the class (B,) that counts, and 0 for the others.

    The 1 keeps the central capsule apart from the capsules that are masked.
    """
    scale = math.sqrt(capsules.shape[2]) / HIT_RADIUS
    return ((capsules - centre) * scale + 1) * one_hot(classes, capsules.shape[1])[..., None]


def masked_target(images: Tensor, masks: Tensor) -> Tensor:
    """Images (B, C, H, W) with the background set to 0: what a decoder rebuilds that need not know the background.

    masks (B, 1, H, W) are 0 on the background and anything else on the object.
    """
    return images * (masks != 0).to(images.dtype)


class Decoder(nn.Module):
    """What every decoder offers: forward from capsules (B, K, n), the class to decode (B,) and, where the network
    has them, extra components (B, e), to images (B, C, H, W) in [0, 1].

    centre       where the head's capsules are measured from
    standardised whether the decoder sees the capsule's deviation from the centre instead of the capsule
    """

    def __init__(self, in_shape: tuple[int, int, int], *, standardised: bool, centre: float) -> None:
        super().__init__()
        self.in_shape, self.standardised, self.centre = in_shape, standardised, centre

    def forward(self, capsules: Tensor, classes: Tensor, extra: Tensor | None = None) -> Tensor:
        one = standardise(capsules, classes, centre=self.centre) if self.standardised else mask(capsules, classes)
        shown = one.flatten(1)
        if extra is not None:
            shown = torch.cat([shown, extra.to(shown.dtype)], dim=1)
        return torch.sigmoid(self.logits(in_precision_of(next(self.parameters()), shown)).float())

    @abstractmethod
    def logits(self, shown: Tensor) -> Tensor:
        """(B, K·n + e) → images (B, C, H, W) before the sigmoid."""


class DenseDecoder(Decoder):
    """The decoder of Sabour et al. and of the paper: fully connected, 512 → 1024 → image."""

    def __init__(
        self,
        in_shape: tuple[int, int, int],
        in_features: int,
        *,
        standardised: bool = False,
        centre: float = CENTRE,
    ) -> None:
        super().__init__(in_shape, standardised=standardised, centre=centre)
        self.layers = nn.Sequential(
            nn.Linear(in_features, 512),
            nn.ReLU(),
            nn.Linear(512, 1024),
            nn.ReLU(),
            nn.Linear(1024, math.prod(in_shape)),
        )
        keras_init(self)

    def logits(self, shown: Tensor) -> Tensor:
        logits: Tensor = self.layers(shown)
        return logits.view(-1, *self.in_shape)


class Doubling(nn.Module):
    """Maps of twice the height and width: nearest neighbours, then a 3x3 convolution, batch-norm and ReLU.

    Enlarging before convolving leaves no chequered pattern, as a transposed convolution would.
    """

    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inward, outward, 3, padding=1, bias=False)
        self.norm = MapNorm(outward)

    def forward(self, maps: Tensor) -> Tensor:
        return norm_relu(self.conv(F.interpolate(maps, scale_factor=2.0, mode="nearest")), self.norm)


class ConvDecoder(Decoder):
    """Linear → linear → small maps, doubled in size until they cover the image, then cropped to it.

    The maps start at no more than 4x4 with 128 channels, and each doubling halves the channels, down to 32.
    For images of 3x32x32, ten classes and n = 16 this makes 0.7 million parameters; the dense decoder has 3.8.
    """

    most, widest, narrowest, hidden = 4, 128, 32, 256

    def __init__(self, in_shape: tuple[int, int, int], in_features: int, *, centre: float = CENTRE) -> None:
        super().__init__(in_shape, standardised=True, centre=centre)
        channels, height, width = in_shape
        doublings = max(0, math.ceil(math.log2(max(height, width) / self.most)))
        self.start = (self.widest, *(-(-side // 2**doublings) for side in (height, width)))
        self.spread = nn.Sequential(
            nn.Linear(in_features, self.hidden), nn.ReLU(), nn.Linear(self.hidden, math.prod(self.start)), nn.ReLU()
        )
        widths = [max(self.narrowest, self.widest >> i) for i in range(doublings + 1)]
        self.blocks = nn.Sequential(*(Doubling(a, b) for a, b in pairwise(widths)))
        self.image = nn.Conv2d(widths[-1], channels, 3, padding=1)
        keras_init(self)

    def logits(self, shown: Tensor) -> Tensor:
        maps: Tensor = self.image(self.blocks(self.spread(shown).view(-1, *self.start)))
        height, width = self.in_shape[1:]
        top, left = (maps.shape[2] - height) // 2, (maps.shape[3] - width) // 2
        return maps[:, :, top : top + height, left : left + width]


class ExtraComponents(nn.Module):
    """Components for the decoder alone, one set an image: features (B, F) → (B, e), each of mean 0 and spread 1.

    They take no part in the distance, so that what does not tell the class (the background) has somewhere to go.
    """

    def __init__(self, in_features: int, extra_dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, extra_dim)
        self.norm = CapsuleNorm(extra_dim, affine=False)
        keras_init(self)

    def forward(self, features: Tensor) -> Tensor:
        return self.norm(full_precision(self.linear(features)))


def build_decoder(
    name: str, in_shape: tuple[int, int, int], in_features: int, *, centre: float = CENTRE
) -> Decoder | None:
    """A decoder by its name in DECODERS, for `in_features` = K·n + e numbers; None for "none"."""
    if name == "none":
        return None
    if name == "conv":
        return ConvDecoder(in_shape, in_features, centre=centre)
    return DenseDecoder(in_shape, in_features, standardised=name == "standardised", centre=centre)
