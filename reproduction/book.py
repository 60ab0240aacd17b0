"""The book: results, the experiments behind them, how far each has come, and what a section is rendered from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hitnet import Run
from hitnet.errors import unknown_name
from reproduction.claims import Claim
from reproduction.cost import H200, Costs, duration_text
from reproduction.experiments import Experiment
from reproduction.ledger import ANALYSIS, PICTURE, Entry, Ledger
from reproduction.records import RunRecord, all_records, diverged_runs, full_runs, ghost_analysis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EVERYTHING = "all"
NOT_GIVEN = "not given"
TEACHER_SEED = 0


@dataclass(frozen=True)
class Drawing:
    """What a picture is drawn from: a trained run, the fingerprint of its weights, and where its data are."""

    run: Run
    weights: str
    device: str


@dataclass(frozen=True)
class Result:
    """One table, figure or statement of the paper.

    Attributes:
        where: Its place in the paper.
        experiments: Names of the experiments behind it.
        section: Renders the result as Markdown from the ledger; writes its figures into the page's folder.
        draw: For pictures that need weights: draws them from a run of the first experiment.
        paper_runs: How many runs it is of in the paper, in words; empty where that has no meaning.
        measure: For pictures with figures: what the ledger keeps of them beside the files, plain values.
        seed: That of the run that is drawn.
    """

    name: str
    title: str
    where: str
    experiments: tuple[str, ...]
    section: Callable[[Page], str]
    draw: Callable[[Drawing], Sequence[Figure]] | None = None
    paper_runs: str = NOT_GIVEN
    measure: Callable[[Drawing], dict[str, Any]] | None = None
    seed: int = 0

    def picture(self, ledger: Ledger) -> Entry | None:
        """The ledger's entry of its picture."""
        return ledger.get(PICTURE, self.experiments[0], (self.seed,), self.name)


@dataclass(frozen=True)
class Finding:
    """One statement of the paper: its figure, ours, how many runs ours is of, and whether they agree.

    Attributes:
        note: What else a reader of the verdict must know.
        direction: Of "A is better than B": whether that holds here, whatever its size; empty for other statements.
        last_ten: Our figure by the mean of the last ten epochs, where the verdict also asks it.
    """

    result: str
    paper: str
    ours: str
    runs: str
    verdict: str
    note: str = ""
    direction: str = ""
    last_ten: str = ""


Findings = Sequence[Sequence[Finding]]  # rows of the summary, with one finding or several


@dataclass(frozen=True)
class Book:
    """Results and experiments by name, the paper's claims by experiment, and what judges whether they were found."""

    experiments: Mapping[str, Experiment]
    results: Mapping[str, Result]
    claims: Mapping[str, Claim]
    findings: Callable[[Book, Ledger], Findings] = lambda book, ledger: []

    def look_up(self, name: str) -> tuple[list[Result], list[Experiment]]:
        """What a name stands for: everything, a result with its experiments, or a single experiment.

        Raises:
            HitNetError: The name is unknown.
        """
        if name == EVERYTHING:
            return list(self.results.values()), list(self.experiments.values())
        if name in self.results:
            result = self.results[name]
            return [result], [self.experiments[experiment] for experiment in result.experiments]
        if name in self.experiments:
            return [], [self.experiments[name]]
        raise unknown_name("result or experiment", name, [EVERYTHING, *self.results, *self.experiments])

    def costs(self, device: str, ledger: Ledger) -> Costs:
        """Estimates for a device, from the ledger's runs where it has any on that device."""
        measured = [
            (self.experiments[name], record) for name, record in all_records(ledger) if name in self.experiments
        ]
        return Costs(device, measured)


@dataclass(frozen=True)
class Completion:
    """How far a result or an experiment has come; `seconds` is the time that its missing runs take here."""

    done: int
    wanted: int
    seconds: float


def completion(book: Book, name: str, ledger: Ledger, costs: Costs) -> Completion:
    """Runs done and wanted, diverged runs included; a picture wants one run and is done once it is drawn."""
    results, experiments = book.look_up(name)
    if len(results) == 1 and results[0].draw:
        if results[0].picture(ledger):
            return Completion(1, 1, 0.0)
        return Completion(0, 1, costs.seconds_for_runs(experiments[0], 1))
    done = wanted = 0
    seconds = 0.0
    for experiment in experiments:
        seeds = full_runs(ledger, experiment).keys() | diverged_runs(ledger, experiment)
        finished = len(seeds & set(experiment.seeds()))
        done, wanted = done + finished, wanted + experiment.wanted
        seconds += costs.seconds_for_runs(experiment, experiment.wanted - finished)
    return Completion(done, wanted, seconds)


@dataclass(frozen=True)
class Page:
    """What a result's section is rendered from; `folder` is that of the page and its figures."""

    book: Book
    ledger: Ledger
    folder: Path
    result: Result

    def experiment(self, name: str) -> Experiment:
        return self.book.experiments[name]

    def records(self, name: str) -> list[RunRecord]:
        """The runs that count, by seed."""
        return [record for _, record in sorted(full_runs(self.ledger, self.experiment(name)).items())]

    def diverged(self, name: str) -> dict[int, str]:
        """Why runs failed, by seed."""
        return diverged_runs(self.ledger, self.experiment(name))

    def ghost_analysis(self, name: str) -> Entry | None:
        """The analysis of ghosts over the most runs."""
        analyses = [entry for entry in self.ledger.select(ANALYSIS, name) if not entry.label]
        seeds = max((entry.seeds for entry in analyses), key=len, default=())
        return ghost_analysis(self.ledger, self.experiment(name), seeds)

    def cost(self, name: str, runs: int) -> str:
        """How long this many runs take, in words."""
        cost = duration_text(Costs(H200).seconds_for_runs(self.experiment(name), runs))
        return f"{runs} take{'s' if runs == 1 else ''} {cost} on an H200"

    def missing(self, name: str) -> str:
        """Which runs are missing, how long they take, and the command that makes them; empty if none is."""
        experiment = self.experiment(name)
        done = full_runs(self.ledger, experiment).keys() | diverged_runs(self.ledger, experiment)
        planned = experiment.wanted or done
        count = sum(seed not in done for seed in experiment.seeds()) if planned else 1
        if not count:
            return ""
        option = "" if experiment.wanted else f" --runs {count}"
        return f"{'' if done else 'no runs yet; '}{self.cost(name, count)}: `python -m reproduction {name}{option}`"
