"""Where the work is done, and in which precision."""

from __future__ import annotations

import torch

from hitnet.errors import HitNetError


def pick_device(name: str) -> torch.device:
    """`auto`, `cpu` or `cuda` as a device, or an error in words."""
    if name not in ("auto", "cpu", "cuda"):
        raise HitNetError(f"device must be auto, cpu or cuda; got {name!r}.")
    if name == "cuda" and not torch.cuda.is_available():
        raise HitNetError("device is cuda, but PyTorch finds no CUDA GPU here. Use --device cpu.")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def mixed_precision(device: torch.device) -> torch.autocast:
    """bfloat16 matrix work on a GPU; a context that changes nothing elsewhere. Weights are cast once a use."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda", cache_enabled=False)
