"""Branches of work on a GPU that may overlap, inside a captured step too."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


@functools.cache
def branch(main: torch.cuda.Stream) -> torch.cuda.Stream:
    """The stream beside a main one; each has its own, so that networks on several streams do not wait for one another.

    PyTorch hands out a fixed number of streams in turn: few are ever kept here.
    """
    return torch.cuda.Stream(main.device)


@contextmanager
def beside(device: torch.device) -> Iterator[Callable[[], None]]:
    """Work that need not be done before what follows; the function that it gives ends the overlap.

    Elsewhere than on a GPU the work is done at once. What it reads must be kept until it is joined.
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
    """Let a graph that is captured meanwhile have workspaces of its own, in its own memory.

    cuBLAS keeps one for each stream, and PyTorch hands out a fixed number of streams in turn: graphs of many networks
    may be captured on the same one, and would write into each other's sums wherever they overlap.
    """
    torch._C._cuda_clearCublasWorkspaces()  # made again where they are wanted
    try:
        yield
    finally:
        torch._C._cuda_clearCublasWorkspaces()
