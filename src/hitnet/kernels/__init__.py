"""Kernels for GPUs, written in Triton, for what PyTorch's own do too slowly; each computes what plain PyTorch would."""

from __future__ import annotations

import functools
import importlib.util

import torch
from torch import Tensor


@functools.cache
def usable(device: torch.device) -> bool:
    """Whether a device can run the kernels: they need Triton, and a GPU of Hopper's generation or later."""
    return (
        device.type == "cuda"
        and importlib.util.find_spec("triton") is not None
        and torch.cuda.get_device_capability(device) >= (9, 0)
    )


def wanted(tensor: Tensor) -> bool:
    """Whether the kernels are to work on a tensor: in mixed precision, where they can."""
    return (
        tensor.is_cuda
        and torch.is_autocast_enabled("cuda")
        and torch.get_autocast_dtype("cuda") == torch.bfloat16
        and usable(tensor.device)
    )
