"""How the capsules of the true classes lie: beside the paper's N(0.5, m/√n), and as a Gaussian fitted to them.

The paper expects each component of a true class's capsule to be near Gaussian around 0.5 with spread m/√n. How
far that holds depends on the training; images are generated more faithfully from the fitted mean and covariance.
"""

from __future__ import annotations

import hashlib
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
from hitnet.models.coding import BATCH, component_spread, encode_batch
from hitnet.models.network import Network
from hitnet.synthesis.decoding import RunLike, class_indices, need_centre, open_decoder
from hitnet.training.evaluation import check_fit, load_for, to_device
from hitnet.training.runs import Run, RunFolder, read_tensors, write_tensors

log = logging.getLogger("hitnet")
GAUSSIANS_FILE = "capsule_gaussians.safetensors"


@dataclass(frozen=True)
class FeatureDistributions:
    """The capsules of the true classes over a set of images.

    capsules     (N, n), float32
    labels       (N,)
    class_names  one a class
    data         what the set is called
    centre, spread    of the Gaussian that the paper expects: 0.5 and m/√n
    """

    capsules: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    data: str
    centre: float
    spread: float

    def within(self, capsules: Tensor) -> Tensor:
        """Whether each component lies within two expected spreads of the centre (95.4 % if the paper's law holds)."""
        return (capsules.double() - self.centre).abs() <= 2 * self.spread

    def table(self) -> pd.DataFrame:
        """A row for each class and component: class, component, images, mean, spread, within (a share)."""
        rows = []
        for k, name in enumerate(self.class_names):
            own = self.capsules[self.labels == k].double()
            if not len(own):
                continue
            rows.append(
                pd.DataFrame(
                    {
                        "class": name,
                        "component": np.arange(own.shape[1]),
                        "images": len(own),
                        "mean": own.mean(dim=0).numpy(),
                        "spread": own.std(dim=0, correction=0).numpy(),
                        "within": self.within(own).double().mean(dim=0).numpy(),
                    }
                )
            )
        return pd.concat(rows, ignore_index=True)

    def by_class(self) -> pd.DataFrame:
        """A row for each class over all its components: class, images, mean, spread (root mean square), within."""
        groups = self.table().assign(variance=lambda rows: rows["spread"] ** 2).groupby("class", sort=False)
        found = groups.agg(
            images=("images", "first"), mean=("mean", "mean"), variance=("variance", "mean"), within=("within", "mean")
        )
        found.insert(2, "spread", np.sqrt(found.pop("variance")))
        return found.reset_index()


def feature_distributions(
    run: RunLike,
    data: Source | None = None,
    *,
    split: str | None = None,
    classes: list[str] | None = None,
    limit: int | None = None,
    device: str = "auto",
) -> FeatureDistributions:
    """The true-class capsules of a data set (by default the one that the run was trained on), for plot and table."""
    trained = open_decoder(run, device=device)
    centre = need_centre(trained.model)
    chosen = class_indices(trained.class_names, classes)
    images = run_images(trained, data, split=split, limit=limit)
    if classes is not None:
        images = images.select(torch.isin(images.labels, torch.tensor(chosen)).nonzero()[:, 0])
    if not len(images):
        raise HitNetError(f"{images.name} holds no images of these classes.")
    capsules = true_capsules(trained.model, images)[:, : trained.config.model.capsule_dim]
    return FeatureDistributions(
        capsules, images.labels, trained.class_names, images.name, centre, component_spread(trained.model)
    )


def run_images(run: Run, data: Source | None = None, *, split: str | None = None, limit: int | None = None) -> Images:
    """Images for a run, labelled in its own order of classes.

    Args:
        run: The run.
        data: Opened data, or what `open_data` takes. None: the images that the run was trained on.
        split: train, test or all. None: the images to train on.
        limit: At most N images.
    """
    check_limit(limit)
    if data is not None:
        opened = open_data(data)
        images = load_for(run, opened, split or opened.train_split, limit=limit)
    else:
        split = split or "train"
        about = run.config.data
        if split == "train":
            # Not how many images it gave: files may have been left out, and an even draw by another limit differs.
            limits = (limit, about.get("limit", about["images"]))  # older runs do not tell it
            limit = min((number for number in limits if number is not None), default=None)
        images = load_for(run, None, split, limit=limit)
    check_fit(run.model, images)
    return images


