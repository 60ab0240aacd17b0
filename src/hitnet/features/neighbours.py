"""What the distances between features show: neighbours, near-duplicates, typical and strange images.

Similarity is the cosine of the angle between two rows of features (N, D). All functions work block by block: memory
grows with N, not with N². One pass over all pairs finds the neighbours; the rest follows from them.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.errors import HitNetError, whole

Neighbours = tuple[Tensor, Tensor]  # similarities (N, k), highest first, and which images these are (N, k)
NEAR_DUPLICATE = 0.95
MOST_DUPLICATES = 10  # per image
BLOCK = {"cpu": 2**24, "cuda": 2**30}  # similarities that are computed at once
ROWS = 2**16  # rows that are turned to directions at once
RUN = 64  # similarities of which only the highest is looked at first
MOST_COMPARED = 200_000  # images of which a CPU compares all pairs
NEAR_CLASSES = 8  # of each image, in which neighbours are looked for where images are more


def _directed(features: Tensor) -> Iterator[Tensor]:
    """Rows of length 1 (B, D), float32, about the mean of all, which makes similarities more telling."""
    mean = features.mean(dim=0, dtype=torch.float32)
    for part in features.split(ROWS):
        rows = part.float() - mean
        yield rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_min(1e-12)


def directions(features: Tensor) -> Tensor:
    """Rows of length 1 about the mean of all (N, D): float32, on a GPU float16."""
    kind = torch.float16 if features.is_cuda else torch.float32
    rows, start = torch.empty(features.shape, dtype=kind, device=features.device), 0
    for part in _directed(features):
        rows[start : (start := start + len(part))] = part
    return rows


def _blocks(rows: Tensor, asking: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Numbers (b,) of images that ask, and their similarities (b, N) to all, −∞ to themselves."""
    for part in asking.split(max(1, BLOCK[rows.device.type] // max(1, len(rows)))):
        block = rows[part] @ rows.T
        block[torch.arange(len(part), device=block.device), part] = -torch.inf
        yield part, block


def _highest(block: Tensor, k: int) -> Neighbours:
    """The k highest of each row (b, N): they lie in the k runs with the highest maxima."""
    count = -(-block.shape[1] // RUN)
    if count <= 2 * k:
        return block.topk(k, dim=1)
    runs = F.pad(block, (0, count * RUN - block.shape[1]), value=-torch.inf).view(-1, count, RUN)
    first = runs.amax(dim=2).topk(k, dim=1).indices
    top = runs.gather(1, first[..., None].expand(-1, -1, RUN)).flatten(1).topk(k, dim=1)
    return top.values, first.gather(1, top.indices // RUN) * RUN + top.indices % RUN


def nearest(features: Tensor, k: int = 10, labels: Tensor | None = None) -> Neighbours:
    """The k most similar other images of each: similarities (N, k), highest first, and which (N, k).

    With `labels` (N,), a CPU compares each of more than 200,000 images only with those near its 8 nearest classes.
    """
    k = min(whole("nearest", "k", k, 1), len(features) - 1)
    if k < 1:
        raise HitNetError("nearest: at least two images are needed.")
    if labels is not None and len(features) > MOST_COMPARED and not features.is_cuda:
        return _nearest_in_classes(features, labels, k)
    rows = directions(features)
    blocks = []
    for part, block in _blocks(rows, torch.arange(len(rows), device=rows.device)):
        values, which = _highest(block, k)
        if rows.dtype == torch.float16:  # too coarse for an order: those chosen are compared anew
            values, order = torch.einsum("bd,bkd->bk", rows[part].float(), rows[which].float()).sort(descending=True)
            which = which.gather(1, order)
        blocks.append((values, which))
    similarities, numbers = zip(*blocks, strict=True)
    return torch.cat(similarities), torch.cat(numbers)


def _nearest_in_classes(features: Tensor, labels: Tensor, k: int) -> Neighbours:
    """The same among images near the same classes: those nearest to one of the mean directions that are nearest to it.

    What an image is labelled does not matter. Where there are fewer than k, the similarity of the others is −1.
    """
    rows, classes = directions(features), int(labels.max()) + 1
    means = class_directions(features, labels, classes)
    asked = torch.cat([(part @ means.T).topk(min(NEAR_CLASSES, classes)).indices for part in rows.split(ROWS)])
    similarities = rows.new_full((len(rows), k), -1.0)
    which = torch.arange(len(rows))[:, None].add(torch.arange(1, k + 1)) % len(rows)
    first, counts = asked[:, 0], torch.bincount(asked.flatten(), minlength=classes).tolist()
    members_of = first.argsort(stable=True).split(torch.bincount(first, minlength=classes).tolist())
    asking_of = (asked.flatten().argsort(stable=True) // asked.shape[1]).split(counts)
    for members, asking in zip(members_of, asking_of, strict=True):
        if not len(members):
            continue
        for part in asking.split(max(1, BLOCK["cpu"] // len(members))):
            block = rows[part] @ rows[members].T
            block.masked_fill_(part[:, None] == members, -torch.inf)
            values, places = block.topk(min(k, len(members)), dim=1)
            values, order = torch.cat([similarities[part], values], dim=1).topk(k, dim=1)
            similarities[part] = values
            which[part] = torch.cat([which[part], members[places]], dim=1).gather(1, order)
    return similarities, which


def near_duplicates(
    features: Tensor,
    threshold: float = NEAR_DUPLICATE,
    *,
    labels: Tensor | None = None,
    most: int = MOST_DUPLICATES,
    neighbours: Neighbours | None = None,
) -> tuple[Tensor, Tensor]:
    """Pairs of images that show the same: (P, 2) numbers with the smaller first, and similarities (P,), highest first.

    Pairs at least as similar as `threshold` count: on photographs of clothes, those above 0.95 were the same photograph
    or the same thing photographed twice. Each image chooses at most `most` others, the most similar first, so that
    there are at most N · `most` pairs; with `labels` (N,), those under another label before those under its own.
    `neighbours` are what `nearest` gives for at least `most`, if it is known.
    """
    most = min(whole("near_duplicates", "most", most, 1), len(features) - 1)
    similarities, which = nearest(features, most, labels) if neighbours is None else neighbours
    many = similarities[:, -1] >= threshold  # there may be more than these neighbours
    few = torch.nonzero(~many & (similarities[:, 0] >= threshold))[:, 0]
    labels = None if labels is None else labels.to(which.device)

    def asked() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Images (b,), the similarities of others (b, c), and which these are (b, c)."""
        yield few, similarities[few], which[few]
        if many.any():
            everything = torch.arange(len(features), device=which.device)
            for part, block in _blocks(directions(features), torch.nonzero(many)[:, 0]):
                yield part, block.float(), everything.expand(len(part), -1)

    pairs, values = [], []
    for asking, alike, others in asked():
        preference = alike.masked_fill(alike < threshold, -torch.inf)
        if labels is not None:
            differ = labels[asking, None] != labels[others]
            preference = torch.where(differ, preference + 4, preference)  # similarities differ by 2 at most
        top = preference.topk(most, dim=1)
        row, place = torch.nonzero(top.values > -torch.inf, as_tuple=True)
        chosen = top.indices[row, place]
        pairs.append(torch.stack([asking[row], others[row, chosen]], dim=1).sort(dim=1).values)
        values.append(alike[row, chosen])
    return _without_repeats(torch.cat(pairs), torch.cat(values))


def _without_repeats(pairs: Tensor, similarities: Tensor) -> tuple[Tensor, Tensor]:
    """Each pair (P, 2) once, the most similar first: two images may have chosen each other."""
    size = int(pairs.max()) + 1 if len(pairs) else 1
    codes, which = torch.unique(pairs[:, 0] * size + pairs[:, 1], return_inverse=True)
    values = similarities.new_full((len(codes),), -torch.inf).scatter_reduce(0, which, similarities, "amax")
    order = torch.argsort(values, descending=True, stable=True)
    return torch.stack([codes // size, codes % size], dim=1)[order], values[order]


def neighbour_votes(neighbours: Neighbours, labels: Tensor, num_classes: int) -> Tensor:
    """The share of each class among neighbours (N, k), weighted by similarity: (N, K)."""
    similarities, which = neighbours
    weights = similarities.clamp_min(1e-6)
    votes = torch.zeros(len(which), num_classes, device=weights.device)
    votes.scatter_add_(1, labels.to(weights.device)[which], weights)
    return votes / votes.sum(dim=1, keepdim=True)


def class_directions(features: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """The mean direction of each class (K, D), of length 1; zeros for a class without images."""
    sums = torch.zeros(num_classes, features.shape[1], device=features.device)
    for part, own in zip(_directed(features), labels.to(features.device).split(ROWS), strict=True):
        sums.index_add_(0, own, part)
    return sums / torch.linalg.vector_norm(sums, dim=1, keepdim=True).clamp_min(1e-12)


def most_typical(features: Tensor, labels: Tensor, num_classes: int, count: int = 10) -> list[Tensor]:
    """For each class, the numbers of its images that lie nearest to the mean of the class, nearest first."""
    whole("most_typical", "count", count, 1)
    means, labels = class_directions(features, labels, num_classes), labels.to(features.device)
    parts = zip(_directed(features), labels.split(ROWS), strict=True)
    near = torch.cat([(part * means[own]).sum(dim=1) for part, own in parts])
    order = torch.argsort(near, descending=True, stable=True)
    members = order[torch.argsort(labels[order], stable=True)]
    return [each[:count] for each in members.split(torch.bincount(labels, minlength=num_classes).tolist())]


def strangeness(neighbours: Neighbours, k: int = 5) -> Tensor:
    """How unlike all other images, and so every class, each image is (N,): 1 − the mean similarity of its k nearest.

    0: the same image is there k times; 1: nothing is like it.
    """
    return 1 - neighbours[0][:, :k].mean(dim=1)
