"""What distances say about an image: a class, or none of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import torch

from hitnet.errors import HitNetError
from hitnet.losses import misfit

FEWEST_HELD_OUT = 20  # images of known classes that were not trained on, to set a limit on
ROUNDING = 1e-4  # a misfit may differ by this in another batch, or by ONNX Runtime


@dataclass(frozen=True)
class Prediction:
    """The prediction for one image.

    Attributes:
        image: The image file.
        label: The winning class, or None: none of these.
        distance: Distance of the winning class's capsule from the centre; for networks other than HitNet, the entry of
            their prediction vector, where the largest wins.
        verdict: "hit" (within m = 0.1), "miss" (from m' = 0.9 on) or "near", by that distance; None for networks other
            than HitNet.
        runner_up: The second-best class.
        runner_up_distance: Its distance.
        misfit: How far the image is from what training asks for (see `misfit`); None for networks other than HitNet.
    """

    image: str
    label: str | None
    distance: float
    verdict: str | None
    runner_up: str
    runner_up_distance: float
    misfit: float | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class DecisionRule:
    """How a network's distances become a class, or none.

    Attributes:
        class_names: One name per class.
        nearest_wins: Whether the class with the smallest distance wins, rather than that with the largest.
        radii: m and m' of the paper: a capsule within the first hits, one from the second on misses. None for networks
            other than HitNet, which never answer "none".
        largest_misfit: An image with a larger misfit is none of the classes. None: an image is none of them if every
            capsule misses.
    """

    class_names: tuple[str, ...]
    nearest_wins: bool
    radii: tuple[float, float] | None
    largest_misfit: float | None = None

    def predict(self, image: str, distances: np.ndarray) -> Prediction:
        """The prediction for an image with these distances (K,)."""
        best, second = np.argsort(distances if self.nearest_wins else -distances, kind="stable")[:2].tolist()
        verdict = self.verdict(float(distances[best]))
        unlike = None if self.radii is None else float(misfits(distances[None])[0])
        none = verdict == "miss"
        if self.largest_misfit is not None and unlike is not None:
            none = unlike > self.largest_misfit
        return Prediction(
            image=image,
            label=None if none else self.class_names[best],
            distance=float(distances[best]),
            verdict=verdict,
            runner_up=self.class_names[second],
            runner_up_distance=float(distances[second]),
            misfit=unlike,
        )

    def verdict(self, distance: float) -> str | None:
        if self.radii is None:
            return None
        hit, miss = self.radii
        if distance <= hit:
            return "hit"
        return "miss" if distance >= miss else "near"

    def keeping(self, share: float, distances: np.ndarray) -> DecisionRule:
        """The rule by which a share of known images keeps its class; see `misfit_limit`."""
        if self.radii is None:
            raise HitNetError('`keep` needs a network whose capsules hit or miss: others never answer "none".')
        return replace(self, largest_misfit=misfit_limit(distances, share))


def misfits(distances: np.ndarray) -> np.ndarray:
    """The misfit of each image (N,), in float64: distances (N, K)."""
    return misfit(torch.from_numpy(distances.astype(np.float64))).numpy()


def check_share(keep: float) -> None:
    """Raise HitNetError unless this is a share of images that can keep their class."""
    if not isinstance(keep, Real) or not 0 < keep <= 1:
        raise HitNetError(f"`keep` must be a share above 0 and at most 1, e.g. 0.95; got {keep!r}.")


def misfit_limit(distances: np.ndarray, keep: float) -> float:
    """The largest misfit of those images of known classes that are to keep their class.

    Args:
        distances: (N, K), of images of known classes that the network was not trained on.
        keep: Their share, e.g. 0.95.

    Raises:
        HitNetError: The share is not one, or there are fewer than 20 images.
    """
    check_share(keep)
    if len(distances) < FEWEST_HELD_OUT:
        raise HitNetError(
            f"`keep` needs at least {FEWEST_HELD_OUT} images of known classes that were not trained on; "
            f"got {len(distances)}."
        )
    return float(np.quantile(misfits(distances), keep, method="inverted_cdf")) + ROUNDING
