"""Networks that judge images which they have not seen, and what the others say that have.

Of M networks, each leaves out a part of the images. What it says of these joins heads and neighbours as one more judge
that has not seen the label. The other M − 1 networks know most labels by heart, wrong ones too, but judge better where
they do not. How far that is shows on the labels that the first contradicts: the others count by the share of these that
they contradict as well, after having learned them.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from hitnet.features.opinions import Opinion


def cross_fitted(distances: np.ndarray, left_out: Tensor, labels: Tensor) -> tuple[Opinion, Opinion]:
    """What networks say that have not seen an image, and what those say that have, with their weight.

    Args:
        distances: (M, N, K) of M ≥ 2 networks.
        left_out: (N,), the network that has not seen each image.
        labels: (N,).
    """
    count = distances.shape[1]
    unseen = distances[left_out.numpy(), np.arange(count)]
    seen = (distances.sum(axis=0) - unseen) / (len(distances) - 1)
    return (
        Opinion("networks", unseen, capsules=True),
        Opinion("networks", seen, in_sample=True, capsules=True, weight=seen_weight(unseen, seen, labels)),
    )


def seen_weight(unseen: np.ndarray, seen: np.ndarray, labels: Tensor) -> float:
    """The share of the labels (N,) contradicted by `unseen` distances (N, K) that `seen` ones contradict too."""
    doubted, still = (each.argmin(axis=1) != labels.numpy() for each in (unseen, seen))
    return float(still[doubted].mean()) if doubted.any() else 0.0
