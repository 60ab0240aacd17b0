"""What judges saw and said, kept beside the audit's table for the review: `judged.safetensors` in the audit folder."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from hitnet.files import replacing

log = logging.getLogger("hitnet")
NAME = "judged.safetensors"
MOST_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Kept:
    """Of N images, in the order of the audit's table.

    Attributes:
        said: (M, N, K) float16, the distances of each judge.
        kinds: What to call each of the M judges.
        features: (N, D) float16, where judges stood on features.
    """

    said: Tensor
    kinds: tuple[str, ...]
    features: Tensor | None = None

    @classmethod
    def of(cls, distances: np.ndarray, kinds: tuple[str, ...], features: Tensor | None, order: Tensor) -> Kept:
        """From distances (M, N, K) and features (N, D) in another order."""
        said = torch.from_numpy(distances).to(torch.float16)[:, order]
        return cls(said, kinds, None if features is None else features[order].to("cpu", torch.float16))


def write_kept(folder: Path, kept: Kept) -> None:
    """Write the file, unless it would be huge; a review then has the order and the evidence of the table alone."""
    tensors = {"said": kept.said.contiguous()}
    if kept.features is not None:
        tensors["features"] = kept.features.contiguous()
    size = sum(tensor.nbytes for tensor in tensors.values())
    if size > MOST_BYTES:
        log.info("What the judges saw is not kept for the review: it would take %.1f GB.", size / 1e9)
        (folder / NAME).unlink(missing_ok=True)
        return
    about = {"kinds": json.dumps(kept.kinds), "checksum": _checksum(tensors)}
    with replacing(folder / NAME) as temporary:
        save_file(tensors, temporary, metadata=about)


def read_kept(folder: Path, images: int) -> Kept | None:
    """What an audit kept; None if it kept nothing, or if the file is damaged or of other images."""
    try:
        with safe_open(folder / NAME, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = file.metadata() or {}
    except (OSError, SafetensorError):
        return None
    said, features = tensors.get("said"), tensors.get("features")
    fits = said is not None and said.ndim == 3 and said.shape[1] == images
    if not fits or said is None or about.get("checksum") != _checksum(tensors):
        log.warning("%s is damaged or of another audit, and is not used.", folder / NAME)
        return None
    return Kept(said, tuple(json.loads(about["kinds"])), features)


def _checksum(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        digest.update(tensors[name].numpy().data)
    return digest.hexdigest()
