"""Matlab files: SVHN's cropped digits and the original affNIST."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hitnet.data.known.matlab import MatlabError, read_variables
from hitnet.errors import HitNetError
from hitnet.runtime.files import check_regular

LARGEST = 8 << 30  # bytes

Arrays = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def read_svhn(path: Path) -> Arrays:
    """Images (N, 3, 32, 32) and digits (N,) of an SVHN file; the digit 0, stored as class 10, is 0."""
    content = _load(path, ("X", "y"))
    x, y = content["X"], content["y"]
    if isinstance(x, dict) or isinstance(y, dict):
        raise HitNetError(f"{path}: X and y must be arrays. Check that it is the file its name says.")
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[:3] != (32, 32, 3) or y.size != x.shape[3]:
        raise HitNetError(
            f"{path}: X must be uint8 (32, 32, 3, N) and y (N, 1); got {x.dtype} {x.shape} and {y.shape}."
        )
    labels = _digits(y, path, low=1, high=10) % 10
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), labels


def read_affnist(path: Path) -> Arrays:
    """Images (N, 40, 40) and digits (N,) of an original affNIST file."""
    content = _load(path, ("affNISTdata",))["affNISTdata"]
    names = tuple(content) if isinstance(content, dict) else ()
    if not {"image", "label_int"} <= set(names):
        raise HitNetError(f"{path}: affNISTdata must hold image and label_int; it holds {', '.join(names) or 'none'}.")
    x, y = content["image"], content["label_int"]
    if x.dtype != np.uint8 or x.ndim != 2 or x.shape[0] != 1600 or y.size != x.shape[1]:
        raise HitNetError(
            f"{path}: image must be uint8 (1600, N), label_int (1, N); got {x.dtype} {x.shape} and {y.shape}."
        )
    # Each column is one image, row by row.
    return np.ascontiguousarray(x.T).reshape(-1, 40, 40), _digits(y, path, low=0, high=9)


def _load(path: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """The named variables of a Matlab file (version 5 to 7)."""
    check_regular(path, largest=LARGEST)
    try:
        content = read_variables(path, names)
    except OSError as error:
        raise HitNetError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (MatlabError, zlib.error, MemoryError) as error:
        raise HitNetError(f"{path} is not a readable Matlab file ({error}). Fetch it again.") from error
    missing = [name for name in names if name not in content]
    if missing:
        raise HitNetError(f"{path} has no variable {missing[0]!r}. Check that it is the file its name says.")
    return content


def _digits(values: npt.NDArray[Any], path: Path, *, low: int, high: int) -> npt.NDArray[np.int64]:
    labels = values.reshape(-1)
    if labels.dtype.kind not in "iuf" or not np.isin(labels, np.arange(low, high + 1)).all() or not len(labels):
        raise HitNetError(f"{path}: labels must be whole numbers from {low} to {high}.")
    return labels.astype(np.int64)
