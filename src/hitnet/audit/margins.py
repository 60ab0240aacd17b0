"""Distances of several judges, summarised per image: pure functions on arrays.

Shapes: distances (M, N, k) of M judges and N images, on all K classes or on classes (N, k), see `Opinion`; labels (N,).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hitnet.capsules import HIT_RADIUS
from hitnet.errors import HitNetError
from hitnet.features.opinions import Ints, class_at, column_of

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Margins:
    """The distances of M judges, summarised per image."""

    mean: Floats  # (N, k), distances averaged over the judges
    spread: Floats  # (N, k), standard deviation of d_given − d_k over the judges
    given_distance: Floats  # (N,), mean distance of the given class's capsule
    ghost: Ints  # (N,), class of the nearest other capsule, by mean distance
    ghost_distance: Floats  # (N,), its mean distance
    margin_mean: Floats  # (N,), mean of d_given − d_nearest-other; above 0, another class is nearer
    margin_std: Floats  # (N,), standard deviation of this margin over the judges
    hits: Ints  # (N,), number of judges for which the given class's capsule is a hit
    classes: Ints | None = None  # (N, k)

    def distance_of(self, numbers: Ints) -> Floats:
        """The mean distance of one class (N,) per image."""
        distance: Floats = self.mean[np.arange(len(numbers)), column_of(numbers, self.classes)]
        return distance


def others(distances: Floats, labels: Ints, classes: Ints | None = None) -> Floats:
    """Distances (…, N, k) with those of the given class, and of all classes without a column, set to infinity."""
    masked = distances.copy()
    masked[..., np.arange(len(labels)), column_of(labels, classes)] = np.inf
    if classes is not None:
        masked[..., -1] = np.inf
    return masked


def margins(distances: npt.NDArray[np.floating], labels: Ints, classes: Ints | None = None) -> Margins:
    """Summarise distances (M, N, k) for labels (N,)."""
    if distances.ndim != 3 or distances.shape[1] != len(labels):
        raise HitNetError(f"distances must be (M, {len(labels)}, K); got {distances.shape}.")
    exact, rows = distances.astype(np.float64), np.arange(len(labels))
    own = column_of(labels, classes)
    mean, given = exact.mean(axis=0), exact[:, rows, own]
    each = given - others(exact, labels, classes).min(axis=2)
    ghost = others(mean, labels, classes).argmin(axis=1)
    return Margins(
        mean=mean,
        spread=(given[:, :, None] - exact).std(axis=0),
        given_distance=mean[rows, own],
        ghost=class_at(ghost, classes),
        ghost_distance=mean[rows, ghost],
        margin_mean=each.mean(axis=0),
        margin_std=each.std(axis=0),
        hits=(given <= HIT_RADIUS).sum(axis=0),
        classes=classes,
    )
