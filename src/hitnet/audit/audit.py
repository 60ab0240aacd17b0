"""The label audit: train a few networks on the labels as given, and rank the images by how doubtful theirs is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor

from hitnet import data as datasets
from hitnet import files
from hitnet.audit import scores
from hitnet.audit.annotators import compare_annotators
from hitnet.audit.page import write_page
from hitnet.audit.plan import Planned, need_hit_or_miss, plan
from hitnet.audit.summary import summarise
from hitnet.data.images import Images
from hitnet.data.load import Source
from hitnet.data.sources import is_known
from hitnet.errors import HitNetError
from hitnet.models.network import Network
from hitnet.synthesis.decoding import to_pixels
from hitnet.synthesis.prototype import class_prototypes
from hitnet.training import Recipe, Run, load
from hitnet.training.device import pick_device
from hitnet.training.evaluation import check_fit, class_distances, match_classes
from hitnet.training.networks import Task, release, train_networks
from hitnet.training.progress import Progress
from hitnet.training.run import RunConfig
from hitnet.training.train import configure, source_name, task, weights_fingerprint

BATCH = 10_000  # images on the device at once, in all their views
VIEW_SHIFT = 2  # pixels


@dataclass(frozen=True)
class Audit:
    """The result: `table` has one row an image, worst first; `distances` (N, K) are in its order."""

    table: pd.DataFrame
    distances: np.ndarray
    class_names: tuple[str, ...]
    summary: dict[str, Any]
    images: Images  # in the table's order
    prototypes: Tensor | None
    folder: Path | None = None


def default_split(source: Source) -> str:
    """The training split of a known set; all images of the sample and of a user's own data."""
    return "train" if is_known(source) and source != "mnist-sample" else "all"


