"""Overlapping work on a GPU, also inside a captured step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


@functools.cache
def branch(main: torch.cuda.Stream) -> torch.cuda.Stream:
    """The side stream of a main stream. Each has its own, so networks on several streams do not wait for each other.

    PyTorch hands out a fixed number of streams in turn, so this cache stays small.
    """
    return torch.cuda.Stream(main.device)


@contextmanager
def beside(device: torch.device) -> Iterator[Callable[[], None]]:
    """Run a block on a side stream, so that it overlaps with the code after it. Without a GPU, it runs in order.

    Keep the tensors that the block reads until the work is joined.

    Yields:
        A function that joins the work: the main stream waits for it.
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
