"""Ghosts over several runs (section 3.3): the readings of each run, and their analysis together.

The reading of a run (`ghosts-60.npz` in its folder: class and distance of every training image's ghost after 60
epochs, and the distance of its true class) is small. To analyse runs of several machines, copy these files to one.
The ledger keeps the analysis as counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hitnet import HitNetError, Images, plots
from hitnet.capsules import HIT_RADIUS
from hitnet.data import read_npz
from hitnet.inference import Ghosts, find_ghosts
from hitnet.runtime import replacing
from reproduction.experiments import Experiment
from reproduction.figures import FOLDER, MOST_DRAWN
from reproduction.ledger import ANALYSIS, Entry, Ledger
from reproduction.provenance import today
from reproduction.records import full_runs

COLUMNS = ("label", "ghost", "hits", "mean_distance")  # kept of each doubtful image, after its index
BIN = 0.05  # width of the steps of mean distance over which spreads are kept
Facts = dict[str, Any]


def reading_path(folder: Path, epoch: int) -> Path:
    """The file of a run's ghosts after an epoch."""
    return folder / f"ghosts-{epoch}.npz"


def save_reading(file: Path, distances: np.ndarray, labels: np.ndarray, *, fingerprint: str, weights: str) -> None:
    """Write the ghost of every training image in one network.

    Args:
        distances: Distances (N, K) of all capsules to the centre.
        labels: Classes (N,) of the images.
        fingerprint: Fingerprint of the images.
        weights: Fingerprint of the network's weights.
    """
    candidates = distances.astype(np.float64)
    candidates[np.arange(len(labels)), labels] = np.inf
    with replacing(file) as temporary, temporary.open("wb") as opened:
        np.savez_compressed(
            opened,
            ghost=candidates.argmin(axis=1).astype(np.int16),
            distance=candidates.min(axis=1).astype(np.float32),
            own=distances[np.arange(len(labels)), labels].astype(np.float32),
            fingerprint=np.array(fingerprint),
            weights=np.array(weights),
        )


def load_readings(files: Sequence[Path], labels: np.ndarray, classes: int) -> tuple[np.ndarray, list[str]]:
    """The readings of M networks.

    Returns:
        Distances (M, N, K), infinite except for ghosts and true classes, and the fingerprints of the M networks'
        weights.

    Raises:
        HitNetError: A file is damaged, or of other images, or of the same network as another.
    """
    distances = np.full((len(files), len(labels), classes), np.inf)
    fingerprints, networks = set(), []
    for rows, file in zip(distances, files, strict=True):
        ghost, distance, own, fingerprint, weights = read_reading(file, classes)
        fingerprints.add(fingerprint)
        networks.append(weights)
        if len(ghost) != len(labels) or len(fingerprints) > 1:
            raise HitNetError(f"{file} is of other images than the other readings. Do all runs use the same data?")
        if networks.count(networks[-1]) > 1:
            twin = files[networks.index(networks[-1])]
            raise HitNetError(f"{file} and {twin} are of the same network. Copy each from its own run folder.")
        rows[np.arange(len(labels)), ghost] = distance
        rows[np.arange(len(labels)), labels] = own
    return distances, networks


def read_reading(file: Path, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, str, str]:
    """What `save_reading` wrote: ghosts, their distances, those of the true classes (N,), and both fingerprints."""
    hint = "Copy it again from where it was made, or remove it."
    try:
        reading = read_npz(file, ("ghost", "distance", "own", "fingerprint", "weights"))
    except HitNetError as error:
        raise HitNetError(f"{file} cannot be read: {error} {hint}") from error
    kinds = {name: (array.dtype.kind, array.ndim) for name, array in reading.items()}
    numbers = {"distance": ("f", 1), "own": ("f", 1)}
    expected = {"ghost": ("i", 1), **numbers, "fingerprint": ("U", 0), "weights": ("U", 0)}
    if kinds != expected or len({reading[name].shape for name in ("ghost", *numbers)}) > 1:
        raise HitNetError(f"{file} cannot be read: it does not hold the ghosts of a network. {hint}")
    ghost = reading["ghost"]
    if len(ghost) and not 0 <= int(ghost.min()) <= int(ghost.max()) < classes:
        raise HitNetError(f"{file} cannot be read: it names classes beyond the {classes} that there are. {hint}")
    return ghost, reading["distance"], reading["own"], str(reading["fingerprint"]), str(reading["weights"])


