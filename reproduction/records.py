"""Records of runs: what the ledger keeps of a run, and whether it counts.

Errors are kept as numbers of wrong test images, which are short and exact. A run's error is that of its last epoch:
none is ever chosen by the test set.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from hitnet import HitNetError, Recipe
from hitnet.runtime import ANYTHING, check_schema, schema_of
from reproduction.experiments import Experiment
from reproduction.ledger import ANALYSIS, DIVERGED, RUN, SHORT, Entry, Ledger

AVERAGED_EPOCHS = 10
LEARNED_NOTHING = 80.0  # % wrong; the same answer for all images of ten classes is wrong for about 90 %
HISTORY = [{"epoch": int, "test_error": float, "seconds": float, "beside": int, "images_per_second": float, str: float}]
DIVERGED_FACTS = {"why": str, "recipe": {str: ANYTHING}, "model_options": {str: ANYTHING}}


@dataclass(frozen=True)
class RunRecord:
    """One finished training.

    Attributes:
        fingerprint: Fingerprint of the training images.
        wrong: Wrong test images after each epoch, out of `tested`.
        final_wrong: Wrong test images at the end of training, out of `final_tested`.
        seconds: The run's share of the time, where several networks were trained side by side.
        epoch_seconds: The run's share of the median epoch, test included.
        images_per_second: Training speed of all networks side by side.
        beside: How many networks were trained side by side, this one included.
        device: Where it was trained; several devices where a run was continued elsewhere.
        code: Version of this software; several where a run was continued elsewhere (see provenance.py).
        weights: Fingerprint of the trained weights.
        teacher: Fingerprint of the weights behind hybrid augmentation.
        model_options: The network's options in full, apart from the shape of its images and its classes.
        top_wrong: Test images at the end of training whose class is not among the first 1, 2, … classes; empty where
            this was not counted.
        uncommitted: Whether the run was recorded although no commit held its sources.
    """

    network: str
    data: str
    fingerprint: str
    images: int
    recipe: dict[str, Any]
    epochs: int
    wrong: list[int]
    tested: int
    tested_on: str
    final_wrong: int
    final_tested: int
    seconds: float
    epoch_seconds: float
    images_per_second: float
    beside: int
    device: str
    torch: str
    code: str
    date: str
    weights: str
    teacher: str | None = None
    model_options: dict[str, Any] = field(default_factory=dict)
    top_wrong: list[int] = field(default_factory=list)
    uncommitted: bool = False

    @property
    def error(self) -> float:
        """Percent of the test images, at the end of training."""
        return 100 * self.final_wrong / self.final_tested

    @property
    def learned(self) -> bool:
        """Whether it does better than giving always the same answer."""
        return self.error < LEARNED_NOTHING

    @property
    def errors(self) -> list[float]:
        """Percent of the test images, after each epoch."""
        return [100 * count / self.tested for count in self.wrong]

    def error_by(self, epochs: int) -> float:
        """The mean error of the last ten of the first `epochs` epochs, which varies less than that of one."""
        return float(np.mean(self.errors[max(0, epochs - AVERAGED_EPOCHS) : epochs]))

    def to_facts(self) -> dict[str, Any]:
        return asdict(self)


def history_facts(history: Sequence[dict[str, Any]], tested: int, final_test_seconds: float) -> dict[str, Any]:
    """The entries of a record that follow from a run's history.

    Args:
        history: One row per epoch, as training writes it.
        tested: How many images were tested after each epoch.
        final_test_seconds: The time of a further test at the end.
    """
    check_schema(list(history), HISTORY, "The run's history")
    if any(not 0 <= row["test_error"] <= 1 for row in history):
        raise HitNetError("The run's history: test_error must be in [0, 1].")
    if any(row["beside"] < 1 for row in history):
        raise HitNetError("The run's history: beside, how many networks were trained together, must be at least 1.")
    seconds = [row["seconds"] / row["beside"] for row in history]
    return {
        "epochs": len(history),
        "wrong": [round(row["test_error"] * tested) for row in history],
        "tested": tested,
        "seconds": round(sum(seconds) + final_test_seconds, 1),
        "epoch_seconds": round(statistics.median(seconds), 4),
        "images_per_second": round(statistics.median(row["images_per_second"] * row["beside"] for row in history), 1),
        "beside": statistics.median_low(row["beside"] for row in history),
    }


def read_record(entry: Entry, ledger: Ledger) -> RunRecord:
    """The record in an entry of the ledger.

    Raises:
        HitNetError: The record has other entries than this version knows.
    """
    known, recipe_options = ({entry.name for entry in fields(kind)} for kind in (RunRecord, Recipe))
    optional = {"teacher", "model_options", "top_wrong", "uncommitted"}  # which the first records did not have
    strange = set(entry.facts) - known or known - set(entry.facts) - optional
    if not strange:
        place = f"{ledger.path}, line {ledger.lines[entry.key]}"
        check_schema(entry.facts, schema_of(RunRecord), place)
    if strange or set(entry.facts["recipe"]) - recipe_options:
        raise HitNetError(
            f"{ledger.path}, line {ledger.lines[entry.key]}: the record of {entry.experiment} has other entries than "
            "this version of hitnet knows. Use the version that wrote it, or a later one."
        )
    return RunRecord(**entry.facts)


def why_not_full(record: RunRecord, experiment: Experiment) -> str | None:
    """Why a run is not a full run of an experiment; None for one that is."""
    if record.network != experiment.network or record.data != experiment.data:
        return f"it is {record.network} on {record.data}"
    if record.model_options != experiment.full_options:
        wanted = experiment.full_options
        others = {name: value for name, value in record.model_options.items() if wanted.get(name) != value}
        return f"it is {record.network} with {others or 'other options'}"
    if record.images != experiment.images:
        return f"{record.images:,} of {experiment.images:,} training images"
    if record.final_tested != experiment.test_images or record.tested != experiment.tested_each_epoch:
        return f"tested on {record.final_tested:,} images of {experiment.test_images:,}"
    if record.epochs != experiment.epochs or len(record.wrong) != experiment.epochs:
        return f"{record.epochs} of {experiment.epochs} epochs"
    if len(record.top_wrong) != experiment.top_k:
        return f"{len(record.top_wrong)} of {experiment.top_k} top-k errors"
    return None if same_recipe(record.recipe, experiment) else "another recipe"


def same_recipe(recipe: dict[str, Any], experiment: Experiment) -> bool:
    """Whether a recorded recipe is the experiment's, options without effect aside."""
    return Recipe.from_dict(recipe).in_effect() == experiment.full_recipe().in_effect()


