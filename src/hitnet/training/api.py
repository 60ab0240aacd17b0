"""Train one network or several: the functions behind `hitnet train`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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
from hitnet.training.configuration import at_backbone_size, configure, training_sets
from hitnet.training.jobs import Job, JobSet, release, seed_jobs, train_jobs
from hitnet.training.recipes import Recipe, RecipeChoice
from hitnet.training.run_config import RunConfig
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
    progress: Progress | bool = True,
    callbacks: Sequence[Progress] = (),
) -> Run:
    """Train a network and, with `out`, keep it in a run folder.

    Args:
        data: Opened data, or what `open_data` takes.
        model: A name of `hitnet.models.MODELS`, or `choose_model(name, ...)`. None: one that suits the images and the
            device.
        recipe: The name of a recipe, `choose_recipe(name, ...)`, or a complete `Recipe`.
        seed: The same seed on the same machine gives the same result.
        out: Run folder.
        resume: Resume the run in `out`; a finished run is returned as it is.
        device: auto, cpu, cuda, cuda:1, mps, or a torch.device.
        augment_from: The run whose network modifies images, for recipes with hybrid augmentation.
        progress: True shows a bar in a terminal or a notebook. Or hooks of your own.
        callbacks: Further hooks, e.g. `[hitnet.TensorBoard()]`.
    """
    jobs = partial(seed_jobs, seeds=[seed], out=out, resume=resume, single=True)
    with _prepared(data, jobs, model, recipe, device, augment_from, progress, callbacks, out) as prepared:
        return train_jobs(**prepared)[0]


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
    progress: Progress | bool = True,
    callbacks: Sequence[Progress] = (),
) -> list[Run]:
    """Train one network per seed on one copy of the images. Each is the network that `train` gives for its seed.

    Args:
        seeds: The seeds, or N for the seeds 0 to N - 1.
        out: Folder; the run of seed S is kept in out/seed-S.

    The other arguments are those of `train`.
    """
    jobs = partial(seed_jobs, seeds=listed_seeds(seeds), out=out, resume=resume)
    with _prepared(data, jobs, model, recipe, device, augment_from, progress, callbacks, out) as prepared:
        return train_jobs(**prepared)


@contextmanager
def _prepared(
    data: Source,
    make_jobs: Callable[[RunConfig, torch.device], list[Job]],
    model: str | ModelChoice | None,
    recipe: str | Recipe | RecipeChoice,
    device: str | torch.device,
    augment_from: Run | str | Path | None,
    progress: Progress | bool,
    callbacks: Sequence[Progress],
    out: str | Path | None,
) -> Iterator[dict[str, Any]]:
    """Yield the arguments of `train_jobs`: images, run folders and hooks, which are given back at the end."""
    where = pick_device(device)
    ranks, opened = connect(where), open_data(data)
    with watched(ranks), shown(progress, f"Training on {opened.name}") as bar:
        opened = at_backbone_size(opened, model)
        opened.check_outside(out)
        bar.part("reading images")
        images, test = training_sets(opened, partial(room_for_images, where))
        config, modify = configure(
            opened, images, test, device=where, model=model, recipe=recipe, augment_from=augment_from
        )
        jobs = ranks.from_first(lambda: make_jobs(config, where))
        try:
            if jobs[0].config.data != config.data:
                raise HitNetError(f"Process {ranks.rank} sees other images than process 0. Give all the same data.")
            yield {
                "job_set": JobSet(jobs, images, test, modify),
                "device": where,
                "progress": Together([bar, *callbacks]) if callbacks else bar,
                "ranks": ranks,
            }
        finally:
            release(jobs)


def listed_seeds(seeds: int | Sequence[int]) -> list[int]:
    """The seeds, from a count or a list."""
    if not isinstance(seeds, Iterable):
        seeds = range(whole("train_many", "seeds", seeds, 1))
    chosen = list(seeds)
    if not chosen or len(set(chosen)) < len(chosen):
        raise HitNetError(f"seeds must be a whole number from 1 on, or seeds that all differ; got {seeds!r}.")
    return chosen
