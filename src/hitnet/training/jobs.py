"""Jobs: networks to train on one or several sets of images, each with its run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from hitnet.data import ImageSet
from hitnet.errors import DivergedError, HitNetError
from hitnet.models.network import Network
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import SINGLE, Ranks
from hitnet.training.callbacks import Callback
from hitnet.training.engine import Trainer
from hitnet.training.feed import Feed
from hitnet.training.hybrid_batches import Prepare
from hitnet.training.profiling import Profiling
from hitnet.training.randomness import own_randomness
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run, open_run
from hitnet.training.scheduler import Trained, fit_all


@dataclass(frozen=True)
class Job:
    """One network to train.

    Attributes:
        config: The network and how to train it.
        folder: The run folder to keep it in, if any.
    """

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
    """Jobs on the same images.

    Attributes:
        jobs: The networks to train.
        images: The images to train on.
        test: The images to test on, if any.
        modify: Prepares the modification of the images, once for all jobs.
    """

    jobs: Sequence[Job]
    images: ImageSet
    test: ImageSet | None
    modify: Prepare | None = None


Outcome = Run | DivergedError
Feeds = dict[tuple[int, bool], Feed]  # by the images' identity and whether their masks are wanted


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
    callbacks: Sequence[Callback] = (),
    ranks: Ranks = SINGLE,
    profile: bool = False,
) -> list[Run]:
    """Train every network that is not finished yet, and open those that are.

    A network that diverges does not stop the others: they end, then an error names those that diverged. Several
    processes (`ranks`) train a single network together, and share several among them. `profile` watches the first
    network, and trains one at a time.
    """
    jobs = job_set.jobs
    left = ranks.from_first(lambda: [i for i, job in enumerate(jobs) if not job.finished])
    together = ranks if len(jobs) == 1 else SINGLE
    mine = left if len(jobs) == 1 else left[ranks.rank :: ranks.size]
    outcomes: dict[int, Outcome] = {}
    if mine:
        own = JobSet([jobs[i] for i in mine], job_set.images, job_set.test, job_set.modify)
        profiled = own.jobs[0] if profile and ranks.first else None
        factories = _trainer_factories(own, device, progress, together, {}, profiled, callbacks)
        if progress is not None:
            progress.plan(sum(job.steps_left() for job in own.jobs))

        def on_end(index: int, trained: Trained | DivergedError) -> None:
            outcomes[mine[index]] = _outcome(own.jobs[index], trained)

        fit_all(factories, device, on_end, at_once=1 if profile else None)
    if len(jobs) > 1:
        outcomes = ranks.gather({i: _on_cpu(run) for i, run in outcomes.items()} if ranks.size > 1 else outcomes)
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
    callbacks: Sequence[Callback] = (),
    at_once: int | None = None,
) -> None:
    """Train networks on several sets of images side by side, those with low seeds first; see `plans.train_plans`."""
    feeds: Feeds = {}
    pairs: list[tuple[Job, Callable[[], Trainer]]] = []
    for job_set in job_sets:
        factories = _trainer_factories(job_set, device, progress, SINGLE, feeds, callbacks=callbacks)
        pairs += zip(job_set.jobs, factories, strict=True)
    pairs.sort(key=lambda pair: pair[0].config.seed)
    if progress is not None:
        progress.plan(sum(job.steps_left() for job, _ in pairs))

    def on_trained(index: int, trained: Trained | DivergedError) -> None:
        job = pairs[index][0]
        on_end(job, _outcome(job, trained))

    fit_all([make for _, make in pairs], device, on_trained, at_once=at_once)


def _trainer_factories(
    job_set: JobSet,
    device: torch.device,
    progress: Progress | None,
    ranks: Ranks,
    feeds: Feeds,
    profiled: Job | None = None,
    callbacks: Sequence[Callback] = (),
) -> list[Callable[[], Trainer]]:
    """What makes each job's trainer when its turn comes; all use the same copy of the images, in `feeds`."""

    def feed(images: ImageSet, masks: bool) -> Feed:
        if (id(images), masks) not in feeds:
            feeds[id(images), masks] = Feed(images, device, masks=masks)
        return feeds[id(images), masks]

    train_feed = feed(job_set.images, masks=True)
    test_feed = None if job_set.test is None else feed(job_set.test, masks=False)
    modify = None if job_set.modify is None else job_set.modify(train_feed)

    def make(job: Job) -> Trainer:
        with own_randomness():
            torch.manual_seed(job.config.seed)
            network = Network(job.config.model)
            network.load_pretrained()
        watched = job is profiled and job.folder is not None
        return Trainer(
            network,
            train_feed,
            test_feed,
            job.config.recipe,
            seed=job.config.seed,
            device=device,
            modify=modify,
            run=job.folder,
            progress=progress,
            callbacks=callbacks,
            ranks=ranks,
            profiling=Profiling(job.folder.path, device) if watched and job.folder is not None else None,
        )

    return [partial(make, job) for job in job_set.jobs]


def _kept_run(job: Job) -> Run:
    """The run of a job that was not trained now, or not to its end."""
    if job.folder is None:
        raise HitNetError(f"The training of {job.path} was stopped, and it has no run folder: set `out`.")
    return open_run(job.folder.path)


def _on_cpu(outcome: Outcome) -> Outcome:
    """An outcome that can travel to another process."""
    if isinstance(outcome, Run):
        outcome.model.cpu()
    return outcome


def _outcome(job: Job, trained: Trained | DivergedError) -> Outcome:
    if isinstance(trained, DivergedError):
        return trained
    network, history = trained
    return Run(network, job.config, history, None if job.folder is None else job.folder.path)


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
