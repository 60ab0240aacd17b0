"""Committees of five runs (section 3.1 quotes one of Wan et al.): predictions that are kept, judged, and recorded.

A run that belongs to a committee keeps what it says of the test images (`test-distances.npz` in its folder, 0.4 MB). To
judge by runs of several machines, copy these files to one. The ledger keeps the number of wrong images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hitnet import HitNetError, Images
from hitnet.data import read_npz
from hitnet.inference import mean_distances
from hitnet.models import build
from hitnet.runtime import replacing
from reproduction.experiments import Experiment
from reproduction.ledger import ANALYSIS, Entry, Ledger
from reproduction.provenance import today
from reproduction.records import full_runs

LABEL = "committee"  # of its analysis in the ledger


def predictions_path(folder: Path) -> Path:
    """The file of what a run says of the test images."""
    return folder / "test-distances.npz"


def save_predictions(file: Path, distances: np.ndarray, *, weights: str) -> None:
    """Write the distances (N, K) of the test images in one network; `weights` is the fingerprint of its weights."""
    with replacing(file) as temporary, temporary.open("wb") as opened:
        np.savez_compressed(opened, distances=distances.astype(np.float32), weights=np.array(weights))


def load_predictions(file: Path) -> tuple[Tensor, str]:
    """The distances (N, K) in a file, and the fingerprint of the network's weights.

    Raises:
        HitNetError: The file is damaged.
    """
    try:
        kept = read_npz(file, ("distances", "weights"))
        return torch.from_numpy(kept["distances"]), str(kept["weights"])
    except (HitNetError, KeyError, TypeError) as error:
        raise HitNetError(
            f"{file} cannot be read: {error}. Copy it again from where it was made, or remove it."
        ) from error


def nearest_wins(experiment: Experiment) -> bool:
    """Whether the class with the smallest distance wins in an experiment's networks."""
    with torch.device("meta"):  # takes no memory
        network = build(experiment.network, experiment.in_shape, experiment.classes, **experiment.model_options)
    return network.head.nearest_wins


def wrong_within(distances: Tensor, labels: Tensor, *, nearest: bool, most: int = 1) -> list[int]:
    """How many images have a class that is not among the first 1, 2, … `most` classes by distances (N, K)."""
    order = distances.argsort(dim=1, descending=not nearest, stable=True)
    place = (order == labels[:, None]).int().argmax(dim=1)
    return [int((place >= count).sum()) for count in range(1, most + 1)]


def judge_committees(
    experiment: Experiment, files: Mapping[int, Path], test: Images, ledger: Ledger, report: Callable[[str], None]
) -> None:
    """Judge the test images by each committee whose runs are all there, and record the number of wrong ones.

    Args:
        files: Where each run's predictions are, by seed; some may not exist.
        test: The test images.
        report: Called with what is missing, and with the results.

    Raises:
        HitNetError: A file is damaged, or of another network than the ledger's run.
    """
    runs = full_runs(ledger, experiment)
    for seeds in experiment.committee_seeds:
        if not set(seeds) <= set(runs) or ledger.get(ANALYSIS, experiment.name, seeds, LABEL) is not None:
            continue
        absent = [str(seed) for seed in seeds if not files[seed].is_file()]
        if absent:
            example = files[seeds[0]]
            report(
                f"{experiment.name}: no committee of seeds {seeds[0]} to {seeds[-1]}: the predictions of seeds "
                f"{', '.join(absent)} are missing. Copy {example.name} of each from the machine that made the run to "
                f"{example.parent.parent}/seed-…"
            )
            continue
        members = []
        for seed in seeds:
            distances, weights = load_predictions(files[seed])
            if weights != runs[seed].weights or len(distances) != len(test):
                raise HitNetError(
                    f"{files[seed]} is of another network or other images than the ledger's run with seed {seed} "
                    f"(weights {runs[seed].weights}). Copy the file from that run's folder."
                )
            members.append(distances)
        (wrong,) = wrong_within(mean_distances(members), test.labels, nearest=nearest_wins(experiment))
        facts = {
            "wrong": wrong,
            "tested": len(test),
            "weights": [runs[seed].weights for seed in seeds],
            "date": today(),
        }
        ledger.add_if_new(Entry(ANALYSIS, experiment.name, seeds, facts, LABEL))
        report(f"{experiment.name}: seeds {seeds[0]} to {seeds[-1]} together: error {100 * wrong / len(test):.2f} %")


def committee_errors(ledger: Ledger, experiment: Experiment) -> list[float]:
    """The error of each recorded committee, in percent.

    Raises:
        HitNetError: A committee is of other networks than the ledger's runs.
    """
    runs, errors = full_runs(ledger, experiment), []
    for entry in ledger.select(ANALYSIS, experiment.name):
        if entry.label != LABEL:
            continue
        recorded = [runs[seed].weights if seed in runs else None for seed in entry.seeds]
        if recorded != entry.facts["weights"]:
            raise HitNetError(
                f"{ledger.path}, line {ledger.lines[entry.key]}: the committee of {experiment.name} is of other "
                f"networks than the runs with seeds {', '.join(map(str, entry.seeds))}. Remove the line and repeat the "
                "command."
            )
        errors.append(100 * entry.facts["wrong"] / entry.facts["tested"])
    return errors
