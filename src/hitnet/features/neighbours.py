"""What the distances between features show: neighbours, near-duplicates, typical and strange images.

Similarity is the cosine of the angle between two rows of features (N, D). All functions work block by block: memory
grows with N, not with N².
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from hitnet.errors import HitNetError, whole

NEAR_DUPLICATE = 0.95
MOST_DUPLICATES = 10  # per image
BLOCK = 2**24  # similarities that are computed at once


def directions(features: Tensor) -> Tensor:
    """Rows of length 1 (N, D), float32, about the mean of all, which makes similarities more telling."""
    rows = features.float()
    rows = rows - rows.mean(dim=0)
    return rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_min(1e-12)


def _blocks(rows: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Similarities (b, N) of consecutive rows to all, −∞ to themselves, with the first row's number."""
    size = max(1, BLOCK // max(1, len(rows)))
    for start in range(0, len(rows), size):
        block = rows[start : start + size] @ rows.T
        block.diagonal(start).fill_(-torch.inf)
        yield start, block


def nearest(features: Tensor, k: int = 10) -> tuple[Tensor, Tensor]:
    """The k most similar other images of each: similarities (N, k), highest first, and which (N, k)."""
    k = min(whole("nearest", "k", k, 1), len(features) - 1)
    if k < 1:
        raise HitNetError("nearest: at least two images are needed.")
    rows = directions(features)
    similarities, which = zip(*(block.topk(k, dim=1) for _, block in _blocks(rows)), strict=True)
    return torch.cat(similarities), torch.cat(which)


def near_duplicates(
    features: Tensor, threshold: float = NEAR_DUPLICATE, *, labels: Tensor | None = None, most: int = MOST_DUPLICATES
) -> tuple[Tensor, Tensor]:
    """Pairs of images that show the same: (P, 2) numbers with the smaller first, and similarities (P,), highest first.

    Pairs at least as similar as `threshold` count: on photographs of clothes, those above 0.95 were the same photograph
    or the same thing photographed twice. Each image chooses at most `most` others, the most similar first, so that
    there are at most N · `most` pairs; with `labels` (N,), those under another label before those under its own.
    """
    most = min(whole("near_duplicates", "most", most, 1), len(features))
    rows = directions(features)
    labels = None if labels is None else labels.to(rows.device)
    pairs, similarities = [], []
    for start, block in _blocks(rows):
        asking = torch.nonzero((block >= threshold).any(dim=1))[:, 0]
        alike = block[asking]
        preference = alike.masked_fill(alike < threshold, -torch.inf)
        if labels is not None:
            other = labels[start + asking, None] != labels
            preference = torch.where(other, preference + 4, preference)  # similarities differ by 2 at most
        top = preference.topk(most, dim=1)
        row, place = torch.nonzero(top.values > -torch.inf, as_tuple=True)
        chosen = top.indices[row, place]
        pairs.append(torch.stack([asking[row] + start, chosen], dim=1).sort(dim=1).values)
        similarities.append(alike[row, chosen])
    return _without_repeats(torch.cat(pairs), torch.cat(similarities))


def _without_repeats(pairs: Tensor, similarities: Tensor) -> tuple[Tensor, Tensor]:
    """Each pair (P, 2) once, the most similar first: two images may have chosen each other."""
    size = int(pairs.max()) + 1 if len(pairs) else 1
    codes, which = torch.unique(pairs[:, 0] * size + pairs[:, 1], return_inverse=True)
    values = similarities.new_full((len(codes),), -torch.inf).scatter_reduce(0, which, similarities, "amax")
    order = torch.argsort(values, descending=True, stable=True)
    return torch.stack([codes // size, codes % size], dim=1)[order], values[order]


def neighbour_votes(features: Tensor, labels: Tensor, num_classes: int, k: int = 10) -> Tensor:
    """The share of each class among the k nearest neighbours of each image, weighted by similarity: (N, K)."""
    similarities, which = nearest(features, k)
    weights = similarities.clamp_min(1e-6)
    votes = torch.zeros(len(features), num_classes, device=weights.device)
    votes.scatter_add_(1, labels.to(weights.device)[which], weights)
    return votes / votes.sum(dim=1, keepdim=True)


def class_directions(features: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """The mean direction of each class (K, D), of length 1; zeros for a class without images."""
    rows = directions(features)
    sums = torch.zeros(num_classes, rows.shape[1], device=rows.device)
    sums.index_add_(0, labels.to(rows.device), rows)
    return sums / torch.linalg.vector_norm(sums, dim=1, keepdim=True).clamp_min(1e-12)


def most_typical(features: Tensor, labels: Tensor, num_classes: int, count: int = 10) -> list[Tensor]:
    """For each class, the numbers of its images that lie nearest to the mean of the class, nearest first."""
    whole("most_typical", "count", count, 1)
    means = class_directions(features, labels, num_classes)
    labels = labels.to(means.device)
    own = (directions(features) * means[labels]).sum(dim=1)
    typical = []
    for k in range(num_classes):
        members = torch.nonzero(labels == k)[:, 0]
        typical.append(members[torch.argsort(own[members], descending=True, stable=True)[:count]])
    return typical


def strangeness(features: Tensor, k: int = 10) -> Tensor:
    """How unlike all other images, and so every class, each image is (N,): 1 − the mean similarity of its k nearest.

    0: the same image is there k times; 1: nothing is like it.
    """
    return 1 - nearest(features, k)[0].mean(dim=1)
