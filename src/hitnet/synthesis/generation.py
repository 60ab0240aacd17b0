"""Generation: any number of new images of a class, decoded from Gaussian capsules.

The law "paper" draws each component from N(0.5, m/√n), as in the paper, and extra components from N(0, 1). The law
"fitted" draws capsule and extra components together from the Gaussian that was fitted to the images of the class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from hitnet.data import Source
from hitnet.errors import HitNetError, check_choice, finite, whole
from hitnet.models.hybrid import BATCH, component_spread
from hitnet.models.network import Network
from hitnet.synthesis.decoding import RunLike, class_indices, decode, need_centre, open_decoder
from hitnet.synthesis.distributions import CapsuleGaussians, fitted_gaussians

Law = Literal["fitted", "paper"]  # which Gaussian capsules are drawn from
LAWS: tuple[Law, ...] = get_args(Law)


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
    device: str | torch.device = "auto",
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
            raise HitNetError(
                f"The data has no images of {', '.join(empty[:10])} to fit capsules to. Use law 'paper' for them."
            )
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
