"""Distributions of the true-class capsules, compared with the paper's N(0.5, m/√n), and Gaussians fitted to them.

The paper expects each component of a true-class capsule to be roughly Gaussian around 0.5 with standard deviation
m/√n. How well this holds depends on the training; the fitted mean and covariance give more faithful images.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hitnet.data import Images, Source, open_data
from hitnet.data.split import check_limit
from hitnet.errors import HitNetError
from hitnet.inference.evaluation import check_fit
from hitnet.models.hybrid import BATCH, component_spread, encode_batch
from hitnet.models.network import Network, to_device
from hitnet.runtime.files import checksum
from hitnet.runtime.tensor_files import read_tensors, write_tensors
from hitnet.synthesis.decoding import RunLike, class_indices, need_centre, open_decoder
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run

log = logging.getLogger("hitnet")
GAUSSIANS_FILE = "capsule_gaussians.safetensors"


@dataclass(frozen=True)
class CapsuleDistributions:
    """The true-class capsules of a set of images."""

    capsules: Tensor  # (N, n), float32
    labels: Tensor  # (N,)
    class_names: tuple[str, ...]
    data: str  # name of the dataset
    centre: float  # mean of the Gaussian that the paper expects, 0.5
    spread: float  # its standard deviation, m/√n

    def within(self, capsules: Tensor) -> Tensor:
        """Whether each component lies within two expected spreads of the centre (95.4 % if the paper is right)."""
        return (capsules.double() - self.centre).abs() <= 2 * self.spread

    def table(self) -> pd.DataFrame:
        """One row per class and component: class, component, images, mean, spread, within (a fraction)."""
        tables = []
        for k, name in enumerate(self.class_names):
            capsules = self.capsules[self.labels == k].double()
            if not len(capsules):
                continue
            columns = {
                "class": name,
                "component": np.arange(capsules.shape[1]),
                "images": len(capsules),
                "mean": capsules.mean(dim=0).numpy(),
                "spread": capsules.std(dim=0, correction=0).numpy(),
                "within": self.within(capsules).double().mean(dim=0).numpy(),
            }
            tables.append(pd.DataFrame(columns))
        return pd.concat(tables, ignore_index=True)

    def by_class(self) -> pd.DataFrame:
        """One row per class, over all components: class, images, mean, spread (root mean square), within."""
        groups = self.table().assign(variance=lambda rows: rows["spread"] ** 2).groupby("class", sort=False)
        table = groups.agg(
            images=("images", "first"), mean=("mean", "mean"), variance=("variance", "mean"), within=("within", "mean")
        )
        table.insert(2, "spread", np.sqrt(table.pop("variance")))
        return table.reset_index()


def capsule_distributions(
    run: RunLike,
    data: Source | None = None,
    *,
    split: str | None = None,
    classes: list[str] | None = None,
    limit: int | None = None,
    device: str | torch.device = "auto",
) -> CapsuleDistributions:
    """Compute the true-class capsules of a dataset, for tables and plots.

    Args:
        run: A run, or its folder.
        data: Opened data, or what `open_data` takes. None: the data that the run was trained on.
        split: train, test or all. None: the images to train on.
        classes: Names of the classes to include. None: all.
    """
    trained = open_decoder(run, device=device)
    centre = need_centre(trained.model)
    chosen = class_indices(trained.class_names, classes)
    images = run_images(trained, data, split=split, limit=limit)
    if classes is not None:
        images = images.select(torch.isin(images.labels, torch.tensor(chosen)).nonzero()[:, 0])
    if not len(images):
        raise HitNetError(f"{images.name} holds no images of these classes.")
    capsules = true_capsules(trained.model, images)[:, : trained.config.model.capsule_dim]
    return CapsuleDistributions(
        capsules, images.labels, trained.class_names, images.name, centre, component_spread(trained.model)
    )


def run_images(run: Run, data: Source | None = None, *, split: str | None = None, limit: int | None = None) -> Images:
    """Images for a run, as `Run.load` gives them; by default, the images to train on, up to the run's own limit."""
    check_limit(limit)
    if data is not None:
        opened = open_data(data)
        images = run.load(opened, split or opened.train_split, limit=limit)
    else:
        split = split or "train"
        limits = (limit, run.config.data["limit"] if split == "train" else None)
        images = run.load(None, split, limit=min((number for number in limits if number is not None), default=None))
    check_fit(run.model, images)
    return images


