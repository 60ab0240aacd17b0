"""Runs of experiments: their folders, their training side by side, their lines in the ledger."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hitnet import data as datasets
from hitnet.data.images import Images
from hitnet.errors import DivergedError, HitNetError
from hitnet.models.network import Network
from hitnet.paper.book import TEACHER_SEED, Book
from hitnet.paper.cost import Costs, device_name
from hitnet.paper.experiments import Experiment
from hitnet.paper.ledger import DIVERGED, RUN, SHORT, Entry, Ledger
from hitnet.paper.origin import note_origin, read_origin
from hitnet.paper.records import RunRecord, shortened
from hitnet.training.device import pick_device
from hitnet.training.evaluation import class_distances
from hitnet.training.networks import Lot, Task, train_lots
from hitnet.training.progress import Progress
from hitnet.training.run import Run, RunFolder, load
from hitnet.training.together import AT_ONCE
from hitnet.training.train import configure, several_tasks, weights_fingerprint


@dataclass(frozen=True)
class Job:
    """One run of an experiment."""

    experiment: Experiment
    seed: int

    def __hash__(self) -> int:
        return hash((self.experiment.name, self.seed))


Tell = Callable[[Job, RunRecord | str], None]


@dataclass(frozen=True)
class Length:
    """How much of an experiment is asked for: all of it, or fewer epochs or images."""

    epochs: int | None = None
    limit: int | None = None

    def of(self, one: Experiment) -> str | None:
        """What a shortened run is called; None where it is as long as the experiment itself."""
        if self.epochs is not None and self.epochs > one.epochs:
            raise HitNetError(
                f"{one.name} is {one.epochs} epochs long; --epochs can only make it shorter, and {self.epochs} is more."
            )
        epochs, images = self.epochs or one.epochs, min(self.limit or one.images, one.images)
        if (epochs, images) == (one.epochs, one.images):
            return None
        return f"{epochs} epochs, {images} images"

    def key(self, one: Experiment, seed: int) -> tuple[str, str, tuple[int, ...], str]:
        """Arguments of `Ledger.get` for a run of this length."""
        label = self.of(one)
        return (RUN, one.name, (seed,), "") if label is None else (SHORT, one.name, (seed,), label)


class Guard(Progress):
    """Passes on what trainings say, and has them stop where another epoch would go past the end of the budget.

    read  takes from a network under way what an experiment wants of it
    """

    def __init__(
        self,
        inner: Progress,
        end: float | None,
        clock: Callable[[], float],
        read: Callable[[Path, int, Network], None],
    ) -> None:
        self.inner, self.end, self.clock, self.read = inner, end, clock, read

    def plan(self, steps: int) -> None:
        self.inner.plan(steps)

    def step(self) -> None:
        self.inner.step()

    def epoch(self, row: dict[str, Any]) -> None:
        self.inner.epoch(row)
        self.stop = self.end is not None and self.clock() + row["seconds"] > self.end

    def network(self, folder: Path | None, epoch: int, network: Network) -> None:
        self.inner.network(folder, epoch, network)
        if folder is not None:
            self.read(folder, epoch, network)


@dataclass
class Runner:
    """Trains and records. `end` is the time, by `clock`, at which all work is to be over."""

    book: Book
    ledger: Ledger
    runs_dir: Path
    data_dir: Path | None
    device: str
    progress: Progress | None
    end: float | None
    clock: Callable[[], float]
    sets: dict[tuple[str, str], Images] = field(default_factory=dict)

    def room(self) -> float | None:
        return None if self.end is None else self.end - self.clock()

    @property
    def side_by_side(self) -> int:
        """How many networks are trained together here."""
        return AT_ONCE[pick_device(self.device).type]

    @property
    def costs(self) -> Costs:
        return self.book.costs(device_name(pick_device(self.device)), self.ledger)

    def home(self, one: Experiment, length: Length = Length()) -> Path:
        """The folder of an experiment's run folders; short runs have one of their own in it."""
        label = length.of(one)
        whole = self.runs_dir / one.name
        return whole if label is None else whole / ("short-" + label.replace(", ", "-").replace(" ", "-"))

    def folder(self, one: Experiment, seed: int, length: Length = Length()) -> RunFolder:
        return RunFolder(self.home(one, length) / f"seed-{seed}")

    def finished(self, one: Experiment, seed: int, length: Length = Length()) -> bool:
        return self.folder(one, seed, length).finished

    def estimate(self, job: Job, length: Length, costs: Costs) -> float:
        """Seconds that are left of a run: its share, where many are trained side by side."""
        one, run = job.experiment, self.folder(job.experiment, job.seed, length)
        if run.finished:
            return 0.0
        images = min(length.limit or one.images, one.images)
        done, steps = run.position()
        behind = done + steps / one.full_recipe().steps_per_epoch(images)
        ahead = max(0.0, (length.epochs or one.epochs) - behind)
        readings = sum(epoch > behind for epoch in one.read_ghosts) if length.of(one) is None else 0
        return costs.seconds(one, epochs=ahead, images=images, readings=readings)

    def images(self, one: Experiment, split: str) -> Images:
        """A split of an experiment's data, whole; read once."""
        if (one.data, split) not in self.sets:
            self.sets[one.data, split] = datasets.load(one.data, split, data_dir=self.data_dir)
        return self.sets[one.data, split]

    def run(self, jobs: Sequence[Job], length: Length, tell: Tell) -> None:
        """Train side by side what is not finished, and record what the ledger has not.

        `tell` hears of each job as soon as it has ended: its record, or why it diverged. Of those that were stopped
        because the budget is spent it hears nothing.
        """
        where = pick_device(self.device)
        by_path = {self.folder(job.experiment, job.seed, length).path: job for job in jobs}
        lots = []
        for one in {job.experiment.name: job.experiment for job in jobs}.values():
            lot = self.lot(one, jobs, length)
            left = []
            for task in lot.tasks:
                if task.finished:
                    job = by_path[Path(task.path)]
                    tell(job, self.keep(job, load(task.path), length))
                else:
                    note_origin(Path(task.path), device_name(where))
                    left.append(task)
            if left:
                lots.append(replace(lot, tasks=left))

        def ended(task: Task, outcome: Run | DivergedError) -> None:
            job = by_path[Path(task.path)]
            if isinstance(outcome, DivergedError):
                self.keep_failure(job, str(outcome), length)
                tell(job, str(outcome))
            else:
                tell(job, self.keep(job, outcome, length))

        def read(folder: Path, epoch: int, network: Network) -> None:
            one = by_path[folder].experiment
            if epoch in one.read_ghosts and length.of(one) is None:
                from hitnet.paper.ghosts import keep_reading

                keep_reading(network, RunFolder(folder), epoch, self.images(one, "train"))

        guard = Guard(self.progress or Progress(), self.end, self.clock, read)
        train_lots(lots, ended, device=where, progress=guard)

    def lot(self, one: Experiment, jobs: Sequence[Job], length: Length) -> Lot:
        """The jobs of one experiment as tasks; a run folder that holds another run is refused."""
        where = pick_device(self.device)
        images, test = self.images(one, "train"), self.images(one, "test")
        if length.of(one) is None and (len(images), len(test)) != (one.images, one.test_images):
            raise HitNetError(
                f"Runs of {one.name} could not be counted: {one.data} has {len(images):,} of {one.images:,} training "
                f"images and {len(test):,} of {one.test_images:,} test images here. Is the data set whole "
                "(`hitnet data check`)?"
            )
        images, test = images.first(length.limit), test.first(one.each_epoch)
        teacher = None if one.teacher is None else self.book.experiments[one.teacher]
        config, modify = configure(
            one.data, images, test, device=where, model=one.network, model_options=dict(one.model_options),
            recipe=one.full_recipe(), recipe_options={"epochs": length.epochs},
            augment_from=None if teacher is None else self.folder(teacher, TEACHER_SEED, length).path,
        )  # fmt: skip
        seeds = [job.seed for job in jobs if job.experiment.name == one.name]
        return Lot(
            several_tasks(config, 0, seeds, self.home(one, length), resume=True, device=where), images, test, modify
        )

    def keep(self, job: Job, trained: Run, length: Length) -> RunRecord:
        """Record a finished run."""
        record = self.record(job.experiment, trained, self.folder(job.experiment, job.seed, length).path)
        self.enter(job, length, record)
        return record

    def keep_failure(self, job: Job, why: str, length: Length) -> None:
        """Record that a run of full length diverged."""
        one = job.experiment
        if length.of(one) is None:
            how = {"recipe": one.full_recipe().to_dict(), "model_options": dict(one.model_options)}
            origin = read_origin(self.folder(one, job.seed, length).path)
            facts = {"why": why, **how, "date": today(), **origin}
            self.ledger.add_if_new(Entry(DIVERGED, one.name, (job.seed,), facts))

    def enter(self, job: Job, length: Length, record: RunRecord) -> None:
        kind, name, seeds, label = length.key(job.experiment, job.seed)
        why = shortened(record, job.experiment)
        if kind == RUN and why is not None:
            raise HitNetError(f"The run of {name} with seed {job.seed} cannot be counted: {why}.")
        self.ledger.add_if_new(Entry(kind, name, seeds, record.to_facts(), label))

    def record(self, one: Experiment, trained: Run, folder: Path) -> RunRecord:
        config, history, test = trained.config, trained.history, self.images(one, "test")
        tested = min(one.each_epoch or len(test), len(test))
        wrong = [round(row["test_error"] * tested / 100) for row in history]
        seconds = [row["seconds"] / row["beside"] for row in history]
        return RunRecord(
            network=config.model_name,
            data=one.data,
            fingerprint=config.data["fingerprint"],
            images=config.data["images"],
            recipe=config.recipe.to_dict(),
            epochs=len(history),
            wrong=wrong,
            tested=tested,
            tested_on=test.name,
            final_wrong=wrong[-1] if tested == len(test) else self.count_wrong(trained, test),
            final_tested=len(test),
            seconds=round(sum(seconds), 1),
            epoch_seconds=round(statistics.median(seconds), 4),
            images_per_second=round(statistics.median(row["images_per_second"] * row["beside"] for row in history), 1),
            beside=max(row["beside"] for row in history),
            date=today(),
            weights=weights_fingerprint(trained.model),
            teacher=None if config.augment_from is None else config.augment_from["weights"],
            model_options=dict(one.model_options),
            **read_origin(folder),
        )

    def count_wrong(self, trained: Run, test: Images) -> int:
        network = trained.model.to(pick_device(self.device))
        prediction = network.head.predict(class_distances(network, test.pixels)).cpu()
        return int((prediction != test.labels).sum())


def today() -> str:
    return datetime.now(UTC).date().isoformat()
