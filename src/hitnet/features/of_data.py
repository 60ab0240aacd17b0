"""The features of a data set: of its files, which are kept, or of its images in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hitnet.data import Data, Source, open_data
from hitnet.data.opened import ImageSet
from hitnet.data.reading.streamed import Streamed
from hitnet.errors import HitNetError
from hitnet.features.cache import cached_features
from hitnet.features.extraction import extract
from hitnet.models.backbones import DEFAULT, Backbone, open_backbone
from hitnet.runtime.bar import shown
from hitnet.runtime.device import pick_device
from hitnet.runtime.files import expand, replacing
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import SINGLE, Ranks, connect, watched


def extract_features(
    data: Source,
    *,
    out: str | Path,
    backbone: str | Backbone = DEFAULT,
    weights: str | Path | None = None,
    split: str | None = None,
    device: str | torch.device = "auto",
    progress: Progress | bool = True,
) -> Tensor:
    """Compute the features of all images of a data set, (N, D) in float16, in the order of their ids.

    The features of image files are also kept, so that an audit of the same files finds them. Under torchrun, the
    processes share the files.

    Args:
        data: Opened data, or what `open_data` takes.
        out: The .npy file to write. The result is mapped to it: features and images are not kept in memory.
        backbone: "efficientnet-lite0" (in the package), "timm:NAME", or a `Backbone`.
        weights: A .safetensors file with the backbone's weights. None: its published weights.
        split: train, test or all. None: what an audit looks at.
        device: auto, cpu, cuda, cuda:1, or a torch.device.
        progress: True shows a bar in a terminal or a notebook. Or hooks of your own.
    """
    target = expand(out)
    if target.suffix != ".npy":
        raise HitNetError(f"`out` must be an .npy file; got {out}.")
    where = pick_device(device)
    ranks = connect(where)
    with watched(ranks):
        opened = open_data(data)
        opened.check_outside(target)
        stream = True if opened.by_path else None  # no pixels of files in memory
        [images] = opened.reopen(stream=stream).image_sets([split or opened.audit_split], lambda: 0)
        network = open_backbone(backbone, weights)
        with shown(progress, f"Features of {opened.name}") as bar:
            return features_of(opened, images, network, out=target, device=where, progress=bar, ranks=ranks)


def features_of(
    data: Data,
    images: ImageSet,
    backbone: Backbone,
    *,
    device: torch.device,
    out: Path | None = None,
    progress: Progress | None = None,
    ranks: Ranks = SINGLE,
) -> Tensor:
    """Features of images of opened data, (N, D) in float16, mapped to the file `out` where one is given."""
    if progress is not None:
        progress.part("features", len(images), "images")
    files = data.image_files(images)
    if files is not None:
        return cached_features(files, backbone, device=device, out=out, progress=progress, ranks=ranks)
    if isinstance(images, Streamed):
        raise HitNetError(f"{images.name} is read from disk, but not from image files.")
    features = ranks.from_first(lambda: extract(images.pixels, backbone, device=device, progress=progress))
    if out is not None and ranks.first:
        with replacing(out) as temporary:
            np.save(temporary, features.numpy(), allow_pickle=False)
    return features
