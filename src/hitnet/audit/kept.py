"""What judges saw and said, kept beside the audit's table for the review: `judged.safetensors` in the audit folder."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hitnet.audit.audit_folder import own_file
from hitnet.errors import HitNetError
from hitnet.features.opinions import Opinion, all_distances
from hitnet.runtime.tensor_files import read_tensors, write_tensors

log = logging.getLogger("hitnet")
NAME = "judged.safetensors"
MOST_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Kept:
    """Of N images, in the order of the audit's table."""

    opinions: tuple[Opinion, ...]  # kinds, and distances (N, K) in float16
    features: Tensor | None = None  # (N, D) float16, where judges stood on features

    @classmethod
    def of(cls, opinions: Sequence[Opinion], features: Tensor | None, order: Tensor) -> Kept:
        """From opinions and features (N, D) in another order."""
        kept = (Opinion(each.kind, each.distances[order.numpy()].astype(np.float16)) for each in opinions)
        return cls(tuple(kept), None if features is None else _rescaled(features[order]))


def _rescaled(features: Tensor) -> Tensor:
    """Features as float16, at a scale that it can hold: similarities do not depend on the scale."""
    largest = features.abs().amax().item() if features.numel() else 0.0
    scale = 2.0 ** math.floor(math.log2(largest)) if largest > 1e4 or 0 < largest < 1e-2 else 1.0
    return (features.float() / scale).to("cpu", torch.float16)


def write_kept(folder: Path, kept: Kept) -> None:
    """Write the file, unless it would be huge: a review then has only the order and the evidence of the table."""
    tensors = {"distances": torch.from_numpy(all_distances(kept.opinions))}
    if kept.features is not None:
        tensors["features"] = kept.features
    size = sum(tensor.nbytes for tensor in tensors.values())
    if size > MOST_BYTES:
        log.info("What the judges saw is not kept for the review: it would take %.1f GB.", size / 1e9)
        (folder / NAME).unlink(missing_ok=True)
        return
    write_tensors(folder / NAME, tensors, {"judges": json.dumps([each.kind for each in kept.opinions])})


def read_kept(folder: Path, images: int, classes: int) -> Kept | None:
    """What an audit kept; None if it kept nothing, or if the file is damaged or of another audit."""
    if not (folder / NAME).exists():
        return None
    try:
        tensors, metadata = read_tensors(own_file(folder, NAME))
        distances, features = tensors["distances"], tensors.get("features")
        kinds = json.loads(metadata["judges"])
        opinions = tuple(Opinion(str(kind), each) for kind, each in zip(kinds, distances.numpy(), strict=True))
        fits = distances.shape[1:] == (images, classes) and distances.dtype == torch.float16
        if features is not None:
            fits &= features.ndim == 2 and len(features) == images and features.dtype == torch.float16
    except (HitNetError, KeyError, TypeError, ValueError, RecursionError):
        fits = False
    if not fits:
        log.warning("%s is damaged or of another audit, and is not used.", folder / NAME)
        return None
    return Kept(opinions, features)
