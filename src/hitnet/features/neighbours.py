"""What the distances between features show: neighbours, near-duplicates, typical and strange images.

Similarity is the cosine of the angle between two rows of features (N, D). All functions work block by block: memory
grows with N, not with N², and on a CPU not with D. One pass over all pairs finds the neighbours; the rest follows from
them.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.errors import HitNetError, whole
from hitnet.runtime.progress import Progress

Neighbours = tuple[Tensor, Tensor]  # similarities (N, k), highest first, and which images these are (N, k)
NEAR_DUPLICATE = 0.95
MOST_DUPLICATES = 10  # per image
BLOCK = {"cpu": 2**24, "cuda": 2**30}  # similarities that are computed at once
NUMBERS = {"cpu": 2**24, "cuda": 2**26}  # of rows that are turned to directions, or compared, at once
KEPT = ("cuda",)  # devices that keep the directions of all images
RUN = 64  # similarities of which only the highest is looked at first
MOST_COMPARED = 200_000  # images of which a CPU compares all pairs
NEAR_CLASSES = 8  # of each image, in which neighbours are looked for where images are more


class Directions:
    """Features (N, D) as rows of length 1 about the mean of all, which makes similarities more telling.

    They are computed where they are asked for, as float32: all of them would take more memory than the features. A GPU
    keeps them, as float16.

    Args:
        features: (N, D), floating-point.
        order: (N,), the rows of the features in another order. None: as they are.
        device: Where to compute. None: where the features are.
    """

    def __init__(self, features: Tensor, order: Tensor | None = None, device: torch.device | None = None) -> None:
        self.features, self.order, self.kept = features, order, None
        self.device = features.device if device is None else device
        total = torch.zeros(features.shape[1], dtype=torch.float64, device=features.device)
        for part in self.parts():
            total += features[part].float().sum(dim=0)
        self.mean = (total / len(features)).to(self.device, torch.float32)
        if self.device.type in KEPT:
            kept = torch.empty(features.shape, dtype=torch.float16, device=self.device)
            for part in self.parts():
                kept[part] = self[part]
            self.kept = kept

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, images: slice | Tensor) -> Tensor:
        if self.kept is not None:
            return self.kept[images]
        rows = self.features[images if self.order is None else self.order[images]]
        rows = rows.to(self.device, torch.float32) - self.mean
        return rows.div_(torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_min(1e-12))

    def parts(self) -> Iterator[slice]:
        """Slices of all images, each of as many as are looked at together."""
        size = self.at_once(self.features.device)
        return (slice(start, start + size) for start in range(0, len(self), size))

    def at_once(self, device: torch.device) -> int:
        return max(1, NUMBERS[device.type] // max(1, self.features.shape[1]))


def directions(features: Tensor | Directions) -> Directions:
    return features if isinstance(features, Directions) else Directions(features)


def _highest(block: Tensor, k: int) -> Neighbours:
    """The k highest of each row (b, N): they lie in the k runs with the highest maxima."""
    count = -(-block.shape[1] // RUN)
    if count <= 2 * k:
        return block.topk(k, dim=1)
    runs = F.pad(block, (0, count * RUN - block.shape[1]), value=-torch.inf).view(-1, count, RUN)
    first = runs.amax(dim=2).topk(k, dim=1).indices
    top = runs.gather(1, first[..., None].expand(-1, -1, RUN)).flatten(1).topk(k, dim=1)
    return top.values, first.gather(1, top.indices // RUN) * RUN + top.indices % RUN


def _joined(first: Neighbours, second: Neighbours) -> Neighbours:
    """As many of both as the first has, the most similar."""
    values, order = torch.cat([first[0], second[0]], dim=1).topk(first[0].shape[1], dim=1)
    return values, torch.cat([first[1], second[1]], dim=1).gather(1, order)


def most_similar(
    rows: Directions,
    asking: Tensor,
    members: Tensor,
    k: int,
    preference: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None,
    progress: Progress = Progress(),
) -> Neighbours:
    """The k most similar others, among members (m,) in ascending order, of each image that asks (n,): see `Neighbours`.

    Where there are fewer, their numbers are −1 and their similarities −∞. `preference` gives what to order by instead,
    from similarities (b, c) and the numbers of the images that ask (b,) and of the members (c,). `progress` is called
    as often as images ask.
    """
    compared = told = 0
    values = asking.new_full((len(asking), k), -torch.inf, dtype=torch.float32)
    which = asking.new_full((len(asking), k), -1)
    columns = rows.at_once(rows.device)
    for some in members.split(columns) if len(members) and len(asking) else ():
        others = rows[some]
        for own in torch.arange(len(asking)).split(max(1, min(columns, BLOCK[rows.device.type] // len(some)))):
            part = asking[own]
            block, here = rows[part] @ others.T, torch.arange(len(part), device=part.device)
            itself = torch.searchsorted(some, part).clamp_max(len(some) - 1)
            block[here, itself] = block[here, itself].masked_fill(some[itself] == part, -torch.inf)
            block = block if preference is None else preference(block, part, some)
            highest, places = _highest(block, min(k, len(some)))
            values[own], which[own] = _joined((values[own], which[own]), (highest.float(), some[places]))
            compared += len(part) * len(some)
            progress.step(compared // len(members) - told)
            told = compared // len(members)
    return values, which.masked_fill(values == -torch.inf, -1)


def nearest(
    features: Tensor | Directions, k: int = 10, labels: Tensor | None = None, progress: Progress = Progress()
) -> Neighbours:
    """The k most similar other images of each: similarities (N, k), highest first, and which (N, k).

    With `labels` (N,), a CPU compares each of more than 200,000 images only with those near its 8 nearest classes.
    `progress` is called for each image.
    """
    k = min(whole("nearest", "k", k, 1), len(features) - 1)
    if k < 1:
        raise HitNetError("nearest: at least two images are needed.")
    rows = directions(features)
    if labels is not None and len(rows) > MOST_COMPARED and rows.device.type == "cpu":
        return _nearest_in_classes(rows, labels, k, progress)
    everything = torch.arange(len(rows), device=rows.device)
    similarities, which = most_similar(rows, everything, everything, k, progress=progress)
    if rows.kept is None:
        return similarities, which
    # Halves are too coarse for an order: those that were chosen are compared anew.
    similarities, order = _similarities(rows, everything, which).sort(descending=True)
    return similarities, which.gather(1, order)


def _similarities(rows: Directions, asking: Tensor, which: Tensor) -> Tensor:
    """Of images that ask (n,), those of others (n, k)."""
    size = max(1, rows.at_once(rows.device) // which.shape[1])
    parts = zip(asking.split(size), which.split(size), strict=True)
    return torch.cat(
        [
            torch.einsum("bd,bkd->bk", rows[own].float(), rows[other.flatten()].float().unflatten(0, other.shape))
            for own, other in parts
        ]
    )


def _nearest_in_classes(rows: Directions, labels: Tensor, k: int, progress: Progress = Progress()) -> Neighbours:
    """The same among images near the same classes: those nearest to one of the mean directions that are nearest to it.

    What an image is labelled does not matter. Where there are fewer than k, the similarity of the others is −1.
    """
    classes = int(labels.max()) + 1
    means = class_directions(rows, labels, classes)
    asked = torch.cat([(rows[part] @ means.T).topk(min(NEAR_CLASSES, classes)).indices for part in rows.parts()])
    similarities = means.new_full((len(rows), k), -1.0)
    which = torch.arange(len(rows))[:, None].add(torch.arange(1, k + 1)) % len(rows)
    first, counts = asked[:, 0], torch.bincount(asked.flatten(), minlength=classes).tolist()
    members_of = first.argsort(stable=True).split(torch.bincount(first, minlength=classes).tolist())
    asking_of = (asked.flatten().argsort(stable=True) // asked.shape[1]).split(counts)
    for members, asking in zip(members_of, asking_of, strict=True):
        found = most_similar(rows, asking, members, k)
        similarities[asking], which[asking] = _joined((similarities[asking], which[asking]), found)
        progress.step(len(members))
    return similarities, which


def near_duplicates(
    features: Tensor | Directions,
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
    rows = directions(features)
    similarities, which = nearest(rows, most, labels) if neighbours is None else neighbours
    at_most = similarities[:, -1] >= threshold  # there may be more than these neighbours
    few, many = (torch.nonzero(each)[:, 0] for each in (~at_most & (similarities[:, 0] >= threshold), at_most))
    labels = None if labels is None else labels.to(which.device)

    def preference(alike: Tensor, asking: Tensor, others: Tensor) -> Tensor:
        order = alike.float().masked_fill(alike < threshold, -torch.inf)
        if labels is None:
            return order
        return torch.where(labels[asking, None] != labels[others], order + 4, order)  # similarities differ by 2 at most

    top = preference(similarities[few], few, which[few]).topk(most, dim=1)
    preferred, chosen = most_similar(rows, many, torch.arange(len(rows), device=which.device), most, preference)
    asking, chosen = torch.cat([few, many]), torch.cat([which[few].gather(1, top.indices), chosen])
    alike = torch.cat([similarities[few].gather(1, top.indices), _similarities(rows, many, chosen[len(few) :])])
    row, place = torch.nonzero(torch.cat([top.values, preferred]) > -torch.inf, as_tuple=True)
    pairs = torch.stack([asking[row], chosen[row, place]], dim=1).sort(dim=1).values
    return _without_repeats(pairs, alike[row, place])


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


def class_directions(rows: Directions, labels: Tensor, num_classes: int) -> Tensor:
    """The mean direction of each class (K, D), of length 1; zeros for a class without images."""
    sums = torch.zeros(num_classes, rows.features.shape[1], device=rows.device)
    for part in rows.parts():
        sums.index_add_(0, labels[part], rows[part].float())
    return sums / torch.linalg.vector_norm(sums, dim=1, keepdim=True).clamp_min(1e-12)


def most_typical(features: Tensor, labels: Tensor, num_classes: int, count: int = 10) -> list[Tensor]:
    """For each class, the numbers of its images that lie nearest to the mean of the class, nearest first."""
    whole("most_typical", "count", count, 1)
    rows, labels = Directions(features), labels.to(features.device)
    means = class_directions(rows, labels, num_classes)
    near = torch.cat([(rows[part] * means[labels[part]]).sum(dim=1) for part in rows.parts()])
    order = torch.argsort(near, descending=True, stable=True)
    members = order[torch.argsort(labels[order], stable=True)]
    return [each[:count] for each in members.split(torch.bincount(labels, minlength=num_classes).tolist())]


def strangeness(neighbours: Neighbours, k: int = 5) -> Tensor:
    """How unlike all other images, and so every class, each image is (N,): 1 − the mean similarity of its k nearest.

    0: the same image is there k times; 1: nothing is like it.
    """
    return 1 - neighbours[0][:, :k].mean(dim=1)
