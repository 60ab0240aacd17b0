"""Jobs: networks to train, on one or several sets of images, each with its run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from hitnet.data import ImageSet
from hitnet.errors import DivergedError, HitNetError
from hitnet.models.network import Network
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import SINGLE, Ranks
from hitnet.training.engine import Trainer
from hitnet.training.feed import Feed
from hitnet.training.hybrid_batches import Prepare
from hitnet.training.randomness import own_randomness
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run, open_run
from hitnet.training.scheduler import AT_ONCE, Scheduler


@dataclass(frozen=True)
class Job:
    """One network to train, and the run folder to keep it in, if any."""

    config: RunConfig
    folder: RunFolder | None = None

    @property
    def finished(self) -> bool:
        return self.folder is not None and self.folder.finished

    @property
    def path(self) -> str:
        return f"seed {self.config.seed}" if self.folder is None else str(self.folder.path)

    def steps_left(self) -> int:
        per_epoch = self.config.recipe.steps_per_epoch(self.config.data["images"])
        epochs, steps = (0, 0) if self.folder is None else self.folder.position()
        return (self.config.recipe.epochs - epochs) * per_epoch - steps


@dataclass(frozen=True)
class JobSet:
    """Jobs on the same images; `modify` prepares the modification of the images, once for all jobs."""

    jobs: Sequence[Job]
    images: ImageSet
    test: ImageSet | None
    modify: Prepare | None = None


Outcome = Run | DivergedError


def make_job(config: RunConfig, out: str | Path | None, *, resume: bool, device: torch.device) -> Job:
    """A network to train, with its run folder started or checked."""
    folder = None if out is None else RunFolder(out)
    if folder is not None:
        folder.begin(config, resume=resume, device=device)
    return Job(config, folder)


def seed_jobs(
    config: RunConfig,
    device: torch.device,
    *,
    seeds: Sequence[int],
    out: str | Path | None,
    resume: bool,
    single: bool = False,
) -> list[Job]:
    """One job per seed, in out/seed-S; a `single` one in `out` itself."""
    configs = [replace(config, seed=seed) for seed in seeds]  # checks all seeds before the first folder is made
    jobs: list[Job] = []
    try:
        for each in configs:
            folder = out if out is None or single else Path(out) / f"seed-{each.seed}"
            jobs.append(make_job(each, folder, resume=resume, device=device))
    except HitNetError:
        release(jobs)
        raise
    return jobs


def release(jobs: Sequence[Job]) -> None:
    """Let other processes resume what is not finished."""
    for job in jobs:
        if job.folder is not None:
            job.folder.release()


def train_jobs(
    job_set: JobSet,
    *,
    device: torch.device,
    progress: Progress | None = None,
    ranks: Ranks = SINGLE,
) -> list[Run]:
    """Train every network that is not finished yet, and open those that are.

    A network that diverges does not stop the others: they end, then an error names those that diverged. Several
    processes (`ranks`) train a single network together, and share several among them.
    """
    jobs = job_set.jobs
    left = ranks.from_first(lambda: [i for i, job in enumerate(jobs) if not job.finished])
    together = len(jobs) == 1
    mine = left if together else left[ranks.rank :: ranks.size]
    outcomes: dict[int, Outcome] = {}
    places = {id(jobs[i]): i for i in mine}

    def on_end(job: Job, outcome: Outcome) -> None:
        if ranks.size > 1 and not together and isinstance(outcome, Run):
            outcome.model.cpu()  # it travels to the other processes
        outcomes[places[id(job)]] = outcome

    if mine:
        train_job_sets(
            [replace(job_set, jobs=[jobs[i] for i in mine])],
            on_end,
            device=device,
            progress=progress,
            ranks=ranks if together else SINGLE,
        )
    if not together:
        outcomes = ranks.gather(outcomes)
    runs = [outcomes[i] if i in outcomes else _kept_run(job) for i, job in enumerate(jobs)]
    good = [run for run in runs if isinstance(run, Run)]
    if len(good) < len(runs):
        raise _diverged(jobs, runs, good)
    return good


def train_job_sets(
    job_sets: Sequence[JobSet],
    on_end: Callable[[Job, Outcome], None],
    *,
    device: torch.device,
    progress: Progress | None = None,
    at_once: int | None = None,
    ranks: Ranks = SINGLE,
) -> None:
    """Train networks on one or several sets of images, side by side where the device has room for it.

    Args:
        job_sets: The networks, which are trained in the order of their seeds if there are several sets.
        on_end: Called with each job and its outcome as soon as it ends. A network that diverges does not stop the
            others.
        at_once: How many networks to train side by side. None: what suits the device.
        ranks: The processes that train each network together.
    """
    feeds: dict[tuple[int, bool], Feed] = {}  # one copy of the images, by their identity and whether masks are wanted

    def feed(images: ImageSet, *, masks: bool) -> Feed:
        if (id(images), masks) not in feeds:
            feeds[id(images), masks] = Feed(images, device, masks=masks)
        return feeds[id(images), masks]

    pairs: list[tuple[Job, Callable[[], Trainer]]] = []
    for job_set in job_sets:
        train, test = feed(job_set.images, masks=True), job_set.test
        make = partial(
            _trainer,
            train=train,
            test=None if test is None else feed(test, masks=False),
            device=device,
            modify=None if job_set.modify is None else job_set.modify(train),
            progress=progress,
            ranks=ranks,
        )
        pairs += [(job, partial(make, job)) for job in job_set.jobs]
    if len(job_sets) > 1:
        pairs.sort(key=lambda pair: pair[0].config.seed)
    if progress is not None:
        progress.part("training", sum(job.steps_left() for job, _ in pairs))

    def on_trained(index: int, done: Trainer | DivergedError) -> None:
        job = pairs[index][0]
        folder = None if job.folder is None else job.folder.path
        if isinstance(done, Trainer):
            on_end(job, Run(done.trained, job.config, done.history, folder, done.calibration))
        else:
            on_end(job, done)

    Scheduler([make for _, make in pairs], device, on_trained, at_once or AT_ONCE[device.type]).run()


def _trainer(job: Job, *, train: Feed, test: Feed | None, **options: Any) -> Trainer:
    """The trainer of a job, made when its turn comes."""
    with own_randomness():
        torch.manual_seed(job.config.seed)
        network = Network(job.config.model)
        network.load_pretrained()
    return Trainer(network, train, test, job.config.recipe, seed=job.config.seed, run=job.folder, **options)


def _kept_run(job: Job) -> Run:
    """The run of a job that was not trained now, or not to its end."""
    if job.folder is None:
        raise HitNetError(f"The training of {job.path} was stopped, and it has no run folder: set `out`.")
    return open_run(job.folder.path)


def _diverged(jobs: Sequence[Job], outcomes: Sequence[Outcome], good: Sequence[Run]) -> DivergedError:
    """One error for all networks that diverged; the network's own error where there was only one to train."""
    failed = [(job, error) for job, error in zip(jobs, outcomes, strict=True) if isinstance(error, DivergedError)]
    if len(jobs) == 1:
        return failed[0][1]
    listed = "; ".join(f"{job.path}: {str(error).split(':')[0]}" for job, error in failed)
    summary = DivergedError(
        f"{len(failed)} of {len(jobs)} networks diverged ({listed}). The others are finished. "
        "Lower the learning rate, or use other seeds in their place."
    )
    summary.runs = tuple(good)
    return summary
