"""Shared by tests: small sets that a small network learns in a second, and interruptions."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import ClassVar

import torch
from PIL import Image
from torch import Tensor, nn

from hitnet import Images
from hitnet.runtime.progress import Progress


def toy_images(count: int = 96, classes: int = 3, shape: tuple[int, int, int] = (1, 12, 12), seed: int = 0) -> Images:
    """Noisy images whose class is the third of the picture that is bright."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    pixels = torch.randint(0, 60, (count, *shape), generator=generator, dtype=torch.uint8)
    band = shape[1] // classes
    for i, k in enumerate(labels.tolist()):
        pixels[i, :, k * band : (k + 1) * band] += 150
    return Images.from_arrays(pixels, labels, class_names=[f"band {k}" for k in range(classes)], name="toy")


def colour_images(count: int = 60, side: int = 16, seed: int = 0) -> Images:
    """Noisy colour images of the classes red, green and blue."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    pixels = torch.randint(0, 120, (count, 3, side, side), generator=generator, dtype=torch.uint8)
    pixels[torch.arange(count), labels] += 100
    return Images.from_arrays(pixels, labels, class_names=["red", "green", "blue"], name="colours")


def write_images(root: Path, images: Images) -> Path:
    """Write the images as PNG files in class folders."""
    for i, k in enumerate(images.labels.tolist()):
        folder = root / images.class_names[k]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = images.pixels[i].permute(1, 2, 0).squeeze(2).numpy()
        Image.fromarray(pixels).save(folder / f"{i:03}.png")
    return root


class TinyBackbone(nn.Module):
    """A backbone of 8 features, as timm would build it: convolution, batch-norm, ReLU and the mean of each map."""

    pretrained_cfg: ClassVar[dict[str, str]] = {"classifier": "fc"}

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)

    def forward(self, images: Tensor) -> Tensor:
        return torch.relu(self.norm(self.conv(images))).mean(dim=(2, 3))


def write_mnist(folder: Path, images: Images) -> None:
    """Write the images as the four files of MNIST; the first 20 are the test images."""
    folder.mkdir(parents=True)
    for name, split in (("train", images), ("t10k", images.first(20))):
        for kind, array in (("images-idx3", split.pixels[:, 0]), ("labels-idx1", split.labels.to(torch.uint8))):
            head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + array.numpy().tobytes()))


class Counted(Progress):
    """Notes the parts of the work that begin, and their steps."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, int | None, str]] = []
        self.steps: list[int] = []

    def part(self, name: str, steps: int | None = None, unit: str = "steps") -> None:
        self.parts.append((name, steps, unit))

    def step(self, count: int = 1) -> None:
        self.steps.append(count)


class Stop(Exception):
    """What `Interrupting` raises."""


class Interrupting(Progress):
    """Interrupts a training after `after` steps, by raising `Stop`."""

    def __init__(self, after: int) -> None:
        self.left = after

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Stop
