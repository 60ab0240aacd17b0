"""What the tests of features share."""

from __future__ import annotations

import torch
from torch import Tensor


def blobs(
    count: int = 120, classes: int = 3, width: int = 12, seed: int = 0, spread: float = 0.6
) -> tuple[Tensor, Tensor]:
    """Features around one centre per class, and labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    centres = torch.randn(classes, width, generator=generator)
    return centres[labels] * 2 + spread * torch.randn(count, width, generator=generator) + 5, labels
