"""Networks as judges of images that they have not seen, and, with less weight, of images that they were trained on.

Of M networks, each is trained without a part of the images. Its opinion of these joins heads and neighbours as one more
judge that has not seen the label. The other M − 1 networks have learned the label, right or wrong. Their opinion helps
where they did not simply learn it by heart. The labels that the first network contradicts show how often that is: the
others count by the share of these labels that they contradict too.
"""

import numpy as np
from torch import Tensor

from hitnet.features.opinions import Ints, Opinion, column_of


def cross_fitted(
    distances: np.ndarray, left_out: Tensor, labels: Tensor, classes: Ints | None = None
) -> tuple[Opinion, Opinion]:
    """The opinion of the network that has not seen an image, and that of the others, with their weight.

    Args:
        distances: (M, N, k) of M ≥ 2 networks.
        left_out: (N,), the network that has not seen each image.
        labels: (N,).
        classes: (N, k), see `Opinion`.
    """
    own = column_of(labels.numpy(), classes)
    count = distances.shape[1]
    unseen = distances[left_out.numpy(), np.arange(count)]
    seen = (distances.sum(axis=0) - unseen) / (len(distances) - 1)
    return (
        Opinion("networks", unseen, capsules=True, classes=classes),
        Opinion("networks", seen, True, True, seen_weight(unseen, seen, own), classes),
    )


def seen_weight(unseen: np.ndarray, seen: np.ndarray, own: Ints) -> float:
    """The share of labels (columns `own`, N) contradicted by `unseen` distances (N, k) that `seen` contradict too."""
    doubted, still = (each.argmin(axis=1) != own for each in (unseen, seen))
    return float(still[doubted].mean()) if doubted.any() else 0.0
