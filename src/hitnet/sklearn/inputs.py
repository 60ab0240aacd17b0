"""What X may hold: features, images or paths of image files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hitnet.data import Images, read_image
from hitnet.errors import HitNetError
from hitnet.runtime.threads import in_threads

Kind = Literal["features", "images", "paths"]


def kind_of(X: Any) -> Kind:
    """What X holds. What is neither images nor paths should be features."""
    if isinstance(X, np.ndarray | Tensor) and X.ndim in (3, 4):
        return "images"
    if isinstance(X, list | tuple) or getattr(X, "ndim", None) == 1:
        first = next(iter(X), None)
        return "paths" if isinstance(first, str | Path) else "features"
    return "features"


def images_of(X: Any) -> Tensor:
    """Images as uint8 (N, C, H, W), from (N, H, W), (N, H, W, C) or (N, C, H, W)."""
    return Images.from_arrays(X, np.zeros(len(X), np.int64), name="X").pixels


def read_paths(X: Any, image_size: tuple[int, int]) -> Tensor:
    """Images of files, scaled to fit `image_size`: uint8 (N, 3, H, W), or (N, 1, H, W) if all of them are grey."""
    pixels = read_at(X, (3, *image_size))
    grey = bool((pixels == pixels[:, :1]).all())
    return pixels[:, :1].contiguous() if grey else pixels


def read_at(X: Any, shape: tuple[int, int, int]) -> Tensor:
    """Images of files at one shape (C, H, W): uint8 (N, C, H, W)."""
    return torch.stack(list(in_threads(partial(read_image, shape=shape), [Path(path) for path in X])))


def check_shape(inputs: Tensor, shape: tuple[int, ...]) -> None:
    """Raise HitNetError unless the images are of the shape (C, H, W) that the classifier was fitted on."""
    if tuple(inputs.shape[1:]) != shape:
        raise HitNetError(
            f"HitNetClassifier was fitted on images of shape {shape} (channels, height, width), but X holds images of "
            f"shape {tuple(inputs.shape[1:])}."
        )
