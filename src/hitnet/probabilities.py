"""Probabilities of classes from distances of capsules.

Shapes: distances and probabilities (N, K) of N images and K classes, labels (N,).
"""

import numpy as np
import numpy.typing as npt

from hitnet.capsules import HIT_RADIUS
from hitnet.errors import HitNetError, finite, share

Floats = npt.NDArray[np.float64]
FEWEST_HELD_OUT = 20  # images whose labels the network has not seen, to fit anything on
COLDEST, HOTTEST = 0.005, 5.0  # temperatures that are tried


def class_probabilities(distances: np.ndarray, temperature: float = HIT_RADIUS, *, error_rate: float = 0.0) -> Floats:
    """The softmax of −distance / temperature: the nearest capsule's class is the likeliest; each row sums to 1.

    Each `temperature` of additional distance makes a class e times less likely. At the default, the hit radius, an
    image with one capsule on the hit radius (0.1) and nine on the miss radius (0.9) gets 0.997 for the hit.

    Args:
        distances: (N, K).
        temperature: Above 0.
        error_rate: How often the distances are misleading however clear they are. This share of each image's
            probability is spread evenly over all classes.
    """
    finite("class_probabilities", "temperature", temperature, above_0=True)
    share("class_probabilities", "error_rate", error_rate)
    softmax = np.exp(_log_probabilities(distances, temperature))
    return (1 - error_rate) * softmax + error_rate / distances.shape[1]


def _log_probabilities(distances: np.ndarray, temperature: float) -> Floats:
    if distances.ndim != 2 or not np.isfinite(distances).all():
        raise HitNetError(f"distances must be finite and of shape (N, K); got shape {distances.shape}.")
    exponents = -distances.astype(np.float64) / temperature
    exponents -= exponents.max(axis=1, keepdims=True, initial=-np.inf)
    return exponents - np.log(np.exp(exponents).sum(axis=1, keepdims=True))


def mean_surprise(distances: np.ndarray, labels: np.ndarray, temperature: float) -> float:
    """Mean of −ln p over images: the lower, the better the probabilities fit the labels.

    As in Platt's scaling, a label counts as right with 1 − 1/(N + 2), and the other classes share the rest: a few
    images that are all classified correctly do not prove certainty.
    """
    logs = _log_probabilities(distances, temperature)
    count, classes = logs.shape
    right = logs[np.arange(count), labels]
    others = (logs.sum(axis=1) - right) / max(classes - 1, 1)
    doubt = 1 / (count + 2)
    return float(-((1 - doubt) * right + doubt * others).mean())


def fit_temperature(distances: np.ndarray, labels: np.ndarray) -> float:
    """The temperature with the lowest `mean_surprise`, for images whose labels the network has not seen."""
    from scipy.optimize import minimize_scalar  # takes long to import

    best = minimize_scalar(
        lambda logarithm: mean_surprise(distances, labels, float(np.exp(logarithm))),
        bounds=(np.log(COLDEST), np.log(HOTTEST)),
        method="bounded",
    )
    return float(np.exp(best.x))
