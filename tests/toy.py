"""Shared by tests: small sets that a small network learns in a second, and interruptions."""

from __future__ import annotations

import torch

from hitnet import Images
from hitnet.training.progress import Progress


def toy_images(count: int = 96, classes: int = 3, shape: tuple[int, int, int] = (1, 12, 12), seed: int = 0) -> Images:
    """Noisy images whose class is the third of the picture that is bright."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    pixels = torch.randint(0, 60, (count, *shape), generator=generator, dtype=torch.uint8)
    band = shape[1] // classes
    for i, k in enumerate(labels.tolist()):
        pixels[i, :, k * band : (k + 1) * band] += 150
    return Images.from_arrays(pixels, labels, class_names=[f"band {k}" for k in range(classes)], name="toy")


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
