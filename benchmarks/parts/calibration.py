"""How well probabilities are calibrated."""

from __future__ import annotations

import numpy as np


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """How far the probability of the likeliest class is from the share of correct predictions (Guo et al., 2017).

    The mean of that gap over `bins` equally wide intervals of the probability, weighted by their numbers of images.
    """
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    interval = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = np.bincount(interval, weights=right - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(labels))
