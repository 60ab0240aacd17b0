"""Decoders: the capsule of one class → an image.

The components of a hit differ from 0.5 by only about m/√n = 0.025. A decoder that sees the capsule itself, as in the
paper, therefore learns the style of an image very slowly. A standardised decoder sees (capsule − 0.5) / (m/√n) + 1.
"""

import math
from abc import abstractmethod
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hitnet.capsules import CENTRE, HIT_RADIUS, CapsuleNorm, MapNorm, full_precision, in_precision_of, mask
from hitnet.models.features import keras_init, norm_relu

DECODERS = ("paper", "standardised", "conv", "none")


def standardise(capsules: Tensor, classes: Tensor, *, centre: float = CENTRE) -> Tensor:
    """(capsule − centre) / (m/√n) + 1 of one class (B,) per image, and 0 for the others: (B, K, n).

    The 1 distinguishes the central capsule from the masked ones.
    """
    scale = math.sqrt(capsules.shape[2]) / HIT_RADIUS
    return mask((capsules - centre) * scale + 1, classes)


def masked_target(images: Tensor, masks: Tensor) -> Tensor:
    """Images (B, C, H, W) with 0 where the masks (B, 1, H, W) are 0: what a decoder rebuilds if masks are known."""
    return images * (masks != 0).to(images.dtype)


class Decoder(nn.Module):
    """Base class: capsules (B, K, n), classes to decode (B,), extra components (B, e) → images (B, C, H, W)."""

    def __init__(self, in_shape: tuple[int, int, int], *, standardised: bool, centre: float) -> None:
        super().__init__()
        self.in_shape, self.standardised = in_shape, standardised
        self.centre = centre  # of the network's head

    def forward(self, capsules: Tensor, classes: Tensor, extra: Tensor | None = None) -> Tensor:
        masked = standardise(capsules, classes, centre=self.centre) if self.standardised else mask(capsules, classes)
        inputs = masked.flatten(1)
        if extra is not None:
            inputs = torch.cat([inputs, extra.to(inputs.dtype)], dim=1)
        return torch.sigmoid(self.logits(in_precision_of(next(self.parameters()), inputs)).float())

    @abstractmethod
    def logits(self, inputs: Tensor) -> Tensor:
        """Map inputs (B, K·n + e) to images (B, C, H, W) before the sigmoid."""


class DenseDecoder(Decoder):
    """The decoder of the paper and of Sabour et al. (2017): fully connected, 512 → 1024 → image."""

    def __init__(
        self, in_shape: tuple[int, int, int], in_features: int, *, standardised: bool = False, centre: float = CENTRE
    ) -> None:
        super().__init__(in_shape, standardised=standardised, centre=centre)
        values = math.prod(in_shape)
        self.layers = nn.Sequential(
            nn.Linear(in_features, 512), nn.ReLU(), nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, values)
        )
        keras_init(self)

    def logits(self, inputs: Tensor) -> Tensor:
        return self.layers(inputs).view(-1, *self.in_shape)


class Doubling(nn.Module):
    """Double the height and width of maps: nearest neighbours → 3x3 convolution → batch-norm → ReLU.

    A transposed convolution would leave a chequered pattern; enlarging before a convolution does not.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
        self.norm = MapNorm(out_channels)

    def forward(self, maps: Tensor) -> Tensor:
        return norm_relu(self.conv(F.interpolate(maps, scale_factor=2.0, mode="nearest")), self.norm)


class ConvDecoder(Decoder):
    """Linear → linear → small maps, doubled in size until they cover the image, then cropped to it.

    The maps start at 4x4 or less with 128 channels. Each doubling halves the channels, down to 32. For images of
    3x32x32, ten classes and n = 16, this decoder has 0.7 million parameters; the dense decoder has 3.8 million.
    """

    first_size, widest, narrowest, hidden = 4, 128, 32, 256

    def __init__(self, in_shape: tuple[int, int, int], in_features: int, *, centre: float = CENTRE) -> None:
        super().__init__(in_shape, standardised=True, centre=centre)
        channels, height, width = in_shape
        doublings = max(0, math.ceil(math.log2(max(height, width) / self.first_size)))
        self.start = (self.widest, *(-(-side // 2**doublings) for side in (height, width)))
        self.spread = nn.Sequential(
            nn.Linear(in_features, self.hidden), nn.ReLU(), nn.Linear(self.hidden, math.prod(self.start)), nn.ReLU()
        )
        widths = [max(self.narrowest, self.widest >> i) for i in range(doublings + 1)]
        self.blocks = nn.Sequential(*(Doubling(a, b) for a, b in pairwise(widths)))
        self.image = nn.Conv2d(widths[-1], channels, 3, padding=1)
        keras_init(self)

    def logits(self, inputs: Tensor) -> Tensor:
        maps: Tensor = self.image(self.blocks(self.spread(inputs).view(-1, *self.start)))
        height, width = self.in_shape[1:]
        top, left = (maps.shape[2] - height) // 2, (maps.shape[3] - width) // 2
        return maps[:, :, top : top + height, left : left + width]


class ExtraComponents(nn.Module):
    """Components that only the decoder sees: features (B, F) → (B, e), each of mean 0 and standard deviation 1.

    They do not enter the distance, so they can carry what does not tell the class, e.g. the background.
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
    """A decoder of `in_features` = K·n + e inputs by its name in DECODERS; None for "none"."""
    if name == "none":
        return None
    if name == "conv":
        return ConvDecoder(in_shape, in_features, centre=centre)
    return DenseDecoder(in_shape, in_features, standardised=name == "standardised", centre=centre)
