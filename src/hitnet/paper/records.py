"""What the ledger keeps of a run, and whether it counts.

Errors are kept as numbers of wrong test images, which are short and exact. A run's error is that of its last epoch:
none is ever chosen by the test set.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from hitnet.errors import HitNetError
from hitnet.paper.experiments import Experiment
from hitnet.paper.ledger import ANALYSIS, DIVERGED, RUN, SHORT, Entry, Ledger
from hitnet.training.recipe import Recipe


@dataclass(frozen=True)
class RunRecord:
    """One finished training.

    wrong          wrong test images after each epoch, out of `tested`
    final_wrong    wrong test images at the end of training, out of `final_tested`
    beside         how many networks were trained side by side: `seconds` are this one's share of the time,
                   `images_per_second` those of all together
    epoch_seconds  the median epoch, test included; again its share
    device, code   where, and which version of this software; several where a run was continued elsewhere
    weights        fingerprint of the trained weights
    model_options  how the network differs from the one that is named
    teacher        fingerprint of the weights behind hybrid augmentation
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

    @property
    def error(self) -> float:
        """Percent of the test images, at the end of training."""
        return 100 * self.final_wrong / self.final_tested

    @property
    def errors(self) -> list[float]:
        """Percent, after each epoch."""
        return [100 * count / self.tested for count in self.wrong]

    def to_facts(self) -> dict[str, Any]:
        return asdict(self)


def read_record(entry: Entry, ledger: Ledger) -> RunRecord:
    names, options = ({f.name for f in fields(kind)} for kind in (RunRecord, Recipe))
    strange = set(entry.facts) - names or names - set(entry.facts) - {"teacher", "model_options"}
    if strange or set(entry.facts["recipe"]) - options:
        raise HitNetError(
            f"{ledger.path}, line {ledger.lines[entry.key]}: the record of {entry.experiment} has other entries than "
            "this version of hitnet knows. Use the version that wrote it, or a later one."
        )
    return RunRecord(**entry.facts)


def shortened(record: RunRecord, experiment: Experiment) -> str | None:
    """Why a run is no full run of an experiment; None for one that is."""
    if record.network != experiment.network or record.data != experiment.data:
        return f"it is {record.network} on {record.data}"
    if record.model_options != dict(experiment.model_options):
        return f"it is {record.network} with {record.model_options or 'no options of its own'}"
    if record.images != experiment.images:
        return f"{record.images:,} of {experiment.images:,} training images"
    if record.final_tested != experiment.test_images or record.tested != experiment.tested_each_epoch:
        return f"tested on {record.final_tested:,} images of {experiment.test_images:,}"
    if record.epochs != experiment.epochs or len(record.wrong) != experiment.epochs:
        return f"{record.epochs} of {experiment.epochs} epochs"
    return None if same_recipe(record.recipe, experiment) else "another recipe"


def same_recipe(recipe: dict[str, Any], experiment: Experiment) -> bool:
    return Recipe.from_dict(recipe).in_effect() == experiment.full_recipe().in_effect()


def full_runs(ledger: Ledger, experiment: Experiment) -> dict[int, RunRecord]:
    """The runs that count, by seed: of full length, by the very recipe, on the whole data."""
    found = {entry.seeds[0]: read_record(entry, ledger) for entry in ledger.of(RUN, experiment.name)}
    for seed, record in found.items():
        if why := shortened(record, experiment):
            line = ledger.lines[(RUN, experiment.name, "", (seed,))]
            raise HitNetError(
                f"{ledger.path}, line {line} claims to be a full run of {experiment.name}, but is not: {why}. "
                "Remove the line, or use the version of hitnet that wrote it."
            )
    tested_on = sorted({record.tested_on for record in found.values()})
    if len(tested_on) > 1:
        raise HitNetError(
            f"{ledger.path}: runs of {experiment.name} were tested on {' and '.join(tested_on)}, of which there is no "
            "common mean. Keep those on either set in a ledger of their own (--ledger)."
        )
    return found


def analysis_of(ledger: Ledger, experiment: Experiment, seeds: tuple[int, ...]) -> Entry | None:
    """The analysis of these runs together; one that is of other networks than the ledger's runs is refused."""
    entry = ledger.get(ANALYSIS, experiment.name, seeds)
    if entry is None:
        return None
    runs = full_runs(ledger, experiment)
    for seed, weights in zip(seeds, entry.facts["weights"], strict=True):
        if seed in runs and runs[seed].weights != weights:
            raise HitNetError(
                f"{ledger.path}, line {ledger.lines[entry.key]}: the analysis of {experiment.name} is of another "
                f"network (weights {weights}) than the run with seed {seed} (weights {runs[seed].weights}). Remove the "
                "line, and the analysis is made again."
            )
    return entry


def diverged_runs(ledger: Ledger, experiment: Experiment) -> dict[int, str]:
    """Why runs of full length failed, by seed. They are part of what is found out, and are not tried again; those of
    another recipe or other options, as the experiment may have had before, say nothing of it."""
    return {
        entry.seeds[0]: entry.facts["why"]
        for entry in ledger.of(DIVERGED, experiment.name)
        if same_recipe(entry.facts["recipe"], experiment)
        and entry.facts["model_options"] == dict(experiment.model_options)
    }


def short_runs(ledger: Ledger, experiment: Experiment) -> list[tuple[Entry, RunRecord]]:
    return [(entry, read_record(entry, ledger)) for entry in ledger.of(SHORT, experiment.name)]


def all_records(ledger: Ledger) -> list[tuple[str, RunRecord]]:
    """Every run, short ones too, with its experiment: what is known of speeds."""
    return [(entry.experiment, read_record(entry, ledger)) for kind in (RUN, SHORT) for entry in ledger.of(kind)]
