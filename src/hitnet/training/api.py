"""Train one network or several: the functions behind `hitnet train`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from hitnet.data import Source, open_data
from hitnet.errors import HitNetError, whole
from hitnet.models import ModelChoice
from hitnet.runtime.device import pick_device, room_for_images
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import connect, watched
from hitnet.training.callbacks import Callback
from hitnet.training.configuration import at_backbone_size, configure, training_sets
from hitnet.training.jobs import Job, JobSet, release, train_jobs
from hitnet.training.recipes import Recipe, RecipeChoice
from hitnet.training.resuming import prepare
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run


def train(
    data: Source,
    *,
    model: str | ModelChoice | None = None,
    recipe: str | Recipe | RecipeChoice = "fast",
    seed: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    augment_from: Run | str | Path | None = None,
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    profile: bool = False,
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
        device: auto, cpu or cuda.
        augment_from: The run whose network modifies images, for recipes with hybrid augmentation.
        progress: Called after every step and epoch.
        callbacks: Called at the start, after every epoch and at the end, e.g. `[hitnet.TensorBoard()]`.
        profile: Write where a step's time goes into the run folder (profile.json, profile.txt).
    """
    single = partial(_single_job, seed=seed, out=out, resume=resume)
    return _train(data, single, model, recipe, device, augment_from, progress, callbacks, profile=profile, out=out)[0]


def train_many(
    data: Source,
    *,
    seeds: int | Sequence[int],
    model: str | ModelChoice | None = None,
    recipe: str | Recipe | RecipeChoice = "fast",
    out: str | Path | None = None,
    resume: bool = False,
    device: str = "auto",
    augment_from: Run | str | Path | None = None,
    progress: Progress | None = None,
    callbacks: Sequence[Callback] = (),
    profile: bool = False,
) -> list[Run]:
    """Train one network per seed on one copy of the images. Each is the network that `train` gives for its seed.

    Args:
        seeds: The seeds, or N for the seeds 0 to N - 1.
        out: Folder; the run of seed S is kept in out/seed-S.

    The other arguments are those of `train`.
    """
    several = partial(seed_jobs, seeds=listed_seeds(seeds), out=out, resume=resume)
    return _train(data, several, model, recipe, device, augment_from, progress, callbacks, profile=profile, out=out)


def _train(
    data: Source,
    make_jobs: Callable[[RunConfig, torch.device], list[Job]],
    model: str | ModelChoice | None,
    recipe: str | Recipe | RecipeChoice,
    device: str,
    augment_from: Run | str | Path | None,
    progress: Progress | None,
    callbacks: Sequence[Callback],
    *,
    profile: bool,
    out: str | Path | None,
) -> list[Run]:
    where = pick_device(device)
    if profile and out is None:
        raise HitNetError("`profile` needs a run folder: set `out`.")
    ranks = connect(where)
    with watched(ranks):
        opened = at_backbone_size(open_data(data), model)
        opened.check_outside(out)
        images, test = training_sets(opened, partial(room_for_images, where))
        config, modify = configure(
            opened, images, test, device=where, model=model, recipe=recipe, augment_from=augment_from
        )
        jobs = ranks.from_first(lambda: make_jobs(config, where))
        try:
            if jobs[0].config.data != config.data:
                raise HitNetError(f"Process {ranks.rank} sees other images than process 0. Give all the same data.")
            job_set = JobSet(jobs, images, test, modify)
            return train_jobs(
                job_set, device=where, progress=progress, callbacks=callbacks, ranks=ranks, profile=profile
            )
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


def _single_job(
    config: RunConfig, device: torch.device, *, seed: int, out: str | Path | None, resume: bool
) -> list[Job]:
    return [make_job(replace(config, seed=seed), out, resume=resume, device=device)]


def seed_jobs(
    config: RunConfig, device: torch.device, *, seeds: Sequence[int], out: str | Path | None, resume: bool
) -> list[Job]:
    """One job per seed, in out/seed-S."""
    configs = [replace(config, seed=seed) for seed in seeds]  # checks all seeds before the first folder is made
    jobs: list[Job] = []
    try:
        for seed_config in configs:
            folder = None if out is None else Path(out) / f"seed-{seed_config.seed}"
            jobs.append(make_job(seed_config, folder, resume=resume, device=device))
    except HitNetError:
        release(jobs)
        raise
    return jobs


def make_job(config: RunConfig, out: str | Path | None, *, resume: bool, device: torch.device) -> Job:
    """A network to train, with its run folder started or checked."""
    return Job(config, None if out is None else prepare(RunFolder(out), config, resume=resume, device=device))
