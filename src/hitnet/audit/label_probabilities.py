"""How probable each class is for each image of an audit, for other tools.

Judges that have not seen the labels are calibrated by the labels: a temperature is fitted. The labels cannot calibrate
networks that were trained on them. Three things are done instead:

- Training has brought each image nearer to its label than a new image of the class would be. To make up for this, the
  distance of the given class grows by PULL.
- The largest probability is 1 − the share of labels that the audit expects to be wrong, however clear distances are.
- The temperature is lower than the one that fits images held out best, 0.09 to 0.1. Tools such as cleanlab call a label
  wrong if another class is more probable than that class is on average for images with its own label. At 0.1, an image
  that two classes fit hardly ever gets there.

benchmarks/probabilities.py measures both criteria: calibration on images held out, and what cleanlab finds.
"""

from __future__ import annotations

import numpy as np

from hitnet.probabilities import Floats, class_probabilities, fit_temperature

PULL = 0.25
TEMPERATURE = 0.02


def label_probabilities(distances: np.ndarray, labels: np.ndarray, *, in_sample: float, error_rate: float) -> Floats:
    """Probability of each class (N, K).

    Args:
        distances: (N, K), the mean over the judges.
        labels: (N,), the given class of each image.
        in_sample: Share of the judges that were trained on the labels.
        error_rate: Share of labels that the audit expects to be wrong.
    """
    if not in_sample:
        return class_probabilities(distances, fit_temperature(distances, labels))
    freed = distances.astype(np.float64)
    freed[np.arange(len(labels)), labels] += PULL * in_sample
    return class_probabilities(freed, TEMPERATURE, error_rate=error_rate)