def analyse_ghosts(
    experiment: Experiment,
    readings: Mapping[int, Mapping[int, Path]],
    images: Images,
    ledger: Ledger,
    folder: Path,
    report: Callable[[str], None],
) -> None:
    """Analyse the ghosts of several runs together, and record the analysis.

    Args:
        readings: The file of each reading, by epoch and seed; some may not exist.
        images: The training images.
        folder: The folder of the pages, where the pictures of doubtful images go.
        report: Called with what is missing, and with the result.
    """
    by_epoch, chosen, hits = [], {}, {}
    for epoch, files in readings.items():
        absent = [str(seed) for seed, file in files.items() if not file.is_file()]
        if absent:
            some = next(iter(files.values()))
            report(
                f"{experiment.name}: the ghosts of seeds {', '.join(absent)} after {epoch} epochs are missing "
                f"({some.name} in {some.parent.parent}/seed-…)"
            )
            continue
        distances = read_distances(files, images, ledger, experiment, last=epoch == experiment.epochs)
        labels = images.labels.numpy()
        ghosts = find_ghosts(distances, labels, images.class_names)
        by_epoch.append([epoch, len(ghosts.agreed()), len(ghosts.doubtful())])
        chosen[epoch], *hits[epoch] = ghost_hits(distances, labels)
    if not by_epoch or by_epoch[-1][0] != experiment.epochs:
        text = "not analysed. Copy the files named above from their run folders, and repeat the command"
        report(f"{experiment.name}: {text}")
        return
    seeds = tuple(files)
    drawn = draw_doubtful(experiment, ghosts.models, ghosts.doubtful(), images, folder)
    weights = [full_runs(ledger, experiment)[seed].weights for seed in seeds]
    facts = analysis_facts(ghosts, images)
    facts |= {"epochs": experiment.epochs, "by_epoch": by_epoch, "files": drawn, "weights": weights, "date": today()}
    final = chosen[experiment.epochs]
    facts["over_epochs"] = [[epoch, percent(chosen[epoch] == final), *hits[epoch]] for epoch in chosen]
    ledger.add_if_new(Entry(ANALYSIS, experiment.name, seeds, facts))
    report(f"{experiment.name}: {len(ghosts.doubtful())} doubtful images by {len(seeds)} networks")


def ghost_hits(distances: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, float, float, float]:
    """The ghost classes (M, N) of N images in M networks, and how often classes hit, from distances (M, N, K).

    Returns:
        Ghost classes; then in percent of all images in all networks: the true class hits, the ghost hits, both hit.
    """
    images = np.arange(len(labels))
    others = distances.copy()
    others[:, images, labels] = np.inf
    own, ghost = distances[:, images, labels] <= HIT_RADIUS, others.min(axis=2) <= HIT_RADIUS
    return others.argmin(axis=2), percent(own), percent(ghost), percent(own & ghost)


def percent(chosen: np.ndarray) -> float:
    return round(100 * float(chosen.mean()), 3)


def read_distances(
    files: Mapping[int, Path], images: Images, ledger: Ledger, experiment: Experiment, *, last: bool
) -> np.ndarray:
    """The distances (M, N, K) of several runs, as `load_readings` gives them, from their files by seed.

    Raises:
        HitNetError: Readings of the end of training (`last`) are of other networks than the ledger's runs.
    """
    distances, networks = load_readings(list(files.values()), images.labels.numpy(), images.num_classes)
    runs = full_runs(ledger, experiment)
    for (seed, file), weights in zip(files.items(), networks, strict=True):
        if last and weights != runs[seed].weights:
            raise HitNetError(
                f"{file} is of another network (weights {weights}) than the ledger's run with seed {seed} "
                f"({runs[seed].weights}). Copy the file from that run's folder."
            )
    return distances


def analysis_facts(ghosts: Ghosts, images: Images) -> Facts:
    """The analysis as plain values; pairs are counts[ghost class][true class]."""
    doubtful, agreed = ghosts.doubtful(), ghosts.agreed()
    agreement = ghosts.agreement()
    step = np.floor(agreed["mean_distance"].to_numpy() / BIN).astype(int)
    spread = agreed["std_distance"].to_numpy()
    return {
        "data": images.name,
        "images": len(images),
        "models": ghosts.models,
        "class_names": list(images.class_names),
        "agreement": [[int(n), int(count)] for n, count in zip(agreement["classes"], agreement["images"], strict=True)],
        "pairs": ghosts.pairs(agreed).iloc[:-1, :-1].to_numpy().tolist(),
        "doubtful": [
            [int(images.ids[i]), label, ghost, hits, round(mean, 4)]
            for i, label, ghost, hits, mean in zip(
                doubtful.index.tolist(), *(doubtful[name].tolist() for name in COLUMNS), strict=True
            )
        ],
        "spreads": [
            [round(k * BIN, 2), int((step == k).sum()), round(float(spread[step == k].mean()), 4)]
            for k in sorted(set(step.tolist()))
        ],
    }


def draw_doubtful(
    experiment: Experiment, models: int, doubtful: pd.DataFrame, images: Images, folder: Path
) -> list[str]:
    """Draw the doubtful images, if there are any; gives the files, relative to the pages."""
    if not len(doubtful):
        return []
    file = folder / FOLDER / f"{experiment.name}-{models}-doubtful.png"
    return [
        path.relative_to(folder).as_posix()
        for path in plots.save(plots.doubtful_figures(doubtful, images, most=MOST_DRAWN), file)
    ]


def redraw_doubtful(
    experiment: Experiment, analysis: Entry, images: Images, ledger: Ledger, folder: Path, report: Callable[[str], None]
) -> None:
    """Draw the doubtful images of a recorded analysis again.

    Raises:
        HitNetError: The images are others than those of the analysis.
    """
    facts = analysis.facts
    if images.fingerprint != full_runs(ledger, experiment)[analysis.seeds[0]].fingerprint:
        raise HitNetError(
            f"The doubtful images of {experiment.name} cannot be drawn: {images.name} holds other images here than "
            "those of the ledger's runs. Check the data set with `hitnet data check`."
        )
    places = {image: place for place, image in enumerate(images.ids.tolist())}
    ids, *columns = zip(*facts["doubtful"], strict=True)
    doubtful = pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)), index=[places[image] for image in ids])
    for file in draw_doubtful(experiment, facts["models"], doubtful, images, folder):
        report(f"written: {folder / file}")
