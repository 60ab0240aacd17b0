"""Runs of experiments: their folders, their training side by side, their lines in the ledger."""

from __future__ import annotations

import hashlib
import statistics
import subprocess
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import hitnet
from hitnet import data as datasets
from hitnet import files
from hitnet.data.images import Images
from hitnet.errors import DivergedError, HitNetError
from hitnet.paper.book import TEACHER_SEED, Book
from hitnet.paper.cost import Costs, device_name
from hitnet.paper.experiments import Experiment
from hitnet.paper.ledger import RUN, SHORT, Entry, Ledger
from hitnet.paper.records import RunRecord, shortened
from hitnet.training.device import pick_device
from hitnet.training.evaluation import class_distances
from hitnet.training.networks import Lot, Task, train_lots
from hitnet.training.progress import Progress
from hitnet.training.run import Run, RunFolder, load
from hitnet.training.together import AT_ONCE
from hitnet.training.train import configure, read, several_tasks, weights_fingerprint

ORIGIN = "origin.json"  # in a run folder: where and with which code it was worked on


@dataclass(frozen=True)
class Job:
    """One run of an experiment."""

    experiment: Experiment
    seed: int

    def __hash__(self) -> int:
        return hash((self.experiment.name, self.seed))


Tell = Callable[[Job, RunRecord | str], None]


class BudgetSpent(Exception):
    """Raised after an epoch behind which another would not fit into the budget."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"the budget was spent in epoch {epoch}")
        self.epoch = epoch


@dataclass(frozen=True)
class Length:
    """How much of an experiment is asked for: all of it, or fewer epochs or images."""

    epochs: int | None = None
    limit: int | None = None

    @property
    def full(self) -> bool:
        return self.epochs is None and self.limit is None

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
    """Passes on what trainings say, and stops them where the next epoch would go past the end of the budget.

    last  the epochs that may be a training's last, after which there is nothing to stop
    """

    def __init__(self, inner: Progress, end: float | None, last: Collection[int], clock: Callable[[], float]) -> None:
        self.inner, self.end, self.last, self.clock = inner, end, last, clock

    def plan(self, steps: int) -> None:
        self.inner.plan(steps)

    def step(self) -> None:
        self.inner.step()

    def epoch(self, row: dict[str, Any]) -> None:
        self.inner.epoch(row)
        last = row["epoch"] in self.last
        if self.end is not None and not last and self.clock() + row["seconds"] > self.end:
            raise BudgetSpent(row["epoch"])


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
    tests: dict[str, Images] = field(default_factory=dict)

    def room(self) -> float | None:
        return None if self.end is None else self.end - self.clock()

    @property
    def side_by_side(self) -> int:
        """How many networks are trained together here."""
        return AT_ONCE[pick_device(self.device).type]

    def home(self, one: Experiment, length: Length = Length()) -> Path:
        """The folder of an experiment's run folders; short runs have one of their own in it."""
        label = length.of(one)
        whole = self.runs_dir / one.name
        return whole if label is None else whole / ("short-" + label.replace(", ", "-").replace(" ", "-"))

    def folder(self, one: Experiment, seed: int, length: Length = Length()) -> Path:
        return self.home(one, length) / f"seed-{seed}"

    def finished(self, one: Experiment, seed: int, length: Length = Length()) -> bool:
        return RunFolder(self.folder(one, seed, length)).finished

    @property
    def costs(self) -> Costs:
        return self.book.costs(device_name(pick_device(self.device)), self.ledger)

    def estimate(self, job: Job, length: Length) -> float:
        """Seconds that are left of a run, its share where many are trained side by side, by what is known here."""
        one = job.experiment
        if self.finished(one, job.seed, length):
            return 0.0
        run = RunFolder(self.folder(one, job.seed, length))
        behind = len(run.history()) if run.state_file.is_file() else 0
        images = min(length.limit or one.images, one.images)
        return self.costs.seconds(one, epochs=max(0, (length.epochs or one.epochs) - behind), images=images)

    def test_images(self, one: Experiment) -> Images:
        if one.data not in self.tests:
            self.tests[one.data] = datasets.load(one.data, "test", data_dir=self.data_dir)
        return self.tests[one.data]

    def run(self, jobs: Sequence[Job], length: Length, tell: Tell) -> None:
        """Train side by side what is not finished, and record what the ledger has not.

        `tell` hears of each job as soon as it has ended: its record, or why it diverged.
        """
        of = {self.folder(job.experiment, job.seed, length): job for job in jobs}
        for folder, job in of.items():
            if RunFolder(folder).finished:
                tell(job, self.keep(job, load(folder), length))
        left = {folder: job for folder, job in of.items() if not RunFolder(folder).finished}
        where = pick_device(self.device)
        experiments = {job.experiment.name: job.experiment for job in left.values()}
        lots = [self.lot(one, left.values(), length) for one in experiments.values()]
        for folder in left:
            note_origin(folder, device_name(where))

        def ended(task: Task, outcome: Run | DivergedError) -> None:
            job = left[Path(task.path)]
            tell(job, str(outcome) if isinstance(outcome, DivergedError) else self.keep(job, outcome, length))

        last = {length.epochs or job.experiment.epochs for job in left.values()}
        guard = Guard(self.progress or Progress(), self.end, last, self.clock)
        train_lots(lots, ended, device=where, progress=guard)

    def lot(self, one: Experiment, jobs: Collection[Job], length: Length) -> Lot:
        """What is to be trained of one experiment."""
        where = pick_device(self.device)
        test = self.test_images(one).first(one.each_epoch)
        images, _ = read(one.data, test, device=where, limit=length.limit, stream=None, data_dir=self.data_dir)
        teacher = None if one.teacher is None else self.book.experiments[one.teacher]
        config, modify = configure(
            one.data, images, test, device=where, model=one.network, model_options=dict(one.model_options),
            recipe=one.full_recipe(), recipe_options={"epochs": length.epochs},
            augment_from=None if teacher is None else self.folder(teacher, TEACHER_SEED, length),
        )  # fmt: skip
        seeds = [job.seed for job in jobs if job.experiment.name == one.name]
        return Lot(several_tasks(config, 0, seeds, self.home(one, length), resume=True), images, test, modify)

    def keep(self, job: Job, trained: Run, length: Length) -> RunRecord:
        """Record a finished run, and read its ghosts where they are wanted."""
        one = job.experiment
        record = self.record(one, trained, self.test_images(one))
        self.enter(one, job.seed, length, record)
        if one.read_ghosts and length.of(one) is None:
            from hitnet.paper.ghosts import keep_reading

            keep_reading(trained, self.folder(one, job.seed, length), self.data_dir, pick_device(self.device))
        return record

    def enter(self, one: Experiment, seed: int, length: Length, record: RunRecord) -> None:
        kind, name, seeds, label = length.key(one, seed)
        why = shortened(record, one)
        if kind == RUN and why is not None:
            raise HitNetError(
                f"The run of {name} with seed {seed} cannot be counted: {why}. Is the data set whole "
                "(`hitnet data check`)?"
            )
        if self.ledger.get(kind, name, seeds, label) is None:
            self.ledger.add(Entry(kind, name, seeds, record.to_facts(), label))

    def record(self, one: Experiment, trained: Run, test: Images) -> RunRecord:
        config, history = trained.config, trained.history
        tested = min(one.each_epoch or len(test), len(test))
        wrong = [round(row["test_error"] * tested / 100) for row in history]
        origin = files.read_json(self.origin_file(trained))
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
            device=joined(origin, "device"),
            torch=joined(origin, "torch"),
            code=joined(origin, "code"),
            date=datetime.now(UTC).date().isoformat(),
            weights=weights_fingerprint(trained.model),
            teacher=None if config.augment_from is None else config.augment_from["weights"],
            model_options=dict(one.model_options),
        )

    def origin_file(self, trained: Run) -> Path:
        return Path(trained.folder or ".") / ORIGIN

    def count_wrong(self, trained: Run, test: Images) -> int:
        network = trained.model.to(pick_device(self.device))
        prediction = network.head.predict(class_distances(network, test.pixels)).cpu()
        return int((prediction != test.labels).sum())


