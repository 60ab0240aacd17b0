"""Tests leave PyTorch's arithmetic as they found it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def own_arithmetic() -> Iterator[None]:
    """Leave oneDNN as it was before.

    On a CPU without bfloat16, PyTorch switches oneDNN off for the whole process once a test asks for bfloat16, and all
    later tests would compare results of other arithmetic.
    """
    before = torch._C._get_mkldnn_enabled()
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)
