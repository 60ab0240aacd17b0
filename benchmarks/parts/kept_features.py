"""Features of datasets that `benchmarks/audits.py features` kept, and labels that are made wrong on purpose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hitnet.features.least_squares import LeastSquares
from parts.noisy_labels import Labels, with_noise


@dataclass(frozen=True)
class Case:
    """N images: features (N, D), their true classes (N,) and the labels (N,) that are audited."""

    features: Tensor
    truth: Labels
    given: Labels

    @property
    def classes(self) -> int:
        return int(self.truth.max()) + 1

    @property
    def wrong(self) -> np.ndarray:
        return np.asarray(self.given != self.truth)


def read_case(file: Path, noise: str, *, images: int, rate: float, seed: int) -> Case:
    """Some images of a file, and their labels: as people gave them ("people"), or a share made wrong by a rule."""
    arrays = np.load(file, allow_pickle=False)
    some = np.random.RandomState(0).permutation(len(arrays["y"]))[:images]
    features, truth = torch.from_numpy(arrays["x"][some].astype(np.float32)), arrays["y"][some].astype(np.int64)
    if noise == "people":
        return Case(features, truth, arrays["given"][some].astype(np.int64))
    alike = look_alikes(features, truth) if noise == "look-alike" else np.zeros(0, np.int64)
    return Case(features, truth, with_noise(truth, noise, seed, alike, rate))


def look_alikes(features: Tensor, truth: Labels) -> Labels:
    """What each class (K,) is most often confused with, by least squares on the true labels, each image left out."""
    classes, labels = int(truth.max()) + 1, torch.from_numpy(truth)
    squares = LeastSquares(features, labels, classes)
    left_out = squares.leave_one_out(squares.choose_penalty(torch.Generator().manual_seed(0)))
    confused = np.zeros((classes, classes))
    np.add.at(confused, (truth, left_out.argmax(dim=1).numpy()), 1)
    # Where nothing is confused, the class that comes second counts.
    np.add.at(confused, truth, left_out.scatter(1, labels[:, None], 0).clamp(0, 1).numpy() / len(truth))
    np.fill_diagonal(confused, -1)
    return np.asarray(confused.argmax(axis=1))
