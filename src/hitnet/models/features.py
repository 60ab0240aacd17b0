"""Feature extractors: images (B, C, H, W) in [0, 1] → features (B, num_features), the input of every head."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hitnet import kernels
from hitnet.capsules import MapNorm
from hitnet.errors import HitNetError
from hitnet.models import backbones

SMALL = 96  # pixels; images with both sides below this are enlarged for a backbone that was trained on photographs
ENLARGED = 160
LARGEST_TRIAL = 512  # pixels


class Features(nn.Module):
    """Base class: images (B, C, H, W) → features (B, num_features)."""

    smallest: int  # height and width that the extractor accepts
    num_features: int  # per image

    def __init__(self, in_shape: tuple[int, int, int]) -> None:
        super().__init__()
        height, width = in_shape[1:]
        if min(height, width) < self.smallest:
            raise HitNetError(
                f"Images of {height}x{width} are too small for this network: the smallest size is "
                f"{self.smallest}x{self.smallest}. Enlarge the images or choose another network (see `hitnet models`)."
            )

    def check_pretrained(self, weights: str | None) -> None:
        """Raise if a pretrained backbone's weights (None: the published ones) cannot be had or do not fit."""

    def load_pretrained(self, weights: str | None) -> None:
        """Let a pretrained backbone start from these weights; other extractors start as they are."""