@torch.no_grad()
def true_capsules(network: Network, images: Images) -> Tensor:
    """Each image's capsule of its true class, followed by its extra components: (N, n + e), float32, on the CPU."""
    place = next(network.parameters()).device
    log.info("Computing the capsules of %s images of %s.", f"{len(images):,}", images.name)
    found = torch.empty(len(images), network.config.capsule_dim + network.config.extra_dim)
    for start in range(0, len(images), BATCH):
        part = slice(start, start + BATCH)
        own, extra = encode_batch(network, to_device(images.pixels[part], place), images.labels[part].to(place))
        found[part] = own if extra is None else torch.cat([own, extra], dim=1)
    return found


@dataclass(frozen=True)
class CapsuleGaussians:
    """One Gaussian for each class over its capsule's n components and the network's e extra ones, in float64.

    mean (K, n + e), covariance (K, n + e, n + e), both of maximum likelihood; count (K,): images of each class
    """

    mean: Tensor
    covariance: Tensor
    count: Tensor

    def root(self, label: int) -> Tensor:
        """A matrix R with R Rᵀ = covariance, also where the covariance has no inverse."""
        variances, directions = torch.linalg.eigh(self.covariance[label])
        return directions * variances.clamp_min(0).sqrt()


def fit(vectors: Tensor, labels: Tensor, num_classes: int) -> CapsuleGaussians:
    """Mean and covariance of each class's vectors (N, d); zeros for a class without any."""
    d = vectors.shape[1]
    mean = torch.zeros(num_classes, d, dtype=torch.float64)
    covariance = torch.zeros(num_classes, d, d, dtype=torch.float64)
    for k in range(num_classes):
        own = vectors[labels == k].double()
        if len(own):
            mean[k] = own.mean(dim=0)
            deviation = own - mean[k]
            covariance[k] = deviation.T @ deviation / len(own)
    return CapsuleGaussians(mean, covariance, labels.bincount(minlength=num_classes))


def fitted_gaussians(run: RunLike, data: Source | None = None, *, device: str = "auto") -> CapsuleGaussians:
    """The Gaussians of a run's classes, fitted to `data` or else to the images that the run was trained on.

    The latter are kept in the run folder, in capsule_gaussians.safetensors, until its weights change; those of images
    that have changed since the training are not.
    """
    trained = open_decoder(run, device=device)
    kept = None if data is not None or trained.folder is None else Path(trained.folder) / GAUSSIANS_FILE
    weights = "" if kept is None else _digest(RunFolder(kept.parent).weights_file)
    if kept is not None and kept.is_file():
        try:
            tensors, metadata = read_tensors(kept)
            if metadata.get("weights") == weights and {"mean", "covariance", "count"} <= set(tensors):
                return CapsuleGaussians(tensors["mean"], tensors["covariance"], tensors["count"])
        except HitNetError as error:
            log.warning("%s Capsules are fitted anew.", error)
    images = run_images(trained, data)
    if data is None and images.fingerprint != trained.config.data["fingerprint"]:
        kept = None
        log.warning(
            "%s has changed since the run was trained on it; capsules are fitted to it as it is, and not kept.",
            images.name,
        )
    found = fit(true_capsules(trained.model, images), images.labels, images.num_classes)
    if kept is not None:
        tensors = {"mean": found.mean, "covariance": found.covariance, "count": found.count}
        try:
            write_tensors(kept, tensors, {"weights": weights})
        except HitNetError as error:  # a run folder that cannot be written to is as good as any other to read from
            log.info("The fitted capsules are not kept: %s", error)
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
