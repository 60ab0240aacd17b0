"""Networks of several experiments, trained side by side and resumed: what `train_many` does for one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hitnet.data import Data, ImageSet
from hitnet.models import ModelChoice
from hitnet.runtime.device import pick_device
from hitnet.runtime.progress import Progress
from hitnet.training.configuration import configure
from hitnet.training.hybrid_batches import Prepare
from hitnet.training.jobs import Job, JobSet, Outcome, release, seed_jobs, train_job_sets
from hitnet.training.recipes import Recipe, RecipeChoice
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run, open_run

OnEnd = Callable[["TrainingPlan", int, Outcome], None]


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
        return configure(
            self.data,
            self.images,
            self.test,
            device=device,
            model=self.model,
            recipe=self.recipe,
            augment_from=self.augment_from,
        )

    def check_folders(self, *, device: str = "auto") -> None:
        """Raise HitNetError if a run folder holds another run than the planned one."""
        config, _ = self.configured(pick_device(device))
        for seed in self.seeds:
            folder = RunFolder(self.out / f"seed-{seed}")
            if folder.exists:
                folder.check_same(replace(config, seed=seed))


def train_plans(
    plans: Sequence[TrainingPlan],
    on_end: OnEnd,
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
