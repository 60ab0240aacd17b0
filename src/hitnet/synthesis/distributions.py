"""Distributions of the true-class capsules, compared with the paper's N(0.5, m/√n), and Gaussians fitted to them.

The paper expects each component of a true-class capsule to be roughly Gaussian around 0.5 with standard deviation
m/√n. How well this holds depends on the training; the fitted mean and covariance give more faithful images.

New images of a class are decoded from Gaussian capsules. The law "paper" draws each component from N(0.5, m/√n), and
extra components from N(0, 1). The law "fitted" draws capsule and extra components together from the fitted Gaussian.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hitnet.data import Images, Source, open_data
from hitnet.data.split import check_limit
from hitnet.errors import HitNetError, check_choice, finite, log, whole
from hitnet.inference.evaluation import check_fit
from hitnet.models.hybrid import BATCH, component_spread, encode_batch
from hitnet.models.network import Network, to_device
from hitnet.runtime.device import Device
from hitnet.runtime.files import checksum
from hitnet.runtime.tensor_files import read_tensors, write_tensors
from hitnet.synthesis.decoding import class_indices, decode, need_centre, open_decoder
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run, RunLike

GAUSSIANS_FILE = "capsule_gaussians.safetensors"
Law = Literal["fitted", "paper"]  # which Gaussian capsules are drawn from
LAWS: tuple[Law, ...] = get_args(Law)


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
    device: Device = "auto",
) -> CapsuleDistributions:
    """Compute the true-class capsules of a dataset, for tables and plots.

    Args:
        run: A run, or its folder.
        data: Opened data, or what `open_data` takes. None: the data that the run was trained on.
        split: train, test or all. None: the images to train on.
        classes: Names of the classes to include. None: all.
    """
    trained = open_decoder(run, device=device)
    centre, spread = need_centre(trained.model), component_spread(trained.model)
    chosen = class_indices(trained.class_names, classes)
    images = run_images(trained, data, split=split, limit=limit)
    if classes is not None:
        images = images.select(torch.isin(images.labels, torch.tensor(chosen)).nonzero()[:, 0])
    if not len(images):
        raise HitNetError(f"{images.name} holds no images of these classes.")
    capsules = true_capsules(trained.model, images)[:, : trained.config.model.capsule_dim]
    return CapsuleDistributions(capsules, images.labels, trained.class_names, images.name, centre, spread)


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


def fitted_gaussians(run: RunLike, data: Source | None = None, *, device: Device = "auto") -> CapsuleGaussians:
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


class Generated(NamedTuple):
    """A batch of new images."""

    images: Tensor  # (B, C, H, W), floats in [0, 1] on the network's device
    labels: Tensor  # (B,)


def generate(
    run: RunLike,
    classes: Sequence[str] | None = None,
    count: int = 100,
    *,
    law: Law = "fitted",
    spread: float = 1.0,
    seed: int = 0,
    batch_size: int = BATCH,
    data: Source | None = None,
    device: Device = "auto",
) -> Iterator[Generated]:
    """Generate `count` new images per class, class by class, one batch at a time.

    Wrong arguments raise HitNetError at once, not at the first batch.

    Args:
        run: A run, or its folder.
        classes: Names of the classes. None: all.
        law: "fitted" to the run's training images (or to `data`), or "paper": N(0.5, m/√n).
        spread: Factor on the Gaussian's standard deviation (paper: 1). 0 gives its mean, less than 1 safer images,
            more than 1 bolder images.
        seed: An image depends only on the seed, its class and its position within the class.
        data: The data to fit to. None: the run's training data.
    """
    for name, value, least in (("count", count, 1), ("batch_size", batch_size, 1), ("seed", seed, 0)):
        whole("generate", name, value, least)
    finite("generate", "spread", spread)
    check_choice("generate", "law", law, LAWS)
    trained = open_decoder(run, device=device)
    chosen = class_indices(trained.class_names, classes)
    if law == "paper":
        if data is not None:
            raise HitNetError("generate: data is only used with law 'fitted', but law is 'paper'. Leave one out.")
        gaussians = paper_gaussians(trained.model)
    else:
        gaussians = fitted_gaussians(trained, data, device=device)
        empty = [trained.class_names[k] for k in chosen if not gaussians.count[k]]
        if empty:
            raise HitNetError(f"The data has no images of {', '.join(empty[:10])} to fit capsules to. Use law 'paper'.")
    return sample_images(
        trained.model, chosen, count, gaussians=gaussians, spread=spread, seed=seed, batch_size=batch_size
    )


def paper_gaussians(network: Network) -> CapsuleGaussians:
    """N(0.5, m/√n) for every component of every class, and N(0, 1) for the extra components."""
    config, centre = network.config, need_centre(network)
    n, e, k = config.capsule_dim, config.extra_dim, config.num_classes
    mean = torch.cat([torch.full((n,), centre), torch.zeros(e)]).double()
    deviation = torch.cat([torch.full((n,), component_spread(network), dtype=torch.float64), torch.ones(e)])
    covariance = torch.diag(deviation.square())
    return CapsuleGaussians(mean.repeat(k, 1), covariance.repeat(k, 1, 1), torch.zeros(k, dtype=torch.int64))


def sample_images(
    network: Network,
    classes: Sequence[int],
    count: int,
    *,
    gaussians: CapsuleGaussians,
    spread: float = 1.0,
    seed: int = 0,
    batch_size: int = BATCH,
) -> Iterator[Generated]:
    """Generate `count` images per class from its Gaussian, class by class."""
    n, total = network.config.capsule_dim, len(classes) * count
    # numpy draws normal numbers one by one, so the images do not depend on the batch size.
    noise = {label: np.random.Generator(np.random.PCG64([seed, label])) for label in classes}
    for start in range(0, total, batch_size):
        labels = torch.tensor([classes[i // count] for i in range(start, min(start + batch_size, total))])
        drawn = []
        for label, size in zip(*(part.tolist() for part in labels.unique_consecutive(return_counts=True)), strict=True):
            normal = torch.from_numpy(noise[label].standard_normal((size, gaussians.mean.shape[1])))
            drawn.append(gaussians.mean[label] + spread * normal @ gaussians.root(label).T)
        vectors = torch.cat(drawn)
        extra = vectors[:, n:] if network.config.extra_dim else None
        yield Generated(decode(network, vectors[:, :n], labels, extra), labels)
