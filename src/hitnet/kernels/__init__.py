"""Triton kernels for GPUs that replace slower ones of PyTorch and compute the same values."""

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
    """Return whether a device can run the kernels: they need Triton and a GPU of the Hopper generation or later."""
    return (
        device.type == "cuda"
        and importlib.util.find_spec("triton") is not None
        and torch.cuda.get_device_capability(device) >= (9, 0)
        and built(device)
    )


def built(device: torch.device) -> bool:
    """Return whether a small kernel can be compiled and launched, and Triton is new enough; log the reason if not."""
    try:
        from hitnet.kernels.norm_relu import norm_relu

        importlib.import_module("hitnet.kernels.two_convolutions")  # its imports fail before Triton 3.4

        norm_relu(torch.zeros(1, 64, 1, 2, device=device), nn.BatchNorm2d(64, device=device))
    except Exception as error:  # Triton, the C compiler that it calls, and the driver raise errors of any type
        lines = str(error).strip().splitlines()
        log.warning(
            "The GPU kernels cannot be built (%s). PyTorch's slower kernels are used instead.",
            lines[0] if lines else type(error).__name__,
        )
        return False
    return True


def wanted(tensor: Tensor) -> bool:
    """Return whether to use the kernels on a tensor: in mixed precision, on a device that can run them."""
    return (
        tensor.is_cuda
        and torch.is_autocast_enabled("cuda")
        and torch.get_autocast_dtype("cuda") == torch.bfloat16
        and usable(tensor.device)
    )
