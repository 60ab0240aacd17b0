"""Train one network, several, or those of several experiments side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from hitnet.data import Data, ImageSet, Source, open_data
from hitnet.errors import HitNetError, whole
from hitnet.models import ModelChoice
from hitnet.runtime.bar import shown
from hitnet.runtime.device import pick_device, room_for_images
from hitnet.runtime.progress import Progress, Together
from hitnet.runtime.ranks import connect, watched
from hitnet.training.choosing import MINUTES, choose_training, leaves_open
from hitnet.training.configuration import at_backbone_size, configure, is_frozen, training_sets
from hitnet.training.frozen import FrozenTraining
from hitnet.training.hybrid_batches import Prepare
from hitnet.training.jobs import Job, JobSet, Outcome, release, seed_jobs, train_job_sets, train_jobs
from hitnet.training.recipes import Recipe, RecipeChoice
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run, open_run


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
        config, modify = configure(opened, images, test, device=where, **choices)
        jobs = ranks.from_first(lambda: seed_jobs(config, where, seeds=seeds, out=out, resume=resume, single=single))
        try:
            if jobs[0].config.data != config.data:
                raise HitNetError(f"Process {ranks.rank} sees other images than process 0. Give all the same data.")
            if frozen:
                heads = heads or FrozenTraining(opened, images, test, where, hooks)
                return ranks.from_first(lambda: heads.train(jobs))
            return train_jobs(JobSet(jobs, images, test, modify), device=where, progress=hooks, ranks=ranks)
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


@dataclass(frozen=True)
class TrainingPlan:
    """Networks to train alike, one per seed, on images that are in memory already.

    Attributes:
        data: The data that the images come from.
        images: The images to train on.
        test: The images to test on after each epoch, if any.
        seeds: The seeds.
        out: Folder; the run of seed S is kept in out/seed-S, and resumed from there.
        model: As in `train`.
        recipe: As in `train`.
        augment_from: As in `train`.
    """

    data: Data
    images: ImageSet
    test: ImageSet | None
    seeds: Sequence[int]
    out: Path
    model: str | ModelChoice | None = None
    recipe: str | Recipe | RecipeChoice = "fast"
    augment_from: Run | str | Path | None = None

    def configured(self, device: torch.device) -> tuple[RunConfig, Prepare | None]:
        """The configuration with seed 0, and what prepares the modification of the images, if there is any."""
        choices: Any = {"model": self.model, "recipe": self.recipe, "augment_from": self.augment_from}
        return configure(self.data, self.images, self.test, device=device, **choices)

    def check_folders(self, *, device: str = "auto") -> None:
        """Raise HitNetError if a run folder holds another run than the planned one."""
        config, _ = self.configured(pick_device(device))
        for seed in self.seeds:
            folder = RunFolder(self.out / f"seed-{seed}")
            if folder.exists:
                folder.check_same(replace(config, seed=seed))


def train_plans(
    plans: Sequence[TrainingPlan],
    on_end: Callable[[TrainingPlan, int, Outcome], None],
    *,
    device: str = "auto",
    at_once: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Train the networks of several plans side by side, low seeds first, each from its last checkpoint.

    Args:
        plans: What to train.
        on_end: Called with plan, seed and outcome as soon as a network ends: its run, or why it diverged, which does
            not stop the others. Finished runs are opened at once. It is not called for networks that `progress` stops.
        device: auto, cpu or cuda.
        at_once: How many networks to train side by side. None: as many as suit the device (see `AT_ONCE`).
        progress: Hooks: called at the start, after every step and epoch, and at the end of each network.

    Raises:
        HitNetError: A run folder holds another run, or another process trains it.
    """
    where = pick_device(device)
    planned: dict[int, TrainingPlan] = {}  # by the identity of a job
    job_sets: list[JobSet] = []

    def tell(job: Job, outcome: Outcome) -> None:
        on_end(planned[id(job)], job.config.seed, outcome)

    try:
        for plan in plans:
            config, modify = plan.configured(where)
            jobs = seed_jobs(config, where, seeds=sorted(plan.seeds), out=plan.out, resume=True)
            job_sets.append(JobSet(jobs, plan.images, plan.test, modify))
            planned |= {id(job): plan for job in jobs}
        for job in (job for job_set in job_sets for job in job_set.jobs if job.finished):
            tell(job, open_run(job.path))
        left = [replace(each, jobs=[job for job in each.jobs if not job.finished]) for each in job_sets]
        unfinished = [each for each in left if each.jobs]
        train_job_sets(unfinished, tell, device=where, progress=progress, at_once=at_once)
    finally:
        release([job for job_set in job_sets for job in job_set.jobs])