def audit(
    data: Source,
    *,
    models: int | None = None,
    model: str | Sequence[str] | None = None,
    recipe: str | Recipe = "fast",
    epochs: int | None = None,
    split: str | None = None,
    score: scores.Method = "margin",
    runs: list[str | Path] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    seed: int = 0,
    device: str = "auto",
    limit: int | None = None,
    data_dir: str | Path | None = None,
    image_size: int | tuple[int, int] | None = None,
    strict: bool = False,
    mirror: bool | None = None,
    recipe_options: dict[str, Any] | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Find the doubtful labels of a data set.

    models  how many networks to train, with seeds seed, seed + 1, …
    model   their kind, or several, which then take turns; see `plan` for what is trained by default
    split   train, test or all; by default train for known sets and all for the sample and your own data
    score   how doubt is measured; see `scores.doubt`
    runs    finished runs to judge by, instead of training
    out     folder for the table, the summary and the page; the networks are kept in out/models
    mirror  whether images may be mirrored, in training and to be judged; None: what is known of the set, which of your
            own files is no
    """
    started = time.perf_counter()
    scores.check_method(score)
    if runs:
        training = {"models": models, "model": model, "epochs": epochs, **(recipe_options or {})}
        refuse_training(training | {"recipe": None if recipe == "fast" else recipe})
    chosen_split = split or default_split(data)
    source: dict[str, Any] = {"source": source_name(data), "split": chosen_split}
    images = datasets.load(data, chosen_split, limit=limit, data_dir=data_dir, image_size=image_size, strict=strict)
    images = images if mirror is None else replace(images, flip=mirror)
    folder = prepare(out, source | {"images": len(images)}, resume=resume)
    if runs:
        trained = [load(run) for run in runs]
        images = match_classes(images, trained[0].class_names)
    else:
        networks = plan(images, model=model, count=models, device=device)
        work = tasks(
            networks,
            data,
            images,
            folder,
            recipe=recipe,
            epochs=epochs,
            seed=seed,
            device=device,
            options=recipe_options,
        )
        try:
            trained = train_networks(work, images, None, device=pick_device(device), progress=progress)
        finally:
            release(work)
    result = judge(collect(trained, images, pick_device(device)), images, method=score)
    table = compare_annotators(data, result.table)
    about = source | {
        **describe_networks(trained),
        "score": score,
        "limit": limit,
        "image_size": list(images.shape[1:]),
        "seconds": time.perf_counter() - started,
    }
    summary, prototypes = summarise(table, images, about), prototype_images(trained)
    finished = replace(result, table=table, summary=summary, prototypes=prototypes, folder=folder)
    if folder is not None:
        write(finished, folder)
    return finished


def refuse_training(options: dict[str, Any]) -> None:
    """Finished runs are judged by as they are: options of a training would do nothing."""
    asked = [name for name, value in options.items() if value is not None]
    if asked:
        raise HitNetError(
            f"Finished runs are not trained: {', '.join(asked)} cannot be given beside runs. Leave it out."
        )


def prepare(out: str | Path | None, settings: dict[str, Any], *, resume: bool) -> Path | None:
    """The folder of an audit, new or to be gone on with."""
    if out is None:
        return None
    folder = Path(out)
    try:
        # Settings alone are left by an audit that never began, because of a wrong option.
        begun = any(path.name != "settings.json" for path in folder.iterdir())
    except FileNotFoundError:
        begun = False
    except NotADirectoryError as error:
        raise HitNetError(f"{folder} is a file or lies in one; choose another --out.") from error
    except OSError as error:
        raise HitNetError(f"{folder} cannot be used: {error.strerror}. Choose another --out.") from error
    if begun and not resume:
        raise HitNetError(f"{folder} is not empty. Go on with the audit there (--resume) or choose another --out.")
    settings_file = folder / "settings.json"
    if begun and not settings_file.is_file():
        raise HitNetError(f"{folder} holds no audit to go on with, but other files. Choose another --out.")
    if begun and files.read_json(settings_file) != settings:
        raise HitNetError(
            f"{folder} holds the audit of other images ({files.read_json(settings_file)}). Choose another --out."
        )
    files.write_json(settings_file, settings)
    return folder


def tasks(
    networks: Sequence[Planned],
    data: Source,
    images: Images,
    folder: Path | None,
    *,
    recipe: str | Recipe,
    epochs: int | None,
    seed: int,
    device: str,
    options: dict[str, Any] | None,
) -> list[Task]:
    """The audit's networks to train, or to take up where they stand. Only the first has a decoder, for prototypes."""
    where = pick_device(device)
    kinds: dict[str, RunConfig] = {}
    for network in dict.fromkeys(networks):
        length = network.epochs if epochs is None and recipe == "fast" else epochs
        kinds[network.model], _ = configure(
            data,
            images,
            None,
            device=where,
            model=network.model,
            recipe=recipe,
            recipe_options={"epochs": length, **(options or {})},
        )
    configs = [replace(kinds[network.model], seed=seed + i) for i, network in enumerate(networks)]
    configs[1:] = [replace(config, model=replace(config.model, decoder="none")) for config in configs[1:]]
    targets = [None if folder is None else folder / "models" / f"seed-{config.seed}" for config in configs]
    return [task(config, target, resume=True, device=where) for config, target in zip(configs, targets, strict=True)]


def describe_networks(trained: Sequence[Run]) -> dict[str, Any]:
    """What the summary says of the networks: how many, of which kinds, and each with its seed and recipe."""
    configs = [run.config for run in trained]
    return {
        "models": len(configs),
        "model": ", ".join(dict.fromkeys(config.model_name for config in configs)),
        "networks": [
            {"model": config.model_name, "seed": config.seed, "recipe": config.recipe.to_dict()} for config in configs
        ],
    }


def collect(trained: list[Run], images: Images, device: torch.device, *, plain: bool = False) -> np.ndarray:
    """Class distances (M, N, K) in float32: each the mean over an image's views, or `plain`, of the image as it is."""
    found = []
    check_differ(trained)
    for run in trained:
        need_hit_or_miss(run.config.model_name, run.model.head.loss)
        if run.class_names != images.class_names:
            raise HitNetError(
                f"The runs must know the same classes in the same order, {', '.join(images.class_names[:20])}; "
                f"{run.folder} knows {', '.join(run.class_names[:20])}."
            )
        check_fit(run.model, images)
        network = run.model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        if plain:
            seen = class_distances(network, images.pixels).cpu()
        else:
            parts = images.pixels.split(BATCH)
            seen = torch.cat([mean_distances(network, part.to(device), images.flip) for part in parts])
        found.append(seen.numpy())
    return np.stack(found)


def check_differ(trained: Sequence[Run]) -> None:
    """An error where one network is there twice: its two votes would be counted as agreement."""
    folders: dict[str, Path | None] = {}
    for run in trained:
        weights = weights_fingerprint(run.model)
        if weights in folders:
            raise HitNetError(f"{folders[weights]} and {run.folder} hold the same network. Give each network once.")
        folders[weights] = run.folder


def mean_distances(network: Network, pixels: Tensor, mirrored_ok: bool) -> Tensor:
    """Class distances (N, K) on the CPU, each the mean over an image's views."""
    seen = [class_distances(network, view) for view in views(pixels, mirrored_ok)]
    return torch.stack(seen).mean(dim=0).cpu()


def views(pixels: Tensor, mirrored_ok: bool) -> Iterator[Tensor]:
    """Images (N, C, H, W) as they are; colour images also shifted four ways; each also mirrored, where it may be."""
    height, width = pixels.shape[2:]
    by = VIEW_SHIFT if pixels.shape[1] > 1 else 0
    around = F.pad(pixels, [by] * 4)
    for down, right in dict.fromkeys([(0, 0), (-by, 0), (by, 0), (0, -by), (0, by)]):
        view = around[:, :, by + down : by + down + height, by + right : by + right + width]
        yield view
        if mirrored_ok:
            yield view.flip(-1)


def judge(distances: np.ndarray, images: Images, *, method: scores.Method = "margin") -> Audit:
    """The audit's table from class distances (M, N, K), without any training."""
    labels = images.labels.numpy()
    evidence = scores.gather(distances.astype(np.float64), labels)
    doubts = scores.doubt(evidence, labels, method)
    values = scores.score(doubts.value)
    flags = scores.flags(evidence, doubts)
    suggested = scores.suggest(doubts, labels, flags)
    names = np.array(images.class_names, dtype=object)
    table = pd.DataFrame(
        {
            "id": images.ids.numpy(),
            "path": list(images.paths) if images.paths is not None else [""] * len(images),
            "given": names[labels],
            "suggested": names[suggested],
            "score": values,
            "hits": evidence.hits,
            "votes": evidence.votes(suggested),
            "models": evidence.models,
            "margin_mean": evidence.margin_mean,
            "margin_std": evidence.margin_std,
            "ghost": names[evidence.ghost],
            "ghost_distance": evidence.ghost_distance,
            "flag": flags,
            "rule": [scores.FLAGS[flag] for flag in flags],
        }
    )
    order = np.lexsort((table["id"], -doubts.value))
    table = table.iloc[order].reset_index(drop=True)
    arranged = images.select(torch.from_numpy(order))
    return Audit(table, evidence.mean[order].astype(np.float32), images.class_names, {}, arranged, None)


def prototype_images(trained: Sequence[Run]) -> Tensor | None:
    """The decoded centre of each class as uint8 (K, C, H, W), from the first network that has a decoder, if any."""
    network = next((run.model for run in trained if run.model.decoder is not None), None)
    if network is None:
        return None
    decoded = class_prototypes(network, torch.arange(network.config.num_classes))
    return to_pixels(decoded)


def write(result: Audit, folder: Path) -> None:
    """Write table, distances, summary and page."""
    with files.replacing(folder / "audit.parquet") as temporary:
        result.table.to_parquet(temporary, index=False)
    with files.replacing(folder / "audit.csv") as temporary:
        result.table.to_csv(temporary, index=False)
    with files.replacing(folder / "distances.npy") as temporary, temporary.open("wb") as opened:
        np.save(opened, result.distances, allow_pickle=False)
    files.write_json(folder / "summary.json", result.summary)
    write_page(
        folder / "report.html",
        result.table,
        result.distances,
        result.images.pixels,
        class_names=result.class_names,
        title=f"Label audit: {result.summary['data']}",
        prototypes=result.prototypes,
        summary=result.summary,
    )


def read_audit(folder: Path) -> tuple[pd.DataFrame, np.ndarray, dict[str, Any]]:
    """Table, distances and summary of a finished audit."""
    if not (folder / "summary.json").is_file():
        raise HitNetError(f"{folder} is not the folder of a finished audit: it has no summary.json.")
    summary = files.read_json(folder / "summary.json")
    try:
        table = pd.read_parquet(folder / "audit.parquet")
        distances = np.load(folder / "distances.npy", allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise HitNetError(f"{folder} is not a finished audit: {error}") from error
    return table, distances, summary
