"""The most similar images as judges of grey images: they need no training, so neither seeds nor arithmetic change them.

Four small networks rank the known errors of MNIST's test set differently from seed to seed and from CPU to CPU. With
two judges that are always the same, the ranking is steadier. They join only where they know the labels: similar pixels
say much about digits and little about photographs.
"""

from __future__ import annotations

import logging

import numpy as np
import torch
import torch.nn.functional as F

from hitnet.capsules import HIT_RADIUS
from hitnet.data import Images
from hitnet.features.judges import FLOOR, NEIGHBOURS
from hitnet.features.neighbours import neighbour_votes

log = logging.getLogger("hitnet")
BLUR = 3  # pixels: similar digits need not lie exactly on each other
MOST_IMAGES = 50_000  # the work grows with the square of their number
LEAST_AGREEMENT = 0.9  # share of labels that the neighbours must agree with


def neighbour_distances(images: Images, device: torch.device) -> np.ndarray | None:
    """Distances (M, N, K) by the labels of the most similar other images; None where they know too little.

    Args:
        images: Grey images.
        device: Where to compute.
    """
    if images.shape[0] != 1 or len(images) > MOST_IMAGES or len(images) <= max(NEIGHBOURS):
        return None
    blurred = F.avg_pool2d(images.pixels.float() / 255, BLUR, stride=1, padding=BLUR // 2)
    rows = blurred.flatten(1).to(device)
    votes = [neighbour_votes(rows, images.labels, images.num_classes, k).cpu() for k in NEIGHBOURS]
    agreement = float((votes[0].argmax(dim=1) == images.labels).double().mean())
    if agreement < LEAST_AGREEMENT:
        log.info("Similar images agree with only %.0f %% of the labels, so they are not asked.", 100 * agreement)
        return None
    return np.stack([(-HIT_RADIUS * torch.log(vote + FLOOR)).numpy().astype(np.float32) for vote in votes])
