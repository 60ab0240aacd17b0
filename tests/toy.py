"""Small sets of images that a small network can learn in a second."""

from __future__ import annotations

import torch

from hitnet import Images


def toy_images(count: int = 96, classes: int = 3, shape: tuple[int, int, int] = (1, 12, 12), seed: int = 0) -> Images:
    """Noisy images whose class is the third of the picture that is bright."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    pixels = torch.randint(0, 60, (count, *shape), generator=generator, dtype=torch.uint8)
    band = shape[1] // classes
    for i, k in enumerate(labels.tolist()):
        pixels[i, :, k * band : (k + 1) * band] += 150
    return Images.from_arrays(pixels, labels, class_names=[f"band {k}" for k in range(classes)], name="toy")