def note_origin(folder: Path, device: str) -> None:
    """Add this machine and this code to those that worked on a run."""
    file = folder / ORIGIN
    before = files.read_json(file) if file.is_file() else []
    here = {"device": device, "torch": torch.__version__, "code": code_version()}
    if here not in before:
        files.write_json(file, [*before, here])


def joined(origin: list[dict[str, Any]], key: str) -> str:
    return ", then ".join(dict.fromkeys(one[key] for one in origin))


def code_version() -> str:
    """The version of the package and the commit of a checkout, with "+" where files were changed since; there, and
    where there is no commit to name, a checksum of the package's sources."""
    root = source_root()
    try:
        if root is None:
            raise FileNotFoundError
        said = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            capture_output=True, text=True, check=True, timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return f"{hitnet.__version__} sources {source_checksum()}"
    commit = said.stdout.strip()
    return f"{hitnet.__version__} {commit}" + (f" sources {source_checksum()}" if commit.endswith("+") else "")


def source_checksum() -> str:
    package = Path(hitnet.__file__).parent
    digest = hashlib.blake2b(digest_size=6)
    for file in sorted(package.rglob("*.py")):
        digest.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def source_root() -> Path | None:
    """The repository that this package is run from, if it is."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "pyproject.toml").is_file() and (root / "src" / "hitnet").is_dir() else None
