"""Jobs: networks to train, on one or several sets of images, each with its run folder."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hitnet.data import Data, ImageSet
from hitnet.data.images import Streamed
from hitnet.data.reading.pixel_store import PixelFile, decoded_once
from hitnet.errors import DivergedError, HitNetError
from hitnet.models import ModelChoice
from hitnet.models.network import Network
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import SINGLE, Ranks
from hitnet.training.batches import Feed, Prepare, own_randomness
from hitnet.training.configuration import configure
from hitnet.training.engine import Trainer
from hitnet.training.recipes import Recipe, RecipeChoice
from hitnet.training.run_config import RunConfig
from hitnet.training.run_folder import RunFolder
from hitnet.training.runs import Run, RunLike, open_run
from hitnet.training.scheduler import AT_ONCE, Scheduler

Outcome = Run | DivergedError


@dataclass(frozen=True, eq=False)
class Job:
    """One network to train."""

    config: RunConfig
    images: ImageSet
    test: ImageSet | None = None  # to test on after each epoch
    modify: Prepare | None = None  # prepares the modification of the images, if they are modified
    folder: RunFolder | None = None  # to keep it in and to resume it from
    places: Tensor | None = None  # of the images that it is trained on; None: all

    @property
    def finished(self) -> bool:
        return self.folder is not None and self.folder.finished

    @property
    def path(self) -> str:
        return f"seed {self.config.seed}" if self.folder is None else str(self.folder.path)

    def epochs_left(self) -> int:
        return self.config.recipe.epochs - (0 if self.folder is None else self.folder.position()[0])

    def steps_left(self) -> int:
        per_epoch = self.config.recipe.steps_per_epoch(self.config.data["images"])
        epochs, steps = (0, 0) if self.folder is None else self.folder.position()
        return (self.config.recipe.epochs - epochs) * per_epoch - steps


def seed_jobs(
    data: Data,
    images: ImageSet,
    test: ImageSet | None,
    *,
    seeds: Sequence[int],
    device: torch.device,
    out: str | Path | None = None,
    single: bool = False,
    model: str | ModelChoice | None = None,
    recipe: str | Recipe | RecipeChoice = "fast",
    augment_from: RunLike | None = None,
) -> list[Job]:
    """One job per seed, kept in out/seed-S; a `single` one in `out` itself. The other options are those of `train`."""
    config, modify = configure(data, images, test, device=device, model=model, recipe=recipe, augment_from=augment_from)
    jobs = []
    for seed in seeds:
        folder = None if out is None else RunFolder(out if single else Path(out) / f"seed-{seed}")
        jobs.append(Job(replace(config, seed=seed), images, test, modify, folder))
    return jobs


@contextmanager
def begun(jobs: Sequence[Job], *, resume: bool, device: torch.device) -> Iterator[list[int]]:
    """Start the run folders of jobs, or check that they can be resumed, and keep other processes out of them.

    Yields the places of the jobs that are not finished.
    """
    with ExitStack() as stack:
        for job in jobs:
            if job.folder is not None:
                stack.enter_context(job.folder.begun(job.config, resume=resume, device=device))
        yield [i for i, job in enumerate(jobs) if not job.finished]


def train_jobs(
    jobs: Sequence[Job],
    on_end: Callable[[Job, Outcome], None],
    *,
    device: torch.device,
    resume: bool = True,
    progress: Progress | None = None,
    at_once: int | None = None,
    ranks: Ranks = SINGLE,
) -> None:
    """Train networks side by side where the device has room for it, and open those that are finished.

    Args:
        jobs: What to train, in this order.
        on_end: Called with job and outcome as soon as a network ends: its run, or why it diverged, which does not stop
            the others. It is not called for networks that `progress` stops.
        device: Where to train.
        resume: Whether run folders may hold these runs already; they are resumed from their last checkpoints.
        progress: Hooks: called at the start, after every step and epoch, and at the end of each network.
        at_once: How many networks to train side by side. None: as many as suit the device (see `AT_ONCE`).
        ranks: Processes that train a single network together, and share several among them.

    Raises:
        HitNetError: A run folder holds another run, or another process trains it.
    """
    with ExitStack() as stack:
        left = ranks.from_first(lambda: stack.enter_context(begun(jobs, resume=resume, device=device)))
        for i in sorted({*range(len(jobs))} - {*left}):
            on_end(jobs[i], open_run(jobs[i].path))
        together = len(jobs) == 1
        mine = [jobs[i] for i in (left if together else left[ranks.rank :: ranks.size])]
        sets = [images for job in mine for images in (job.images, job.test)]
        streams = any(isinstance(images, Streamed) and images.store is None for images in sets)
        again = streams and sum(job.epochs_left() for job in mine) > 1
        file = stack.enter_context(decoded_once()) if again else None
        make = _trainers(mine, device, progress, ranks if together else SINGLE, file)
        if mine and progress is not None:
            progress.part("training", sum(job.steps_left() for job in mine))

        def on_trained(job: Job, done: Trainer | DivergedError) -> None:
            if isinstance(done, Trainer):
                folder = None if job.folder is None else job.folder.path
                on_end(job, Run(done.trained, job.config, done.history, folder, done.calibration))
            else:
                on_end(job, done)

        Scheduler(mine, make, device, on_trained, at_once or AT_ONCE[device.type]).run()
        ranks.wait()  # the first process keeps the folders claimed


def _trainers(
    jobs: Sequence[Job], device: torch.device, progress: Progress | None, ranks: Ranks, file: PixelFile | None
) -> Callable[[Job], Trainer]:
    """Makes the trainer of a job when its turn comes. All share one copy of the images; decoded ones are in `file`."""

    def feed_of(images: ImageSet, *, masks: bool = False) -> Feed:
        if file is not None and isinstance(images, Streamed) and images.store is None:
            images = images.stored_in(file)
        return Feed(images, device, masks=masks)

    images = {id(job.images): job.images for job in jobs}
    tests = {id(job.test): job.test for job in jobs if job.test is not None}
    whole = {key: feed_of(each, masks=True) for key, each in images.items()}
    train_feeds = {job: whole[id(job.images)].select(job.places) for job in jobs}
    test_feeds = {key: feed_of(each) for key, each in tests.items()}
    prepared = {job.modify: train_feeds[job] for job in jobs}
    modifiers = {prepare: None if prepare is None else prepare(feed) for prepare, feed in prepared.items()}

    def make(job: Job) -> Trainer:
        with own_randomness():
            torch.manual_seed(job.config.seed)
            network = Network(job.config.model)
            network.load_pretrained()
        feeds = train_feeds[job], test_feeds.get(id(job.test))
        own: dict[str, Any] = {"seed": job.config.seed, "modify": modifiers[job.modify], "run": job.folder}
        return Trainer(network, *feeds, job.config.recipe, device=device, progress=progress, ranks=ranks, **own)

    return make


def train_runs(jobs: Sequence[Job], *, ranks: Ranks = SINGLE, **options: Any) -> list[Run]:
    """The run of each job, trained or opened; see `train_jobs`. One error names all networks that diverged."""
    outcomes: dict[int, Outcome] = {}

    def on_end(job: Job, outcome: Outcome) -> None:
        if ranks.size > 1 and len(jobs) > 1 and isinstance(outcome, Run):
            outcome.model.cpu()  # it travels to the other processes
        outcomes[jobs.index(job)] = outcome

    train_jobs(jobs, on_end, ranks=ranks, **options)
    if len(jobs) > 1:
        outcomes = ranks.gather(outcomes)
    runs = [outcomes[i] if i in outcomes else _kept_run(job) for i, job in enumerate(jobs)]
    good = [run for run in runs if isinstance(run, Run)]
    if len(good) < len(runs):
        raise _diverged(jobs, runs, good)
    return good


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
