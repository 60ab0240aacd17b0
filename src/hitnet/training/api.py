"""Train one network, or several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from hitnet.data import Source, open_data
from hitnet.errors import HitNetError, whole
from hitnet.models import ModelChoice
from hitnet.runtime.bar import shown
from hitnet.runtime.device import pick_device, room_for_images
from hitnet.runtime.progress import Progress, Together
from hitnet.runtime.ranks import connect, watched
from hitnet.training.choosing import MINUTES, choose_training, leaves_open
from hitnet.training.configuration import at_backbone_size, is_frozen, training_sets
from hitnet.training.frozen import FrozenTraining
from hitnet.training.jobs import seed_jobs, train_runs
from hitnet.training.recipes import Recipe, RecipeChoice
from hitnet.training.runs import Run


def train(
    data: Source,
    *,
    model: str | ModelChoice | None = None,
    recipe: str | Recipe | RecipeChoice = "fast",
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    device: str | torch.device = "auto",
    augment_from: Run | str | Path | None = None,
    minutes: float = MINUTES,
    progress: Progress | bool = True,
    callbacks: Sequence[Progress] = (),
) -> Run:
    """Train a network and, with `out`, keep it in a run folder.

    Args:
        data: Opened data, or what `open_data` takes.
        model: A name of `hitnet.models.MODELS`, or `choose_model(name, ...)`. None: one that suits the images and the
            device. For photographs, held-out images decide between a head on kept features and a network.
        recipe: The name of a recipe, `choose_recipe(name, ...)`, or a complete `Recipe`.
        seed: The same seed on the same machine gives the same result.
        out: Run folder.
        resume: Resume the run in `out`; a finished run is returned as it is.
        device: auto, cpu, cuda, cuda:1, mps, or a torch.device.
        augment_from: The run whose network modifies images, for recipes with hybrid augmentation.
        minutes: For photographs without `model`: how long a network other than a head may take. 0: only a head.
        progress: True shows a bar in a terminal or a notebook. Or hooks of your own.
        callbacks: Further hooks, e.g. `[hitnet.TensorBoard()]`.
    """
    choices: dict[str, Any] = {"model": model, "recipe": recipe, "augment_from": augment_from}
    hooks: dict[str, Any] = {"minutes": minutes, "progress": progress, "callbacks": callbacks}
    return _train(data, [seed], out, single=True, resume=resume, device=device, **hooks, **choices)[0]


def train_many(
    data: Source,
    *,
    seeds: int | Sequence[int],
    model: str | ModelChoice | None = None,
    recipe: str | Recipe | RecipeChoice = "fast",
    out: str | Path | None = None,
    resume: bool = False,
    device: str | torch.device = "auto",
    augment_from: Run | str | Path | None = None,
    minutes: float = MINUTES,
    progress: Progress | bool = True,
    callbacks: Sequence[Progress] = (),
) -> list[Run]:
    """Train one network per seed on one copy of the images. Each is the network that `train` gives for its seed.

    Args:
        seeds: The seeds, or N for the seeds 0 to N - 1.
        out: Folder; the run of seed S is kept in out/seed-S.

    The other arguments are those of `train`.
    """
    choices: dict[str, Any] = {"model": model, "recipe": recipe, "augment_from": augment_from}
    hooks: dict[str, Any] = {"minutes": minutes, "progress": progress, "callbacks": callbacks}
    return _train(data, listed_seeds(seeds), out, single=False, resume=resume, device=device, **hooks, **choices)


def _train(
    data: Source,
    seeds: Sequence[int],
    out: str | Path | None,
    *,
    single: bool,
    resume: bool,
    device: str | torch.device,
    minutes: float,
    progress: Any,
    callbacks: Any,
    **choices: Any,
) -> list[Run]:
    """Open the data, make a run folder per seed, or a `single` one, and train."""
    where = pick_device(device)
    ranks, opened = connect(where), open_data(data)
    with watched(ranks), shown(progress, f"Training on {opened.name}") as bar:
        hooks = Together([bar, *callbacks]) if callbacks else bar
        opened.check_outside(out)
        heads: FrozenTraining | None = None
        if ranks.size == 1 and leaves_open(opened, choices["model"], choices["recipe"]):
            before = None if out is None or not resume else Path(out) / ("" if single else f"seed-{seeds[0]}")
            chosen, heads = choose_training(opened, where, seeds[0], before=before, minutes=minutes, progress=bar)
            choices |= chosen
        frozen = is_frozen(choices["model"], choices["recipe"], where)
        if not frozen or opened.options.image_size is not None:  # else the features of the files are kept
            opened = at_backbone_size(opened, choices["model"])
        bar.part("reading images")
        images, test = (
            training_sets(opened, partial(room_for_images, where)) if heads is None else (heads.images, heads.test)
        )
        if not frozen:
            opened.log_size()
        jobs = seed_jobs(opened, images, test, seeds=seeds, device=where, out=out, single=single, **choices)
        if ranks.from_first(lambda: jobs[0].config.data) != jobs[0].config.data:
            raise HitNetError(f"Process {ranks.rank} sees other images than process 0. Give all the same data.")
        if frozen:
            heads = heads or FrozenTraining(opened, images, test, where, hooks)
            return ranks.from_first(lambda: heads.train(jobs, resume=resume))
        return train_runs(jobs, resume=resume, device=where, progress=hooks, ranks=ranks)


def listed_seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds, from a count or a list."""
    if not isinstance(seeds, Iterable):
        seeds = range(whole("train_many", "seeds", seeds, 1))
    chosen = list(seeds)
    if not chosen or len(set(chosen)) < len(chosen):
        raise HitNetError(f"seeds must be a whole number from 1 on, or seeds that all differ; got {seeds!r}.")
    return chosen
