"""What X may hold, and what a Hit-or-Miss layer on features or a network on images says of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from hitnet.capsules import HitOrMiss, distances
from hitnet.data import Images, read_image
from hitnet.features.cache import cached_features
from hitnet.models import Network, unit_images
from hitnet.models.backbones import DEFAULT, open_backbone
from hitnet.runtime.device import evaluation_batch
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


def path_features(X: Any) -> Tensor:
    """Features of image files by the backbone of the package, which are kept: float64 (N, D)."""
    return cached_features([Path(path) for path in X], open_backbone(DEFAULT)).double()


def read_paths(X: Any, image_size: tuple[int, int]) -> Tensor:
    """Images of files, scaled to fit `image_size`: uint8 (N, 3, H, W), or (N, 1, H, W) if all of them are grey."""
    pixels = read_at(X, (3, *image_size))
    grey = bool((pixels == pixels[:, :1]).all())
    return pixels[:, :1].contiguous() if grey else pixels


def read_at(X: Any, shape: tuple[int, int, int]) -> Tensor:
    """Images of files at one shape (C, H, W): uint8 (N, C, H, W)."""
    return torch.stack(list(in_threads(partial(read_image, shape=shape), [Path(path) for path in X])))


@torch.inference_mode()
def judge(learned: HitOrMiss | Network, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Capsules (N, K, n) of features (N, D) or uint8 images (N, C, H, W), and their distances from the centre (N, K).

    A layer on features computes in float64, so that the result of a row does not depend on the rows beside it.
    """
    if isinstance(learned, HitOrMiss):
        capsules = learned(inputs)
        return capsules, distances(capsules)
    batches = inputs.split(evaluation_batch(tuple(inputs.shape[1:])))
    outputs = [learned(unit_images(batch), reconstruct=False) for batch in batches]
    return torch.cat([output.capsules for output in outputs]), torch.cat([output.distances for output in outputs])