def full_runs(ledger: Ledger, experiment: Experiment) -> dict[int, RunRecord]:
    """The runs that count, by seed: of full length, with the experiment's recipe, on the whole data.

    The ledger keeps them until it is read again: pages ask for the same runs many times.

    Raises:
        HitNetError: A run is recorded as full but is not, or runs were tested on different test sets.
    """
    asked, kept = ledger.counted.get(experiment.name, (None, {}))
    if asked == experiment:
        return dict(kept)
    records = {}
    for entry in ledger.select(RUN, experiment.name):
        record = records[entry.seeds[0]] = read_record(entry, ledger)
        if reason := why_not_full(record, experiment):
            where = f"{ledger.path}, line {ledger.lines[entry.key]}"
            raise HitNetError(
                f"{where} claims to be a full run of {experiment.name}, but is not: {reason}. "
                "Remove the line, or use the version of hitnet that wrote it."
            )
    tested_on = sorted({record.tested_on for record in records.values()})
    if len(tested_on) > 1:
        raise HitNetError(
            f"{ledger.path}: runs of {experiment.name} were tested on {' and '.join(tested_on)}, which have no "
            "common mean. Keep the runs on each test set in a ledger of their own."
        )
    ledger.counted[experiment.name] = experiment, records
    return dict(records)


def diverged_runs(ledger: Ledger, experiment: Experiment) -> dict[int, str]:
    """Why runs of full length failed, by seed.

    They are a finding too, and are not tried again. Those of another recipe or other options, which the experiment may
    have had before, are left out.
    """
    entries = ledger.select(DIVERGED, experiment.name)
    for entry in entries:
        check_schema(entry.facts, DIVERGED_FACTS, f"{ledger.path}, line {ledger.lines[entry.key]}")
    return {
        entry.seeds[0]: entry.facts["why"]
        for entry in entries
        if same_recipe(entry.facts["recipe"], experiment) and entry.facts["model_options"] == experiment.full_options
    }


def short_runs(ledger: Ledger, experiment: Experiment) -> list[tuple[Entry, RunRecord]]:
    return [(entry, read_record(entry, ledger)) for entry in ledger.select(SHORT, experiment.name)]


def all_records(ledger: Ledger) -> list[tuple[str, RunRecord]]:
    """Every run with the name of its experiment, short runs included: their speeds were measured."""
    entries = (entry for kind in (RUN, SHORT) for entry in ledger.select(kind))
    return [(entry.experiment, read_record(entry, ledger)) for entry in entries]


def ghost_analysis(ledger: Ledger, experiment: Experiment, seeds: tuple[int, ...]) -> Entry | None:
    """The analysis of the ghosts of these runs together.

    Raises:
        HitNetError: It is of other networks than the ledger's runs.
    """
    entry = ledger.get(ANALYSIS, experiment.name, seeds)
    if entry is None:
        return None
    runs = full_runs(ledger, experiment)
    for seed, weights in zip(seeds, entry.facts["weights"], strict=True):
        if seed in runs and runs[seed].weights != weights:
            raise HitNetError(
                f"{ledger.path}, line {ledger.lines[entry.key]}: the analysis of {experiment.name} is of another "
                f"network (weights {weights}) than the run with seed {seed} (weights {runs[seed].weights}). Remove the "
                "line and repeat the analysis."
            )
    return entry
