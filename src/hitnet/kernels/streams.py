"""Branches of work on a GPU that may overlap, inside a captured step too."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


@functools.cache
def branch(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


@contextmanager
def beside(device: torch.device) -> Iterator[Callable[[], None]]:
    """Work that need not be done before what follows; the function that it gives ends the overlap.

    Elsewhere than on a GPU the work is done at once. What it reads must be kept until it is joined.
    """
    if device.type != "cuda":
        yield lambda: None
        return
    side, main = branch(device), torch.cuda.current_stream(device)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        yield lambda: main.wait_stream(side)
