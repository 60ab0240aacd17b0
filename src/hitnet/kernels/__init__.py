"""Triton kernels for GPUs that replace slower ones of PyTorch and compute the same values; work that overlaps there."""

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from hitnet.errors import log


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


@functools.cache
def branch(main: torch.cuda.Stream) -> torch.cuda.Stream:
    """The side stream of a main stream. Each has its own, so networks on several streams do not wait for each other.

    PyTorch hands out a fixed number of streams in turn, so this cache stays small.
    """
    return torch.cuda.Stream(main.device)


@contextmanager
def beside(device: torch.device) -> Iterator[Callable[[], None]]:
    """Run a block on a side stream, so that it overlaps with the code after it. Without a GPU, it runs in order.

    Keep the tensors that the block reads until the function that this yields is called: the main stream then waits.
    """
    if device.type != "cuda":
        yield lambda: None
        return
    main = torch.cuda.current_stream(device)
    side = branch(main)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        yield lambda: main.wait_stream(side)


@contextmanager
def own_workspaces() -> Iterator[None]:
    """Give a graph that is captured in this block its own cuBLAS workspaces, in its own memory.

    cuBLAS keeps one workspace per stream, and PyTorch hands out a fixed number of streams in turn. Graphs of several
    networks may be captured on the same stream; with a shared workspace they would overwrite each other's sums.
    """
    torch._C._cuda_clearCublasWorkspaces()  # cuBLAS allocates them again when it needs them
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()