def keras_init(module: nn.Module) -> None:
    """Initialise convolutions and linear layers as Keras does: Glorot-uniform weights and zero biases."""
    for part in module.modules():
        if isinstance(part, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


class PaperFeatures(Features):
    """Two 9x9 convolutions of 256 channels, strides 1 and 2, with ReLU."""

    smallest = 17

    def __init__(self, in_shape: tuple[int, int, int]) -> None:
        super().__init__(in_shape)
        channels, height, width = in_shape
        self.conv1 = nn.Conv2d(channels, 256, kernel_size=9)
        self.conv2 = nn.Conv2d(256, 256, kernel_size=9, stride=2)
        self.num_features = 256 * ((height - 17) // 2 + 1) * ((width - 17) // 2 + 1)
        keras_init(self)

    def maps(self, images: Tensor, *, relu: bool) -> Tensor:
        """Both convolutions: (B, 256, H', W'), with or without the second ReLU."""
        if kernels.wanted(images) and not images.requires_grad:
            from hitnet.kernels.two_convolutions import two_convolutions

            return two_convolutions(images, self.conv1, self.conv2, relu=relu)
        maps: Tensor = self.conv2(F.relu(self.conv1(images)))
        return F.relu(maps) if relu else maps

    def forward(self, images: Tensor) -> Tensor:
        return self.maps(images, relu=True).flatten(1)


def norm_relu(maps: Tensor, norm: nn.Module, *, pool: bool = False) -> Tensor:
    """Batch-norm → ReLU, then optionally a 2x2 max-pool; in one pass when training on a GPU."""
    # If several processes share a batch, they replace the forward method of batch-norm.
    trains_alone = norm.training and "forward" not in vars(norm)
    several = maps.numel() > maps.shape[1]  # values per channel
    fusible = trains_alone and several and maps.shape[1] % 16 == 0
    if isinstance(norm, nn.BatchNorm2d) and fusible and kernels.wanted(maps):
        from hitnet.kernels import norm_relu as fused

        return fused.norm_relu(maps, norm, pool=pool)
    maps = F.relu(norm(maps), inplace=True)
    return F.max_pool2d(maps, 2) if pool else maps


class SmallFeatures(Features):
    """Three strided convolutions of 32, 48 and 64 channels with batch-norm: fast enough for two CPU cores.

    Maps larger than 8x8 are averaged to 8x8, so the head stays small for large images.
    """

    smallest = 8
    # Multiples of 16: with other widths the threads of PyTorch's batch-norm on a CPU share cache lines and slow down.
    widths = (32, 48, 64)
    largest_map = 8

    def __init__(self, in_shape: tuple[int, int, int]) -> None:
        super().__init__(in_shape)
        channels, height, width = in_shape
        layers: list[nn.Module] = []
        for out, kernel in zip(self.widths, (5, 3, 3), strict=True):
            convolution = nn.Conv2d(channels, out, kernel, stride=2, padding=kernel // 2, bias=False)
            layers += [convolution, MapNorm(out), nn.ReLU(inplace=True)]
            channels, height, width = out, (height + 1) // 2, (width + 1) // 2
        if max(height, width) > self.largest_map:
            height, width = min(height, self.largest_map), min(width, self.largest_map)
            layers.append(nn.AdaptiveAvgPool2d((height, width)))
        self.layers = nn.Sequential(*layers)
        self.num_features = channels * height * width
        keras_init(self)

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).permute(0, 2, 3, 1).flatten(1)  # already the order in memory, so no copy


class ConvNorm(nn.Sequential):
    """3x3 convolution → batch-norm → ReLU, then optionally a 2x2 max-pool."""

    def __init__(self, in_channels: int, out_channels: int, *, pool: bool = False) -> None:
        super().__init__(nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False), MapNorm(out_channels))
        self.pool = pool

    def forward(self, input: Tensor) -> Tensor:
        return norm_relu(self[0](input), self[1], pool=self.pool)


class Residual(nn.Module):
    """Two ConvNorms, added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(ConvNorm(channels, channels), ConvNorm(channels, channels))

    def forward(self, maps: Tensor) -> Tensor:
        return maps + self.layers(maps)


class ResNet9Features(Features):
    """A residual network of nine layers (64-128-256-512 channels) with a global maximum at the end."""

    smallest = 8

    def __init__(self, in_shape: tuple[int, int, int]) -> None:
        super().__init__(in_shape)
        self.layers = nn.Sequential(
            ConvNorm(in_shape[0], 64),
            ConvNorm(64, 128, pool=True),
            Residual(128),
            ConvNorm(128, 256, pool=True),
            ConvNorm(256, 512, pool=True),
            Residual(512),
        )
        self.num_features = 512

    def forward(self, images: Tensor) -> Tensor:
        return torch.amax(self.layers(images), dim=(2, 3))


class Resample(nn.Module):
    """Images (B, C, H, W) squeezed to a square, smoothly also where they shrink, by products that ONNX knows."""

    rows: Tensor
    columns: Tensor

    def __init__(self, size: tuple[int, ...], side: int) -> None:
        super().__init__()
        for name, length in zip(("rows", "columns"), size, strict=True):
            step = length / side  # each new pixel is a mean with falling weights around its place
            places = (torch.arange(side) + 0.5)[:, None] * step - (torch.arange(length) + 0.5)
            weights = (1 - places.abs() / max(step, 1.0)).clamp_min(0)
            self.register_buffer(name, weights / weights.sum(dim=1, keepdim=True), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.rows @ images @ self.columns.T


class BackboneFeatures(Features):
    """A backbone by name: normalises images in [0, 1], repeats grey in three channels, enlarges small images.

    It is built without weights; `load_pretrained` reads them before a training. If it stays `frozen`, it sees all
    images at the size that it was made for, as in `Extractor`.
    """

    smallest = 8
    mean: Tensor
    std: Tensor

    def __init__(self, in_shape: tuple[int, int, int], name: str, *, frozen: bool = False) -> None:
        super().__init__(in_shape)
        self.name = name
        self.module, settings = backbones.architecture(name)
        side, size = settings.input_size, in_shape[1:]
        self.resample = Resample(size, side) if frozen and size != (side, side) else nn.Identity()
        size = (side, side) if frozen else size
        self.scale = max(1.0, ENLARGED / max(size)) if max(size) < SMALL and not frozen else 1.0
        self.register_buffer("mean", torch.tensor(settings.mean)[:, None, None], persistent=False)
        self.register_buffer("std", torch.tensor(settings.std)[:, None, None], persistent=False)
        most = max(LARGEST_TRIAL, settings.input_size)  # a stranger's configuration may name any size
        self.seen = (math.floor(size[0] * self.scale), math.floor(size[1] * self.scale))  # by the backbone
        trial = (min(self.seen[0], most), min(self.seen[1], most))
        advice = f"It was made for images of {settings.input_size} pixels: set `image_size` to {settings.input_size}."
        self.num_features = backbones.count_features(self.module, name, trial, advice)

    def check_pretrained(self, weights: str | None) -> None:
        backbones.read_weights(self.module, self.name, weights)

    def load_pretrained(self, weights: str | None) -> None:
        backbones.load_weights(self.module, self.name, weights)

    def forward(self, images: Tensor) -> Tensor:
        images = self.resample(images)
        if self.scale > 1:
            images = F.interpolate(images, scale_factor=self.scale, mode="bilinear", align_corners=False)
        normalised = (images - self.mean) / self.std  # grey images are repeated by this
        return self.module(normalised.contiguous(memory_format=torch.channels_last))