@torch.no_grad()
def true_capsules(network: Network, images: Images) -> Tensor:
    """The true-class capsule of each image, followed by its extra components: (N, n + e), float32, on the CPU."""
    device = next(network.parameters()).device
    log.info("Computing the capsules of %s images of %s.", f"{len(images):,}", images.name)
    vectors = torch.empty(len(images), network.config.capsule_dim + network.config.extra_dim)
    for start in range(0, len(images), BATCH):
        part = slice(start, start + BATCH)
        capsules, extra = encode_batch(network, to_device(images.pixels[part], device), images.labels[part].to(device))
        vectors[part] = capsules if extra is None else torch.cat([capsules, extra], dim=1)
    return vectors


@dataclass(frozen=True)
class CapsuleGaussians:
    """One Gaussian per class over the n components of its capsule and the e extra components, in float64."""

    mean: Tensor  # (K, n + e), the maximum-likelihood estimate
    covariance: Tensor  # (K, n + e, n + e), likewise
    count: Tensor  # (K,), images per class

    def root(self, label: int) -> Tensor:
        """A matrix R with R Rᵀ = covariance, also for a covariance without an inverse."""
        variances, directions = torch.linalg.eigh(self.covariance[label])
        return directions * variances.clamp_min(0).sqrt()


def fit(vectors: Tensor, labels: Tensor, num_classes: int) -> CapsuleGaussians:
    """Fit mean and covariance to the vectors (N, d) of each class; zeros for a class without images."""
    d = vectors.shape[1]
    mean = torch.zeros(num_classes, d, dtype=torch.float64)
    covariance = torch.zeros(num_classes, d, d, dtype=torch.float64)
    for k in range(num_classes):
        members = vectors[labels == k].double()
        if len(members):
            mean[k] = members.mean(dim=0)
            deviation = members - mean[k]
            covariance[k] = deviation.T @ deviation / len(members)
    return CapsuleGaussians(mean, covariance, labels.bincount(minlength=num_classes))


def fitted_gaussians(
    run: RunLike, data: Source | None = None, *, device: str | torch.device = "auto"
) -> CapsuleGaussians:
    """The Gaussians of a run's classes, fitted to `data` or else to the images that the run was trained on.

    The Gaussians of the run's own images are saved in its folder, in capsule_gaussians.safetensors, and read from
    there until its weights change. They are not saved if the images have changed since the training.
    """
    trained = open_decoder(run, device=device)
    file = None if data is not None or trained.folder is None else Path(trained.folder) / GAUSSIANS_FILE
    weights = "" if file is None else checksum(RunFolder(file.parent).weights_file)
    if file is not None and file.is_file():
        try:
            tensors, metadata = read_tensors(file)
            config = trained.config.model
            k, n = config.num_classes, config.capsule_dim + config.extra_dim
            shapes = {"mean": (k, n), "covariance": (k, n, n), "count": (k,)}
            if metadata.get("weights") == weights and {name: t.shape for name, t in tensors.items()} == shapes:
                return CapsuleGaussians(**tensors)
        except HitNetError as error:
            log.warning("%s The Gaussians are fitted again.", error)
    images = run_images(trained, data)
    if data is None and images.fingerprint != trained.config.data["fingerprint"]:
        file = None
        log.warning(
            "%s has changed since the run was trained on it. The Gaussians are fitted to the new data and not saved.",
            images.name,
        )
    gaussians = fit(true_capsules(trained.model, images), images.labels, images.num_classes)
    if file is not None:
        try:
            write_tensors(file, vars(gaussians), {"weights": weights})
        except HitNetError as error:  # a read-only run folder is fine: only the next call is slower
            log.info("The fitted Gaussians are not saved: %s", error)
    return gaussians
