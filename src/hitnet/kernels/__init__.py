"""Kernels for GPUs, written in Triton, for what PyTorch's own do too slowly; each computes what plain PyTorch would."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging

import torch
from torch import Tensor, nn

log = logging.getLogger("hitnet")


@functools.cache
def usable(device: torch.device) -> bool:
    """Whether a device can run the kernels: they need Triton, and a GPU of Hopper's generation or later."""
    return (
        device.type == "cuda"
        and importlib.util.find_spec("triton") is not None
        and torch.cuda.get_device_capability(device) >= (9, 0)
        and built(device)
    )


def built(device: torch.device) -> bool:
    """Whether a first small kernel can be compiled and launched, and Triton has what the others need; if not, one line
    says why."""
    try:
        from hitnet.kernels.norm_relu import norm_relu

        importlib.import_module("hitnet.kernels.two_convolutions")  # Triton before 3.4 lacks what it imports

        norm_relu(torch.zeros(1, 64, 1, 2, device=device), nn.BatchNorm2d(64, device=device))
    except Exception as error:  # whatever Triton, the C compiler that it calls, or the driver may say
        said = str(error).strip().splitlines()
        log.warning(
            "The GPU's own kernels cannot be built (%s); PyTorch's take their place, more slowly.",
            said[0] if said else type(error).__name__,
        )
        return False
    return True


def wanted(tensor: Tensor) -> bool:
    """Whether the kernels are to work on a tensor: in mixed precision, where they can."""
    return (
        tensor.is_cuda
        and torch.is_autocast_enabled("cuda")
        and torch.get_autocast_dtype("cuda") == torch.bfloat16
        and usable(tensor.device)
    )
