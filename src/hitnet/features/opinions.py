"""What a judge says of labels, as an object, and what the most similar images say.

Probabilities join the distances of capsules as −m · ln p, m the hit radius, so that −distance / m is a logit. Where
images and classes are many, opinions are kept on the classes near an image only: memory does not grow with classes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet.capsules import HIT_RADIUS
from hitnet.data import Images
from hitnet.errors import log
from hitnet.features.neighbours import Neighbours, nearest, neighbour_votes

Ints = npt.NDArray[np.int64]
NEIGHBOURS = 20
FLOOR = 0.02  # added to a share of neighbours: no neighbour of a class is no proof against it
KEPT = 2**22  # distances per judge, of all images together; more only where each image has the fewest classes
LEAST_CLASSES = 32  # that each image keeps, however many images there are
SIMILAR = (10, 20)  # grey images whose labels are asked for
BLUR = 3  # pixels: similar digits need not lie exactly on each other
MOST_COMPARED = 50_000  # grey images; the work grows with the square of their number
LEAST_AGREEMENT = 0.9  # share of labels that the most similar grey images must agree with
AT_ONCE = 2**26  # distances of all classes that are computed at once, per judge


@dataclass(frozen=True)
class Opinion:
    """What one judge says of N images and K classes.

    Attributes:
        kind: What to call the judge: "networks", "Hit-or-Miss heads", "softmax heads", "20 neighbours" and so on.
        distances: (N, k) float32, the lower the better the class fits; float16 where they are kept for a review.
        in_sample: Whether the judge was trained on the label that it judges.
        capsules: Whether these are distances of capsules, for which hits and misses mean what they mean in the paper.
        weight: How much a judge that was trained on the labels counts beside those that were not (see
            audit/judgement.py). None: not at all.
        classes: (N, k), the class of each column, in ascending order. The last is K and stands for all classes without
            a column: it has the distance of their mean probability. None: the columns are all K classes.
    """

    kind: str
    distances: np.ndarray
    in_sample: bool = False
    capsules: bool = False
    weight: float | None = None
    classes: Ints | None = None


def all_distances(opinions: Iterable[Opinion]) -> np.ndarray:
    """The distances of M opinions, (M, N, k)."""
    return np.stack([opinion.distances for opinion in opinions])


def column_of(numbers: Ints, classes: Ints | None) -> Ints:
    """The column (N,) of one class number per image (N,), among the classes (N, k) of opinions."""
    return numbers if classes is None else np.argmax(classes == numbers[:, None], axis=1)


def class_at(columns: Ints, classes: Ints | None) -> Ints:
    """The class number (N,) of one column per image (N,)."""
    return columns if classes is None else classes[np.arange(len(columns)), columns]


def kept_classes(images: int, classes: int) -> int:
    """How many of all classes each image keeps: opinions on them are stored one by one."""
    return min(classes, max(LEAST_CLASSES, KEPT // images))


def near_classes(distances: Sequence[Tensor], labels: Tensor, kept: int) -> Tensor | None:
    """On which classes (B, kept + 1) opinions are kept, from the distances (B, K) of judges; None: on all.

    The given class, the nearest one of each judge, those with the smallest mean distance, and K for all others.
    """
    classes = distances[0].shape[1]
    if classes <= kept:
        return None
    order = torch.stack(list(distances)).mean(dim=0)
    for each in distances:
        order.scatter_add_(1, each.argmin(dim=1, keepdim=True), order.new_full((len(order), 1), -1e4))
    order.scatter_(1, labels.to(order.device)[:, None], -torch.inf)
    chosen = order.topk(kept, dim=1, largest=False).indices
    return F.pad(chosen.sort(dim=1).values, (0, 1), value=classes)


def at_classes(distances: Tensor, classes: Tensor | None) -> Tensor:
    """Distances (B, k) at classes (B, k), from those of all classes (B, K)."""
    if classes is None:
        return distances
    kept = classes[:, :-1]
    others = (-distances / HIT_RADIUS).scatter(1, kept, -torch.inf).logsumexp(dim=1, keepdim=True)
    others = others - math.log(distances.shape[1] - kept.shape[1])
    return torch.cat([distances.gather(1, kept), -HIT_RADIUS * others], dim=1)


def keep_near(
    blocks: Iterable[Sequence[Tensor]], labels: Tensor, classes: Ints | None = None
) -> tuple[np.ndarray, Ints | None]:
    """The distances of M judges (M, N, k) at the classes near each image, and these classes (N, k).

    Blocks are, of consecutive images, the distances (B, K) of each judge; labels are (N,), and `classes` (N, k) those
    on which other opinions on these images are kept. None: chosen here.
    """
    kept, chosen, start = [], [], 0
    for block in blocks:
        own = slice(start, start := start + len(block[0]))
        if classes is None:
            near = near_classes(block, labels[own], kept_classes(len(labels), block[0].shape[1]))
        else:
            near = torch.from_numpy(classes[own]).to(block[0].device)
        kept.append(torch.stack([at_classes(each, near).cpu() for each in block]))
        if near is not None:
            chosen.append(near.cpu())
    return torch.cat(kept, dim=1).numpy(), torch.cat(chosen).numpy() if chosen else None


def on_all_classes(values: np.ndarray, classes: Ints | None, number: int) -> np.ndarray:
    """Values (N, k) at classes (N, k) as values of all K classes (N, K): those without a column have the last."""
    if classes is None:
        return values
    spread = np.repeat(values[:, -1:], number, axis=1)
    np.put_along_axis(spread, classes[:, :-1].astype(np.int64), values[:, :-1], axis=1)
    return spread


def on_same_classes(opinions: Sequence[Opinion], labels: Tensor) -> tuple[Opinion, ...]:
    """Opinions on all K classes as opinions on those near each image, where others are so or classes are many."""
    known = next((opinion.classes for opinion in opinions if opinion.classes is not None), None)
    whole = [i for i, opinion in enumerate(opinions) if opinion.classes is None]
    images, number = opinions[0].distances.shape
    if not whole or (known is None and kept_classes(images, number) == number):
        return tuple(opinions)
    size = rows_at_once(opinions[whole[0]].distances.shape[1])
    parts = (
        [torch.from_numpy(opinions[i].distances[start : start + size]) for i in whole]
        for start in range(0, len(labels), size)
    )
    distances, classes = keep_near(parts, labels, known)
    kept = {i: replace(opinions[i], distances=own, classes=classes) for i, own in zip(whole, distances, strict=True)}
    return tuple(kept.get(i, opinion) for i, opinion in enumerate(opinions))


def rows_at_once(classes: int) -> int:
    """How many images are judged at once, on all classes."""
    return max(1, AT_ONCE // classes)


def neighbour_distances(neighbours: Neighbours, labels: Tensor, num_classes: int) -> Tensor:
    """What neighbours (B, k) say of each class, as distances (B, K)."""
    return -HIT_RADIUS * torch.log(neighbour_votes(neighbours, labels, num_classes) + FLOOR)


def judge_similar_images(images: Images, device: torch.device, classes: Ints | None = None) -> tuple[Opinion, ...]:
    """Opinions by the labels of the most similar grey images; none where these know too little.

    They need no training, so neither seeds nor arithmetic change them: beside small networks, whose ranking differs
    from seed to seed and from CPU to CPU, they make it steadier. Similar pixels say much about digits and little about
    photographs.
    """
    if images.shape[0] != 1 or len(images) > MOST_COMPARED or len(images) <= max(SIMILAR):
        return ()
    blurred = F.avg_pool2d(images.pixels.float() / 255, BLUR, stride=1, padding=BLUR // 2)
    labels, number = images.labels, images.num_classes
    parts = (each.split(rows_at_once(number)) for each in nearest(blurred.flatten(1).to(device), max(SIMILAR), labels))
    blocks = (
        [neighbour_distances((near[:, :count], who[:, :count]), labels, number) for count in SIMILAR]
        for near, who in zip(*parts, strict=True)
    )
    distances, classes = keep_near(blocks, labels, classes)
    agreement = float((distances[0].argmin(axis=1) == column_of(labels.numpy(), classes)).mean())
    if agreement < LEAST_AGREEMENT:
        log.info("Similar images agree with only %.0f %% of the labels, so they are not asked.", 100 * agreement)
        return ()
    named = zip(SIMILAR, distances, strict=True)
    return tuple(Opinion(f"{count} neighbours", own, classes=classes) for count, own in named)
