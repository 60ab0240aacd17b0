"""EfficientNet-Lite0 (Tan and Le, 2019; the Lite variant of 2020): ImageNet features of photographs on a laptop.

EfficientNet-B0 without squeeze-and-excite and with ReLU6 for swish: 407 million multiplications for an image of
224x224. Its weights ship with the package; `NOTICE` beside them says where they come from. Names of parameters are
those of timm's `tf_efficientnet_lite0`, so that files of weights can be exchanged.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load as load_safetensors
from torch import Tensor, nn

from hitnet.runtime.files import shipped

NAME = "efficientnet-lite0"
WEIGHTS = Path(__file__).with_name("weights") / "efficientnet_lite0.safetensors"
WEIGHTS_SHA256 = "0261443e2f9010104e109da0ba36cea93304c3092a85e782bccd4c3737ac8c2a"
INPUT_SIZE = 224
MEAN = STD = (0.5, 0.5, 0.5)
# Of each stage: blocks, kernel, stride of the first block, expansion, channels out.
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


class SameConv(nn.Conv2d):
    """Convolution without bias, padded as TensorFlow's "SAME": with stride 2, more at the right and at the bottom."""

    def __init__(self, inward: int, outward: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(inward, outward, kernel, stride, padding, groups=groups, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride > 1:
            # Not −(−n // stride): ONNX divides towards 0.
            counts = ((n + stride - 1) // stride for n in input.shape[-2:])
            down, across = (
                max((count - 1) * stride + kernel - n, 0) for count, n in zip(counts, input.shape[-2:], strict=True)
            )
            input = F.pad(input, (across // 2, across - across // 2, down // 2, down - down // 2))
        return super().forward(input)


class NormAct(nn.BatchNorm2d):
    """Batch normalisation, and ReLU6 unless the maps are a block's result."""

    def __init__(self, channels: int, *, linear: bool = False) -> None:
        super().__init__(channels, eps=1e-3, momentum=0.01)
        self.act: nn.Module = nn.Identity() if linear else nn.ReLU6(inplace=True)

    def forward(self, input: Tensor) -> Tensor:
        maps: Tensor = self.act(super().forward(input))
        return maps


class Separable(nn.Module):
    """The first block: depthwise convolution → linear projection."""

    def __init__(self, inward: int, outward: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv_dw, self.bn1 = SameConv(inward, inward, kernel, stride, groups=inward), NormAct(inward)
        self.conv_pw, self.bn2 = SameConv(inward, outward, 1), NormAct(outward, linear=True)
        self.residual = inward == outward and stride == 1

    def forward(self, maps: Tensor) -> Tensor:
        out: Tensor = self.bn2(self.conv_pw(self.bn1(self.conv_dw(maps))))
        return out + maps if self.residual else out


class InvertedResidual(nn.Module):
    """All other blocks: expansion → depthwise convolution → linear projection, plus the input where shapes allow."""

    def __init__(self, inward: int, outward: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inward * expansion
        self.conv_pw, self.bn1 = SameConv(inward, wide, 1), NormAct(wide)
        self.conv_dw, self.bn2 = SameConv(wide, wide, kernel, stride, groups=wide), NormAct(wide)
        self.conv_pwl, self.bn3 = SameConv(wide, outward, 1), NormAct(outward, linear=True)
        self.residual = inward == outward and stride == 1

    def forward(self, maps: Tensor) -> Tensor:
        out = self.bn2(self.conv_dw(self.bn1(self.conv_pw(maps))))
        out = self.bn3(self.conv_pwl(out))
        return out + maps if self.residual else out


class EfficientNetLite0(nn.Module):
    """Images (B, 3, H, W), normalised by MEAN and STD → logits (B, num_classes); features (B, 1280) for 0 classes."""

    num_features = 1280

    def __init__(self, num_classes: int = 0) -> None:
        super().__init__()
        self.conv_stem, self.bn1 = SameConv(3, 32, 3, stride=2), NormAct(32)
        stages, inward = [], 32
        for count, kernel, stride, expansion, outward in STAGES:
            stage = nn.Sequential()
            for i in range(count):
                first = stride if i == 0 else 1
                stage.append(
                    Separable(inward, outward, kernel, first)
                    if expansion == 1
                    else InvertedResidual(inward, outward, kernel, first, expansion)
                )
                inward = outward
            stages.append(stage)
        self.blocks = nn.Sequential(*stages)
        self.conv_head, self.bn2 = SameConv(inward, self.num_features, 1), NormAct(self.num_features)
        self.classifier = nn.Linear(self.num_features, num_classes) if num_classes else nn.Identity()

    def maps(self, images: Tensor) -> Iterator[Tensor]:
        """The maps after each stage, then the last ones: (B, 1280, H / 32, W / 32), values in [0, 6]."""
        maps = self.bn1(self.conv_stem(images))
        for stage in self.blocks:
            maps = stage(maps)
            yield maps
        yield self.bn2(self.conv_head(maps))

    def forward_features(self, images: Tensor) -> Tensor:
        """Pooled features (B, 1280), each in [0, 6]."""
        *_, last = self.maps(images)
        return last.mean(dim=(2, 3))

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.forward_features(images))


class DeepLite0(EfficientNetLite0):
    """What EfficientNet-Lite0 sees at two depths, and where: (B, 3, H, W) → (B, 3568).

    The last maps know things, in two halves of the image: sleeves are above, legs below. Those of the fifth stage, in
    3 x 3 cells, know shapes and textures that ImageNet's classes do not need, such as the fingers of a hand. Both parts
    are divided by their root mean square, so that a number of either counts as much.
    """

    def forward(self, images: Tensor) -> Tensor:
        *_, middle, _, _, last = self.maps(images)
        parts = (cells(last, 2, 1), cells(middle, 3, 3))
        return torch.cat([part * (part.square().mean(dim=1, keepdim=True) + 1e-6).rsqrt() for part in parts], dim=1)


def cells(maps: Tensor, down: int, across: int) -> Tensor:
    """The mean of maps (B, C, H, W) over each cell of a grid, (B, down · across · C); a middle row belongs to two."""

    def edges(size: int, count: int) -> list[slice]:
        return [slice(i * size // count, ((i + 1) * size + count - 1) // count) for i in range(count)]

    rows, columns = edges(maps.shape[2], down), edges(maps.shape[3], across)
    return torch.cat([maps[:, :, row, column].mean(dim=(2, 3)) for row in rows for column in columns], dim=1)


def shipped_weights(*, classifier: bool = False) -> dict[str, Tensor]:
    """The weights of the package in float32, with or without the classifier, once their checksum is right."""
    return {
        name: value.float() if value.is_floating_point() else value
        for name, value in load_safetensors(shipped(WEIGHTS, WEIGHTS_SHA256)).items()
        if classifier or not name.startswith("classifier.")
    }
