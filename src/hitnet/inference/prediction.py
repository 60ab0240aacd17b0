"""What distances say about an image: a class, or none of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hitnet.capsules import HIT_RADIUS, MISS_RADIUS
from hitnet.errors import HitNetError
from hitnet.losses import misfit
from hitnet.models.network import Network
from hitnet.probabilities import FEWEST_HELD_OUT, class_probabilities

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1e-4  # a misfit may differ by this in another batch, or by ONNX Runtime


@dataclass(frozen=True)
class Prediction:
    """The prediction for one image.

    Attributes:
        image: The image file, or "image N".
        label: The winning class, or None: none of these.
        distance: Distance of the winning class's capsule from the centre; for networks other than HitNet, the entry of
            their prediction vector, where the largest wins.
        verdict: "hit" (within m = 0.1), "miss" (from m' = 0.9 on) or "near", by that distance; None for networks other
            than HitNet.
        runner_up: The second-best class.
        runner_up_distance: Its distance.
        misfit: How unlike the images of every class it is (see `Network.misfits`); None for networks other than HitNet.
        probability: That of the winning class, if the image shows one of the classes; calibrated on the test images of
            the training, and None if there were too few.
    """

    image: str
    label: str | None
    distance: float
    verdict: str | None
    runner_up: str
    runner_up_distance: float
    misfit: float | None
    probability: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Predictions(list[Prediction]):
    """A list of predictions, one per image in their order."""

    def table(self) -> pd.DataFrame:
        """One row per image; its columns are the attributes of `Prediction`."""
        import pandas  # takes long to import

        return pandas.DataFrame([prediction.to_dict() for prediction in self])


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
        temperature: That of the probabilities; None: there are none.
    """

    class_names: tuple[str, ...]
    nearest_wins: bool
    radii: tuple[float, float] | None
    largest_misfit: float | None = None
    temperature: float | None = None

    @classmethod
    def of(cls, network: Network, class_names: tuple[str, ...], temperature: float | None) -> DecisionRule:
        """The rule of a trained network: an image is none of the classes if every capsule misses."""
        radii = (HIT_RADIUS, MISS_RADIUS) if network.head.loss == "centripetal" else None
        return cls(class_names, network.head.nearest_wins, radii, temperature=temperature)

    def predict(self, image: str, distances: np.ndarray, misfit: float | None) -> Prediction:
        """The prediction for an image with these distances (K,) and this misfit."""
        check_finite([*distances, misfit or 0.0])
        lowest = distances if self.nearest_wins else -distances
        best, second = np.argsort(lowest, kind="stable")[:2].tolist()
        verdict = self.verdict(float(distances[best]))
        none = verdict == "miss"
        if self.largest_misfit is not None and misfit is not None:
            none = misfit > self.largest_misfit
        probability = None
        if self.temperature is not None:
            probability = float(class_probabilities(lowest[None], self.temperature)[0, best])
        return Prediction(
            image=image,
            label=None if none else self.class_names[best],
            distance=float(distances[best]),
            verdict=verdict,
            runner_up=self.class_names[second],
            runner_up_distance=float(distances[second]),
            misfit=misfit,
            probability=probability,
        )

    def verdict(self, distance: float) -> str | None:
        if self.radii is None:
            return None
        hit, miss = self.radii
        if distance <= hit:
            return "hit"
        return "miss" if distance >= miss else "near"

    def keeping(self, share: float, misfits: np.ndarray) -> DecisionRule:
        """The rule by which a share of known images, with these misfits (N,), keeps its class; see `misfit_limit`."""
        if self.radii is None:
            raise HitNetError('`keep` needs a network whose capsules hit or miss: others never answer "none".')
        return replace(self, largest_misfit=misfit_limit(misfits, share))


def check_finite(values: Any) -> None:
    """Raise HitNetError if a network has computed NaN or infinity."""
    if not np.isfinite(np.asarray(values)).all():
        raise HitNetError(
            "The network computes values that are not finite: some of its weights are NaN or far too large. Restore it "
            "from a copy, or train it again."
        )


def misfits(distances: np.ndarray) -> np.ndarray:
    """The misfit of each image (N,), in float64: distances (N, K)."""
    return misfit(torch.from_numpy(distances.astype(np.float64))).numpy()


def check_share(keep: float) -> None:
    """Raise HitNetError unless this is a share of images that can keep their class."""
    if not isinstance(keep, Real) or not 0 < keep <= 1:
        raise HitNetError(f"`keep` must be a share above 0 and at most 1, e.g. 0.95; got {keep!r}.")


def misfit_limit(misfits: np.ndarray, keep: float) -> float:
    """The largest misfit of those images of known classes that are to keep their class.

    Args:
        misfits: (N,), of at least 20 images of known classes that the network was not trained on.
        keep: Their share, e.g. 0.95.
    """
    check_share(keep)
    if len(misfits) < FEWEST_HELD_OUT:
        raise HitNetError(
            f"`keep` needs at least {FEWEST_HELD_OUT} images of known classes that were not trained on; "
            f"got {len(misfits)}."
        )
    check_finite(misfits)
    return float(np.quantile(misfits, keep, method="inverted_cdf")) + ROUNDING
