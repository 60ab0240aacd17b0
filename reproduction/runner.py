"""Runs of experiments: their folders, their training side by side, their lines in the ledger, their ghosts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from hitnet import HitNetError, Images, Network, Progress, Run, choose_model, open_data, open_run
from hitnet.errors import DivergedError
from hitnet.inference import network_distances
from hitnet.models import weights_fingerprint
from hitnet.runtime import Together, pick_device
from hitnet.training import AT_ONCE, Job, RunFolder, seed_jobs, train_jobs
from reproduction.book import TEACHER_SEED, Book, Drawing
from reproduction.callbacks import Guard, Notes
from reproduction.committees import predictions_path, save_predictions, wrong_within
from reproduction.cost import Costs, device_name
from reproduction.experiments import Experiment, Length, PlannedRun, network_options
from reproduction.ghosts import reading_path, save_reading
from reproduction.ledger import DIVERGED, SHORT, Entry, Ledger
from reproduction.provenance import is_held, read_origin, today
from reproduction.records import RunRecord, diverged_runs, full_runs, history_facts, why_not_full

Tell = Callable[[PlannedRun, RunRecord | str], None]


@dataclass
class Runner:
    """Trains runs and records them.

    Attributes:
        end: The time, by `clock`, at which all work must be over; None: no limit.
        side_by_side: How many networks to train together; None: as many as suit the device.
        uncommitted: Record runs also if no commit holds their sources. None: so does any ledger but the own one.
        loaded: Data that were read, by name and split.
    """

    book: Book
    ledger: Ledger
    runs_dir: Path
    device: str
    progress: Progress | None
    end: float | None
    clock: Callable[[], float]
    side_by_side: int | None = None
    uncommitted: bool | None = None
    loaded: dict[tuple[str, str], Images] = field(default_factory=dict)

    def seconds_left(self) -> float | None:
        return None if self.end is None else self.end - self.clock()

    @property
    def at_once(self) -> int:
        """How many networks are trained together here."""
        return self.side_by_side or AT_ONCE[pick_device(self.device).type]

    @property
    def costs(self) -> Costs:
        return self.book.costs(device_name(pick_device(self.device)), self.ledger)

    def home(self, experiment: Experiment, length: Length = Length()) -> Path:
        """The folder of an experiment's run folders; short runs have their own in it."""
        label = length.short_label(experiment)
        home = self.runs_dir / experiment.name
        return home if label is None else home / ("short-" + label.replace(", ", "-").replace(" ", "-"))

    def folder(self, experiment: Experiment, seed: int, length: Length = Length()) -> RunFolder:
        return RunFolder(self.home(experiment, length) / f"seed-{seed}")

    def finished(self, experiment: Experiment, seed: int, length: Length = Length()) -> bool:
        """Whether a run's weights are here.

        Raises:
            HitNetError: The run folder holds another run.
        """
        folder = self.folder(experiment, seed, length)
        if folder.finished:
            (job,) = self.plan(experiment, [seed], length)
            folder.check_same(job.config)
        return folder.finished

    def diverged(self, experiment: Experiment, length: Length) -> dict[int, str]:
        """Why runs of this length failed, by seed; nothing is known of short ones."""
        return diverged_runs(self.ledger, experiment) if length.short_label(experiment) is None else {}

    def to_be_made(self, experiment: Experiment, seed: int, length: Length) -> bool:
        """Whether weights that are needed have yet to be trained, and did not diverge before."""
        return seed not in self.diverged(experiment, length) and not self.finished(experiment, seed, length)

    def without_teacher(self, job: PlannedRun, length: Length) -> str | None:
        """Why a run cannot be made, if the network that modifies its images is missing; None if it is not."""
        if job.experiment.teacher is None:
            return None
        teacher = self.book.experiments[job.experiment.teacher]
        if self.finished(teacher, TEACHER_SEED, length):
            return None
        name = f"{teacher.name} with seed {TEACHER_SEED}"
        if TEACHER_SEED in self.diverged(teacher, length):
            return f"not made: its teacher, {name}, diverged"
        return f"waits for its teacher, {name}"

    def estimate(self, job: PlannedRun, length: Length, costs: Costs) -> float:
        """Seconds left of a run: its share, where many are trained side by side."""
        experiment, folder = job.experiment, self.folder(job.experiment, job.seed, length)
        if folder.finished:
            return 0.0
        images = length.images_of(experiment)
        epochs, steps = folder.position()
        done = epochs + steps / experiment.full_recipe().steps_per_epoch(images)
        left = max(0.0, length.epochs_of(experiment) - done)
        full = length.short_label(experiment) is None
        readings = sum(epoch > done for epoch in experiment.read_ghosts) if full else 0
        return costs.seconds(experiment, epochs=left, images=images, readings=readings)

    def images(self, experiment: Experiment, split: str) -> Images:
        """A whole split of an experiment's data, read once."""
        key = experiment.data, split
        if key not in self.loaded:
            self.loaded[key] = open_data(experiment.data).load(split)
        return self.loaded[key]

    def run(self, jobs: Sequence[PlannedRun], length: Length, tell: Tell) -> None:
        """Train side by side what is not finished, and record what the ledger does not have.

        Args:
            tell: Called for each job as soon as it ends, with its record or the reason why it diverged; not for jobs
                that were stopped at the end of the budget.
        """
        experiments = {job.experiment.name: job.experiment for job in jobs}
        planned: dict[Job, PlannedRun] = {}
        for name, experiment in experiments.items():
            seeds = [job.seed for job in jobs if job.experiment.name == name]
            planned |= {job: PlannedRun(experiment, job.config.seed) for job in self.plan(experiment, seeds, length)}
        by_path = {self.folder(job.experiment, job.seed, length).path: job for job in jobs}

        def on_end(trained: Job, outcome: Run | DivergedError) -> None:
            job = planned[trained]
            if isinstance(outcome, DivergedError):
                self.record_failure(job, str(outcome), length)
                tell(job, str(outcome))
            else:
                tell(job, self.record_run(job, outcome, length))

        def read(folder: Path, epoch: int, network: Network) -> None:
            experiment = by_path[folder].experiment
            if epoch in experiment.read_ghosts and length.short_label(experiment) is None:
                self.read_ghosts(experiment, network, RunFolder(folder), epoch)

        guard = Guard(self.end, self.clock)
        notes = Notes(device_name(pick_device(self.device)), read)
        hooks = [guard, notes] if self.progress is None else [self.progress, guard, notes]
        low_seeds_first = sorted(planned, key=lambda job: job.config.seed)
        options: dict[str, Any] = {"device": pick_device(self.device), "at_once": self.at_once}
        train_jobs(low_seeds_first, on_end, progress=Together(hooks), **options)

    def plan(self, experiment: Experiment, seeds: Sequence[int], length: Length) -> list[Job]:
        """The training of an experiment's runs with these seeds."""
        images, test = self.images(experiment, "train"), self.images(experiment, "test")
        if length.short_label(experiment) is None:
            self.check_whole(experiment, images, test)
        tested = min(length.tests_of(experiment), experiment.tested_each_epoch)
        teacher = None if experiment.teacher is None else self.book.experiments[experiment.teacher]
        return seed_jobs(
            open_data(experiment.data, limit=length.limit),
            images.first(length.limit),
            test.first(tested),
            seeds=seeds,
            device=pick_device(self.device),
            out=self.home(experiment, length),
            model=choose_model(experiment.network, **experiment.model_options),
            recipe=replace(experiment.full_recipe(), epochs=length.epochs_of(experiment)),
            augment_from=None if teacher is None else self.folder(teacher, TEACHER_SEED, length).path,
        )

    def check_whole(self, experiment: Experiment, images: Images, test: Images) -> None:
        """Raise HitNetError before training if a full run on these images could not be counted."""
        if (len(images), len(test)) != (experiment.images, experiment.test_images):
            raise HitNetError(
                f"Runs of {experiment.name} cannot be counted: {experiment.data} has {len(images):,} of "
                f"{experiment.images:,} training images and {len(test):,} of {experiment.test_images:,} test images "
                "here. Check the data set with `hitnet data check`."
            )
        recorded = {record.tested_on for record in full_runs(self.ledger, experiment).values()}
        if not recorded <= {test.name}:
            raise HitNetError(
                f"The ledger's runs of {experiment.name} were tested on {' and '.join(recorded)}, but the test "
                f"set here is {test.name}; a mean of both would be meaningless. Choose another `ledger`."
            )

    def record_run(self, job: PlannedRun, run: Run, length: Length) -> RunRecord:
        """Add a finished run to the ledger.

        Raises:
            HitNetError: It cannot be counted, or no commit holds its sources and it was not asked for.
        """
        record = self.make_record(job, run, length)
        kind, name, seeds, label = length.ledger_key(job.experiment, job.seed)
        reason = why_not_full(record, job.experiment)
        if kind != SHORT and reason is not None:
            raise HitNetError(f"The run of {name} with seed {job.seed} cannot be counted: {reason}.")
        if self.uncommitted is False and not is_held(record.code):
            raise HitNetError(
                f"The run of {name} with seed {job.seed} was made from sources that no commit holds ({record.code}). "
                "Commit them, make it again from a commit, or record it with `uncommitted`."
            )
        self.ledger.add_if_new(Entry(kind, name, seeds, record.to_facts(), label))
        if kind != SHORT and any(job.seed in seeds for seeds in job.experiment.committee_seeds):
            self.keep_predictions(job, run)
        return record

    def record_failure(self, job: PlannedRun, reason: str, length: Length) -> None:
        """Add to the ledger that a run of full length diverged."""
        experiment = job.experiment
        if length.short_label(experiment) is None:
            how = {"recipe": experiment.full_recipe().to_dict(), "model_options": experiment.full_options}
            origin = read_origin(self.folder(experiment, job.seed, length).path)
            facts = {"why": reason, **how, "date": today(), **origin}
            self.ledger.add_if_new(Entry(DIVERGED, experiment.name, (job.seed,), facts))

    def make_record(self, job: PlannedRun, run: Run, length: Length) -> RunRecord:
        """The record of a finished run; tests it on all test images, if its epochs were tested on fewer."""
        experiment, config = job.experiment, run.config
        test = self.images(experiment, "test").first(length.tests_of(experiment))
        tested = min(experiment.tested_each_epoch, len(test))
        began = time.perf_counter()
        final_wrong = None if tested == len(test) else self.count_wrong(run, test)[0]
        facts = history_facts(run.history, tested, time.perf_counter() - began)
        if experiment.top_k:
            facts["top_wrong"] = self.count_wrong(run, test, most=experiment.top_k)
        facts |= read_origin(self.folder(experiment, job.seed, length).path)
        return RunRecord(
            network=config.model_name,
            data=experiment.data,
            fingerprint=config.data["fingerprint"],
            images=config.data["images"],
            recipe=config.recipe.to_dict(),
            tested_on=test.name,
            final_wrong=facts["wrong"][-1] if final_wrong is None else final_wrong,
            final_tested=len(test),
            date=today(),
            weights=weights_fingerprint(run.model),
            teacher=None if config.augment_from is None else config.augment_from["weights"],
            model_options=network_options(config.model),
            uncommitted=bool(self.uncommitted) and not is_held(facts["code"]),
            **facts,
        )

    def test_distances(self, run: Run, test: Images) -> Tensor:
        """The distances (N, K) of the test images, on the CPU."""
        return network_distances(run.model.to(pick_device(self.device)), test)

    def count_wrong(self, run: Run, test: Images, *, most: int = 1) -> list[int]:
        """Test images whose class is not among the first 1, 2, … `most`."""
        distances = self.test_distances(run, test)
        return wrong_within(distances, test.labels, nearest=run.model.head.nearest_wins, most=most)

    def prediction_files(self, experiment: Experiment) -> dict[int, Path]:
        """Where the runs of committees keep their predictions, by seed."""
        seeds = (seed for committee in experiment.committee_seeds for seed in committee)
        return {seed: predictions_path(self.folder(experiment, seed).path) for seed in seeds}

    def keep_predictions(self, job: PlannedRun, run: Run) -> None:
        """Save what a run says of the test images, for committees."""
        experiment = job.experiment
        save_predictions(
            predictions_path(self.folder(experiment, job.seed).path),
            self.test_distances(run, self.images(experiment, "test")).numpy(),
            weights=weights_fingerprint(run.model),
        )

    def read_ghosts(self, experiment: Experiment, network: Network, folder: RunFolder, epoch: int) -> None:
        """Save the ghosts of all training images in a network, as it is after an epoch."""
        images = self.images(experiment, "train")
        save_reading(
            reading_path(folder.path, epoch),
            network_distances(network, images).numpy(),
            images.labels.numpy(),
            fingerprint=folder.config().data["fingerprint"],
            weights=weights_fingerprint(network),
        )

    def ghost_readings(self, experiment: Experiment, seeds: Iterable[int]) -> dict[int, dict[int, Path]]:
        """The file of each reading of ghosts, by epoch and seed; missing last ones are read from finished runs."""
        folders = {seed: self.folder(experiment, seed) for seed in seeds}
        for folder in folders.values():
            if folder.finished and not reading_path(folder.path, experiment.epochs).is_file():
                network = open_run(folder.path).model.to(pick_device(self.device))
                self.read_ghosts(experiment, network, folder, experiment.epochs)
        return {
            epoch: {seed: reading_path(folder.path, epoch) for seed, folder in folders.items()}
            for epoch in experiment.read_ghosts
        }

    def drawing(self, experiment: Experiment, seed: int) -> Drawing:
        """What a picture of a finished run is drawn from."""
        run = open_run(self.folder(experiment, seed).path)
        return Drawing(run, weights_fingerprint(run.model), self.device)
