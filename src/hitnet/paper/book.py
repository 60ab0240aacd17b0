"""The book: all results of the paper, the experiments behind them, and how far each has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hitnet.errors import unknown_name
from hitnet.paper.claims import Claim
from hitnet.paper.cost import H200, Costs, in_words
from hitnet.paper.experiments import Experiment
from hitnet.paper.ledger import ANALYSIS, PICTURE, Entry, Ledger
from hitnet.paper.records import RunRecord, all_records, analysis_of, diverged_runs, full_runs
from hitnet.training.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EVERYTHING = "all"
TEACHER_SEED = PICTURE_SEED = 0


@dataclass(frozen=True)
class Drawing:
    """What a picture is drawn from: a trained run, and where its data lie."""

    run: Run
    data_dir: Path | None
    device: str


@dataclass(frozen=True)
class Result:
    """One table, figure or figure of speech of the paper.

    where   its place in the paper
    render  the result as Markdown, from the ledger alone; figures go to the pages' folder
    draw    for pictures that need weights: draws them from a run with seed 0 of the one experiment
    """

    name: str
    title: str
    where: str
    experiments: tuple[str, ...]
    render: Callable[[Page], str]
    draw: Callable[[Drawing], Sequence[Figure]] | None = None

    def picture(self, ledger: Ledger) -> Entry | None:
        """What the ledger says of its drawing, if it has been drawn."""
        return ledger.get(PICTURE, self.experiments[0], (PICTURE_SEED,), self.name)


@dataclass(frozen=True)
class Book:
    """Results and experiments by name, and the paper's claims by experiment."""

    experiments: Mapping[str, Experiment]
    results: Mapping[str, Result]
    claims: Mapping[str, Claim]

    def of(self, name: str) -> tuple[list[Result], list[Experiment]]:
        """What a name means: everything, a result with its experiments, or an experiment alone."""
        if name == EVERYTHING:
            return list(self.results.values()), list(self.experiments.values())
        if name in self.results:
            return [self.results[name]], [self.experiments[one] for one in self.results[name].experiments]
        if name in self.experiments:
            return [], [self.experiments[name]]
        raise unknown_name("result or experiment", name, [EVERYTHING, *self.results, *self.experiments])

    def costs(self, device: str, ledger: Ledger) -> Costs:
        known = [(self.experiments[name], r) for name, r in all_records(ledger) if name in self.experiments]
        return Costs(device, known)


@dataclass(frozen=True)
class Standing:
    """How far a result or an experiment has come; `seconds` is what its missing runs cost here."""

    done: int
    wanted: int
    seconds: float


def standing(book: Book, name: str, ledger: Ledger, costs: Costs) -> Standing:
    """Runs done of runs wanted, diverged ones among them; a picture wants one run and is done once it is drawn."""
    results, experiments = book.of(name)
    if len(results) == 1 and results[0].draw:
        if results[0].picture(ledger):
            return Standing(1, 1, 0.0)
        return Standing(0, 1, costs.of_runs(experiments[0], 1))
    done = wanted = 0
    seconds = 0.0
    for one in experiments:
        have = sum(seed < one.wanted for seed in full_runs(ledger, one).keys() | diverged_runs(ledger, one))
        done, wanted = done + have, wanted + one.wanted
        seconds += costs.of_runs(one, one.wanted - have)
    return Standing(done, wanted, seconds)


@dataclass(frozen=True)
class Page:
    """What a result is rendered from, and the folder (docs) where its figures go."""

    book: Book
    ledger: Ledger
    docs: Path
    result: Result

    def experiment(self, name: str) -> Experiment:
        return self.book.experiments[name]

    def records(self, name: str) -> list[RunRecord]:
        """The runs that count, by seed."""
        return [record for _, record in sorted(full_runs(self.ledger, self.experiment(name)).items())]

    def diverged(self, name: str) -> dict[int, str]:
        """Why runs failed, by seed."""
        return diverged_runs(self.ledger, self.experiment(name))

    def analysis(self, name: str) -> Entry | None:
        """The analysis of the most runs."""
        seeds = max((entry.seeds for entry in self.ledger.of(ANALYSIS, name)), key=len, default=())
        return analysis_of(self.ledger, self.experiment(name), seeds)

    def cost(self, name: str, runs: int) -> str:
        """What so many runs would cost."""
        cost = in_words(Costs(H200).of_runs(self.experiment(name), runs))
        return f"{runs} take{'s' if runs == 1 else ''} {cost} on an H200"

    def missing(self, name: str) -> str:
        """Which runs are missing, if any, what they would cost, and how to make them."""
        one = self.experiment(name)
        done = full_runs(self.ledger, one).keys() | diverged_runs(self.ledger, one)
        count = sum(seed not in done for seed in range(one.wanted)) if one.wanted or done else 1
        if not count:
            return ""
        more = "" if one.wanted else f" --runs {count}"
        return f"{'' if done else 'no runs yet; '}{self.cost(name, count)}: `hitnet reproduce {name}{more}`"
