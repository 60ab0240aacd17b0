"""Runs of experiments: their folders, their training side by side, their lines in the ledger."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hitnet import data as datasets
from hitnet.data.images import Images
from hitnet.errors import DivergedError, HitNetError
from hitnet.models.network import Network
from hitnet.paper.book import TEACHER_SEED, Book
from hitnet.paper.cost import Costs, device_name
from hitnet.paper.experiments import Experiment
from hitnet.paper.jobs import Job, Length
from hitnet.paper.ledger import DIVERGED, RUN, Entry, Ledger
from hitnet.paper.origin import note_origin, read_origin, today
from hitnet.paper.records import RunRecord, diverged_runs, full_runs, shortened
from hitnet.training.device import pick_device
from hitnet.training.evaluation import class_distances
from hitnet.training.modification import Prepare
from hitnet.training.networks import Lot, Task, train_lots
from hitnet.training.progress import Progress
from hitnet.training.run import Run, RunConfig, RunFolder, check_same, load
from hitnet.training.together import AT_ONCE
from hitnet.training.train import configure, several_tasks, weights_fingerprint

Tell = Callable[[Job, RunRecord | str], None]


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
        late = self.end is not None and self.clock() + row["seconds"] > self.end
        self.stop = self.stop or self.inner.stop or late

    def network(self, folder: Path | None, epoch: int, network: Network) -> None:
        self.inner.network(folder, epoch, network)
        if folder is not None:
            self.read(folder, epoch, network)


@dataclass
class Runner:
    """Trains and records.

    end           the time, by `clock`, at which all work is to be over
    side_by_side  how many networks are trained together; None: as many as suit the device
    """

    book: Book
    ledger: Ledger
    runs_dir: Path
    data_dir: Path | None
    device: str
    progress: Progress | None
    end: float | None
    clock: Callable[[], float]
    side_by_side: int | None = None
    sets: dict[tuple[str, str], Images] = field(default_factory=dict)

    def room(self) -> float | None:
        return None if self.end is None else self.end - self.clock()

    @property
    def at_once(self) -> int:
        """How many networks are trained together here."""
        return self.side_by_side or AT_ONCE[pick_device(self.device).type]

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
        """Whether a run's weights are here; a folder that holds another run is refused."""
        folder = self.folder(one, seed, length)
        if folder.finished:
            config, *_ = self.configured(one, length)
            check_same(folder, replace(config, seed=seed), resume=True)
        return folder.finished

    def diverged(self, one: Experiment, length: Length) -> dict[int, str]:
        """Why runs of this length failed, by seed; nothing is known of short ones."""
        return diverged_runs(self.ledger, one) if length.of(one) is None else {}

    def to_be_made(self, one: Experiment, seed: int, length: Length) -> bool:
        """Whether weights that are needed have yet to be trained, and it was not tried in vain."""
        return seed not in self.diverged(one, length) and not self.finished(one, seed, length)

    def without_teacher(self, job: Job, length: Length) -> str | None:
        """Why a run cannot be made, where the network that is to modify its images is not there."""
        if job.experiment.teacher is None:
            return None
        teacher = self.book.experiments[job.experiment.teacher]
        if self.finished(teacher, TEACHER_SEED, length):
            return None
        name = f"{teacher.name} with seed {TEACHER_SEED}"
        if TEACHER_SEED in self.diverged(teacher, length):
            return f"not made: its teacher, {name}, diverged"
        return f"waits for its teacher, {name}"

    def estimate(self, job: Job, length: Length, costs: Costs) -> float:
        """Seconds that are left of a run: its share, where many are trained side by side."""
        one, run = job.experiment, self.folder(job.experiment, job.seed, length)
        if run.finished:
            return 0.0
        images = length.images_of(one)
        done, steps = run.position()
        behind = done + steps / one.full_recipe().steps_per_epoch(images)
        ahead = max(0.0, length.epochs_of(one) - behind)
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
        train_lots(lots, ended, device=where, progress=guard, at_once=self.at_once)

    def lot(self, one: Experiment, jobs: Sequence[Job], length: Length) -> Lot:
        """The jobs of one experiment as tasks; a run folder that holds another run is refused."""
        config, modify, images, test = self.configured(one, length)
        seeds = [job.seed for job in jobs if job.experiment.name == one.name]
        home, where = self.home(one, length), pick_device(self.device)
        return Lot(several_tasks(config, 0, seeds, home, resume=True, device=where), images, test, modify)

    def configured(self, one: Experiment, length: Length) -> tuple[RunConfig, Prepare | None, Images, Images]:
        """An experiment's configuration, with seed 0, what makes ready to modify its images, and these."""
        where = pick_device(self.device)
        images, test = self.images(one, "train"), self.images(one, "test")
        if length.of(one) is None and (len(images), len(test)) != (one.images, one.test_images):
            raise HitNetError(
                f"Runs of {one.name} could not be counted: {one.data} has {len(images):,} of {one.images:,} training "
                f"images and {len(test):,} of {one.test_images:,} test images here. Is the data set whole "
                "(`hitnet data check`)?"
            )
        if length.of(one) is None:
            self.check_tested_on(one, test.name)
        images, test = images.first(length.limit), test.first(min(length.tests_of(one), one.tested_each_epoch))
        teacher = None if one.teacher is None else self.book.experiments[one.teacher]
        config, modify = configure(
            one.data,
            images,
            test,
            device=where,
            model=one.network,
            model_options=dict(one.model_options),
            recipe=one.full_recipe(),
            recipe_options={"epochs": length.epochs_of(one)},
            augment_from=None if teacher is None else self.folder(teacher, TEACHER_SEED, length).path,
        )
        return config, modify, images, test

    def check_tested_on(self, one: Experiment, here: str) -> None:
        """Say before training that a run could not be counted beside those of the ledger."""
        there = {record.tested_on for record in full_runs(self.ledger, one).values()}
        if not there <= {here}:
            raise HitNetError(
                f"The ledger's runs of {one.name} were tested on {' and '.join(there)}; here there is {here}, and no "
                "mean of both means anything. Take a ledger of its own (--ledger FILE)."
            )

    def keep(self, job: Job, trained: Run, length: Length) -> RunRecord:
        """Record a finished run."""
        record = self.record(job, trained, length)
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

    def record(self, job: Job, trained: Run, length: Length) -> RunRecord:
        one, config, history = job.experiment, trained.config, trained.history
        test = self.images(one, "test").first(length.tests_of(one))
        tested = min(one.tested_each_epoch, len(test))
        wrong = [round(row["test_error"] * tested / 100) for row in history]
        seconds = [row["seconds"] / row["beside"] for row in history]
        began = time.perf_counter()
        final_wrong = wrong[-1] if tested == len(test) else self.count_wrong(trained, test)
        at_the_end = time.perf_counter() - began
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
            final_wrong=final_wrong,
            final_tested=len(test),
            seconds=round(sum(seconds) + at_the_end, 1),
            epoch_seconds=round(statistics.median(seconds), 4),
            images_per_second=round(statistics.median(row["images_per_second"] * row["beside"] for row in history), 1),
            beside=statistics.median_low(row["beside"] for row in history),
            date=today(),
            weights=weights_fingerprint(trained.model),
            teacher=None if config.augment_from is None else config.augment_from["weights"],
            model_options=dict(one.model_options),
            **read_origin(self.folder(one, job.seed, length).path),
        )

    def count_wrong(self, trained: Run, test: Images) -> int:
        network = trained.model.to(pick_device(self.device))
        prediction = network.head.predict(class_distances(network, test.pixels)).cpu()
        return int((prediction != test.labels).sum())
