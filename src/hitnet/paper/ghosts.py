"""Ghosts over several runs: read from each run's weights, analysed together, kept in the ledger as counts.

The reading of a run (`ghosts-60.npz` in its folder: class and distance of every training image's ghost after 60
epochs) is small; to analyse runs of several machines, it is enough to bring these files together.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from hitnet import plots
from hitnet.audit.ghosts import Ghosts, find_ghosts
from hitnet.audit.scores import others
from hitnet.data.images import Images
from hitnet.errors import HitNetError
from hitnet.files import replacing
from hitnet.models.network import Network
from hitnet.paper.experiments import Experiment
from hitnet.paper.ledger import ANALYSIS, Entry, Ledger
from hitnet.paper.origin import today
from hitnet.paper.pictures import FOLDER
from hitnet.paper.records import analysis_of, full_runs
from hitnet.training.device import pick_device
from hitnet.training.evaluation import class_distances
from hitnet.training.run import RunFolder, load
from hitnet.training.train import weights_fingerprint

if TYPE_CHECKING:
    from hitnet.paper.running import Runner

COLUMNS = ("label", "ghost", "hits", "mean_distance")  # kept of each doubtful image, after its index
BIN = 0.05  # width of the steps of mean distance over which spreads are kept


def reading(folder: RunFolder, epoch: int) -> Path:
    return folder.path / f"ghosts-{epoch}.npz"


def keep_reading(network: Network, folder: RunFolder, epoch: int, images: Images) -> None:
    """Write down the ghost of every training image in one network, as it is after an epoch."""
    found = class_distances(network, images.pixels).cpu().numpy().astype(np.float64)
    away = others(found, images.labels.numpy())
    with replacing(reading(folder, epoch)) as temporary, temporary.open("wb") as file:
        np.savez_compressed(
            file,
            ghost=away.argmin(axis=1).astype(np.int16),
            distance=away.min(axis=1).astype(np.float32),
            fingerprint=np.array(folder.config().data["fingerprint"]),
            weights=np.array(weights_fingerprint(network)),
        )


def read_distances(paths: Sequence[Path], labels: np.ndarray, classes: int) -> tuple[np.ndarray, list[str]]:
    """The readings of M networks as distances (M, N, K), infinite but for the ghosts; and whose they are."""
    found = np.full((len(paths), len(labels), classes), np.inf)
    images, networks = set(), []
    for distances, path in zip(found, paths, strict=True):
        try:
            with np.load(path, allow_pickle=False) as kept:
                ghost, distance = kept["ghost"], kept["distance"]
                images.add(str(kept["fingerprint"]))
                networks.append(str(kept["weights"]))
        except (OSError, EOFError, ValueError, KeyError, BadZipFile, zlib.error) as error:
            raise HitNetError(
                f"{path} cannot be read: {error}. Bring it again from where it was made, or remove it."
            ) from error
        if len(ghost) != len(labels) or len(images) > 1:
            raise HitNetError(f"{path} is of other images than the rest. Are the data of all runs the same?")
        if networks.count(networks[-1]) > 1:
            twin = paths[networks.index(networks[-1])]
            raise HitNetError(f"{path} and {twin} are of the same network. Bring each from its own run folder.")
        distances[np.arange(len(labels)), ghost] = distance
    return found, networks


def analyse(one: Experiment, seeds: tuple[int, ...], runner: Runner, docs: Path, say: Callable[[str], None]) -> None:
    """Analyse the ghosts of these runs together, unless the ledger has it."""
    if analysis_of(runner.ledger, one, seeds) is not None:
        return
    device, images = pick_device(runner.device), runner.images(one, "train")
    folders = [runner.folder(one, seed) for seed in seeds]
    for folder in folders:
        if folder.finished and not reading(folder, one.epochs).is_file():
            keep_reading(load(folder.path).model.to(device), folder, one.epochs, images)
    by_epoch = []
    for epoch in one.read_ghosts:
        paths = [reading(folder, epoch) for folder in folders]
        absent = [str(seed) for seed, path in zip(seeds, paths, strict=True) if not path.is_file()]
        if absent:
            say(
                f"{one.name}: the ghosts of seeds {', '.join(absent)} after {epoch} epochs are not here "
                f"({paths[0].name} in {runner.runs_dir / one.name}/seed-…)"
            )
            continue
        found = read_ghosts(paths, images, runner.ledger, one, seeds, last=epoch == one.epochs)
        by_epoch.append([epoch, len(found.agreed()), len(found.doubtful())])
    if not by_epoch or by_epoch[-1][0] != one.epochs:
        say(f"{one.name}: not analysed. Copy the files named above from their run folders, and give the command again")
        return
    facts = facts_of(found, images)
    facts |= {"epochs": one.epochs, "by_epoch": by_epoch, "files": draw_doubtful(one, found, images, docs)}
    facts |= {"weights": [full_runs(runner.ledger, one)[seed].weights for seed in seeds], "date": today()}
    runner.ledger.add_if_new(Entry(ANALYSIS, one.name, seeds, facts))
    say(f"{one.name}: {len(found.doubtful())} doubtful images by {len(seeds)} networks")


def read_ghosts(
    paths: Sequence[Path], images: Images, ledger: Ledger, one: Experiment, seeds: tuple[int, ...], *, last: bool
) -> Ghosts:
    """The ghosts of several runs; those at the end of training must be of the very networks that the ledger has."""
    labels = images.labels.numpy()
    distances, networks = read_distances(paths, labels, images.num_classes)
    runs = full_runs(ledger, one)
    for path, seed, weights in zip(paths, seeds, networks, strict=True):
        if last and weights != runs[seed].weights:
            raise HitNetError(
                f"{path} is of another network (weights {weights}) than the ledger's run with seed {seed} "
                f"({runs[seed].weights}). Bring the file from that run's own folder."
            )
    return find_ghosts(distances, labels, images.class_names)


def facts_of(found: Ghosts, images: Images) -> dict[str, Any]:
    """The analysis as plain values; pairs are counts[ghost class][true class]."""
    doubtful, agreed = found.doubtful(), found.agreed()
    agreement = found.agreement()
    step = np.floor(agreed["mean_distance"].to_numpy() / BIN).astype(int)
    spread = agreed["std_distance"].to_numpy()
    return {
        "data": images.name,
        "images": len(images),
        "models": found.models,
        "class_names": list(images.class_names),
        "agreement": [[int(n), int(count)] for n, count in zip(agreement["classes"], agreement["images"], strict=True)],
        "pairs": found.pairs(agreed).iloc[:-1, :-1].to_numpy().tolist(),
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


def draw_doubtful(one: Experiment, found: Ghosts, images: Images, docs: Path) -> list[str]:
    if not len(found.doubtful()):
        return []
    written = plots.save(
        plots.doubtful_figures(found, images), docs / FOLDER / f"{one.name}-{found.models}-doubtful.png"
    )
    return [path.relative_to(docs).as_posix() for path in written]
