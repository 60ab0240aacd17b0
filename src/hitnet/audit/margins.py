"""Distances of several judges, summarised per image: pure functions on arrays.

Shapes: distances (M, N, K) of M judges, N images and K classes; labels (N,).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hitnet.capsules import HIT_RADIUS
from hitnet.errors import HitNetError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Margins:
    """The distances of M judges, summarised per image."""

    mean: Floats  # (N, K), distances averaged over the judges
    spread: Floats  # (N, K), standard deviation of d_given − d_k over the judges
    given_distance: Floats  # (N,), mean distance of the given class's capsule
    ghost: Ints  # (N,), class of the nearest other capsule, by mean distance
    ghost_distance: Floats  # (N,), its mean distance
    margin_mean: Floats  # (N,), mean of d_given − d_nearest-other; above 0, another class is nearer
    margin_std: Floats  # (N,), standard deviation of this margin over the judges
    hits: Ints  # (N,), number of judges for which the given class's capsule is a hit


def others(distances: Floats, labels: Ints) -> Floats:
    """Distances (…, N, K) with those of the given class set to infinity."""
    masked = distances.copy()
    masked[..., np.arange(len(labels)), labels] = np.inf
    return masked


def margins(distances: npt.NDArray[np.floating], labels: Ints) -> Margins:
    """Summarise distances (M, N, K) for labels (N,)."""
    if distances.ndim != 3 or distances.shape[1] != len(labels):
        raise HitNetError(f"distances must be (M, {len(labels)}, K); got {distances.shape}.")
    exact, rows = distances.astype(np.float64), np.arange(len(labels))
    mean, given = exact.mean(axis=0), exact[:, rows, labels]
    each = given - others(exact, labels).min(axis=2)
    ghost = others(mean, labels).argmin(axis=1)
    return Margins(
        mean=mean,
        spread=(given[:, :, None] - exact).std(axis=0),
        given_distance=mean[rows, labels],
        ghost=ghost,
        ghost_distance=mean[rows, ghost],
        margin_mean=each.mean(axis=0),
        margin_std=each.std(axis=0),
        hits=(given <= HIT_RADIUS).sum(axis=0),
    )
