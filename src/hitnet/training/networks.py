"""From what was asked for to trained networks: one or many, on one copy of the images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from hitnet.data.stream import ImageSet
from hitnet.errors import DivergedError, HitNetError
from hitnet.models.network import Network
from hitnet.training.distributed import ALONE, Ranks
from hitnet.training.engine import Trainer, own_randomness
from hitnet.training.feed import Feed
from hitnet.training.modification import Prepare
from hitnet.training.profiling import Profiling
from hitnet.training.progress import Progress
from hitnet.training.run import Run, RunConfig, RunFolder, load
from hitnet.training.together import Trained, fit_all


@dataclass(frozen=True)
class Task:
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
        an_epoch = self.config.recipe.steps_per_epoch(self.config.data["images"])
        epochs, steps = (0, 0) if self.folder is None else self.folder.position()
        return (self.config.recipe.epochs - epochs) * an_epoch - steps


def release(tasks: Sequence[Task]) -> None:
    """Let other processes go on with what is not finished."""
    for task in tasks:
        if task.folder is not None:
            task.folder.release()


Feeds = dict[tuple[int, bool], Feed]  # by the images' identity and whether their masks are wanted


@dataclass(frozen=True)
class Lot:
    """Networks to train on the same images; `modify` is made ready for them once."""

    tasks: Sequence[Task]
    images: ImageSet
    test: ImageSet | None
    modify: Prepare | None = None


def train_networks(
    tasks: Sequence[Task],
    images: ImageSet,
    test: ImageSet | None,
    *,
    device: torch.device,
    modify: Prepare | None = None,
    progress: Progress | None = None,
    ranks: Ranks = ALONE,
    profile: bool = False,
) -> list[Run]:
    """Train every network that is not finished yet; those that are, are loaded.

    One that diverges leaves the others alone: they end, then an error names those that did not. Several processes
    (`ranks`) train a single network together, and deal out several among them. `profile` watches the first network,
    and trains one at a time.
    """
    left = ranks.from_first(lambda: [i for i, task in enumerate(tasks) if not task.finished])
    together = ranks if len(tasks) == 1 else ALONE
    mine = left if len(tasks) == 1 else left[ranks.rank :: ranks.size]
    found: dict[int, Run | DivergedError] = {}
    if mine:
        own = [tasks[i] for i in mine]
        makers = trainer_makers(Lot(own, images, test, modify), device, progress, together, {})
        if profile and ranks.first:
            makers[0] = partial(profiled, makers[0], own[0].folder, device)
        if progress is not None:
            progress.plan(sum(task.steps_left() for task in own))

        def ended(one: int, outcome: Trained | DivergedError) -> None:
            found[mine[one]] = as_run(own[one], outcome)

        fit_all(makers, device, ended, at_once=1 if profile else None)
    if len(tasks) > 1:
        found = ranks.gather({i: on_cpu(run) for i, run in found.items()} if ranks.size > 1 else found)
    runs = [found[i] if i in found else kept(task) for i, task in enumerate(tasks)]
    good = [run for run in runs if isinstance(run, Run)]
    if len(good) < len(runs):
        raise all_that_diverged(tasks, runs, good)
    return good


def kept(task: Task) -> Run:
    """The run of a task that was not trained now, or not to its end."""
    if task.folder is None:
        raise HitNetError(f"The training of {task.path} was stopped, and there is no folder that it is kept in (out).")
    return load(task.folder.path)


def train_lots(
    lots: Sequence[Lot],
    tell: Callable[[Task, Run | DivergedError], None],
    *,
    device: torch.device,
    progress: Progress | None = None,
    at_once: int | None = None,
) -> None:
    """Train networks on several sets of images side by side, those with low seeds first.

    `tell` hears of each as soon as it has ended; one that diverges leaves the others alone.
    """
    feeds: Feeds = {}
    pairs: list[tuple[Task, Callable[[], Trainer]]] = []
    for lot in lots:
        pairs += zip(lot.tasks, trainer_makers(lot, device, progress, ALONE, feeds), strict=True)
    pairs.sort(key=lambda pair: pair[0].config.seed)
    if progress is not None:
        progress.plan(sum(task.steps_left() for task, _ in pairs))

    def ended(one: int, outcome: Trained | DivergedError) -> None:
        tell(pairs[one][0], as_run(pairs[one][0], outcome))

    fit_all([make for _, make in pairs], device, ended, at_once=at_once)


def profiled(make: Callable[[], Trainer], folder: RunFolder | None, device: torch.device) -> Trainer:
    """A trainer whose run folder gets a profile of its steps."""
    trainer = make()
    if folder is not None:
        trainer.profiling = Profiling(folder.path, device)
    return trainer


def on_cpu(run: Run | DivergedError) -> Run | DivergedError:
    """A run that can travel to another process."""
    if isinstance(run, Run):
        run.model.cpu()
    return run


def trainer_makers(
    lot: Lot, device: torch.device, progress: Progress | None, ranks: Ranks, feeds: Feeds
) -> list[Callable[[], Trainer]]:
    """What makes each task's trainer, once it is its turn; all take the same images from the same copy, in `feeds`."""

    def feed(images: ImageSet, masks: bool) -> Feed:
        if (id(images), masks) not in feeds:
            feeds[id(images), masks] = Feed(images, device, masks=masks)
        return feeds[id(images), masks]

    train_feed = feed(lot.images, masks=True)
    test_feed = None if lot.test is None else feed(lot.test, masks=False)
    modify = None if lot.modify is None else lot.modify(train_feed)

    def make(task: Task) -> Trainer:
        with own_randomness():
            torch.manual_seed(task.config.seed)
            network = Network(task.config.model)
        return Trainer(
            network,
            train_feed,
            test_feed,
            task.config.recipe,
            seed=task.config.seed,
            device=device,
            modify=modify,
            run=task.folder,
            progress=progress,
            ranks=ranks,
        )

    return [partial(make, task) for task in lot.tasks]


def as_run(task: Task, outcome: Trained | DivergedError) -> Run | DivergedError:
    if isinstance(outcome, DivergedError):
        return outcome
    network, history = outcome
    return Run(network, task.config, history, None if task.folder is None else task.folder.path)


def all_that_diverged(tasks: Sequence[Task], runs: Sequence[Run | DivergedError], good: Sequence[Run]) -> DivergedError:
    """One error for all networks that diverged; a single network's own where there was only one to train."""
    failed = [(task, run) for task, run in zip(tasks, runs, strict=True) if isinstance(run, DivergedError)]
    if len(tasks) == 1:
        return failed[0][1]
    listed = "; ".join(f"{task.path}: {str(error).split(':')[0]}" for task, error in failed)
    summary = DivergedError(
        f"{len(failed)} of {len(tasks)} networks diverged ({listed}). The others are finished. "
        "Lower the learning rate, or take other seeds in their place."
    )
    summary.runs = tuple(good)
    return summary
