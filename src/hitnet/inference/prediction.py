"""What distances say about an image: a class, or none of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from hitnet.errors import HitNetError

FEWEST = 20  # images that a radius is set on


@dataclass(frozen=True)
class Prediction:
    """The prediction for one image.

    Attributes:
        image: The image file.
        label: The winning class, or None if even its capsule misses: none of these.
        distance: Distance of the winning class's capsule from the centre; for networks other than HitNet, the entry of
            their prediction vector, where the largest wins.
        verdict: "miss" (from m' = 0.9 on, or from the radius that a wanted share sets), else "hit" (within m = 0.1) or
            "near"; None for networks other than HitNet.
        runner_up: The second-best class.
        runner_up_distance: Its distance.
    """

    image: str
    label: str | None
    distance: float
    verdict: str | None
    runner_up: str
    runner_up_distance: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class DecisionRule:
    """How a network's distances become a class.

    Attributes:
        class_names: One name per class.
        nearest_wins: Whether the class with the smallest distance wins, rather than that with the largest.
        radii: m and m' of the paper: a capsule within the first hits, one from the second on misses. None for networks
            other than HitNet, which never answer "none".
    """

    class_names: tuple[str, ...]
    nearest_wins: bool
    radii: tuple[float, float] | None

    def predict(self, image: str, distances: np.ndarray) -> Prediction:
        """The prediction for an image with these distances (K,)."""
        best, second = np.argsort(distances if self.nearest_wins else -distances, kind="stable")[:2].tolist()
        verdict = self.verdict(float(distances[best]))
        return Prediction(
            image=image,
            label=None if verdict == "miss" else self.class_names[best],
            distance=float(distances[best]),
            verdict=verdict,
            runner_up=self.class_names[second],
            runner_up_distance=float(distances[second]),
        )

    def verdict(self, distance: float) -> str | None:
        if self.radii is None:
            return None
        hit, miss = self.radii
        if distance >= miss:  # this radius may be smaller than the first
            return "miss"
        return "hit" if distance <= hit else "near"

    def keeping(self, share: float, distances: np.ndarray) -> DecisionRule:
        """The rule whose second radius lets a share of known images keep its class; see `none_radius`."""
        if self.radii is None:
            raise HitNetError('`keep` needs a network whose capsules hit or miss: others never answer "none".')
        return replace(self, radii=(self.radii[0], none_radius(distances, share)))


def check_share(keep: float) -> None:
    """Raise HitNetError unless this is a share of images that can keep their class."""
    if not isinstance(keep, Real) or not 0 < keep <= 1:
        raise HitNetError(f"`keep` must be a share above 0 and at most 1, e.g. 0.95; got {keep!r}.")


def none_radius(distances: np.ndarray, keep: float) -> float:
    """The radius from which on an image is none of the classes, so that a share of known images keeps its class.

    Args:
        distances: (N, K), of images of known classes that the network was not trained on. The nearest capsule counts.
        keep: The share, e.g. 0.95.

    Raises:
        HitNetError: The share is not one, or there are fewer than 20 images.
    """
    check_share(keep)
    if len(distances) < FEWEST:
        raise HitNetError(
            f"`keep` needs at least {FEWEST} images of known classes that were not trained on; got {len(distances)}."
        )
    nearest = distances.min(axis=1)
    last_kept = np.quantile(nearest, keep, method="inverted_cdf")
    return float(np.nextafter(last_kept, np.inf, dtype=nearest.dtype))  # what is at the radius is none
