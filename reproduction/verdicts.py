"""Whether a result of the paper was reproduced, by one rule.

A result *agrees* if the 95 % interval of our figure minus the paper's lies within a margin, which each data set has.
It *differs* if the interval does not, and excludes 0. All else is *undecided*, also what has no interval. The spread of
the paper's runs counts where the paper gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from reproduction.book import Book, Finding
from reproduction.cells import digits_of, number
from reproduction.ledger import Ledger
from reproduction.measures import Difference, Sample, contrast
from reproduction.records import RunRecord, full_runs

AGREES, DIFFERS, UNDECIDED = "agrees", "differs", "undecided"
HOLDS, OPEN, REVERSED = "holds", "open", "reversed"
MARGINS = {"mnist": 0.04, "fashion-mnist": 0.2, "svhn": 0.2, "cifar10": 1.0, "affnist": 1.0}  # percentage points
GHOST_SHARE_MARGIN, DOUBTFUL_MARGIN, SPEED_MARGIN = 3.0, 20.0, 2.0  # percentage points, images, ratio of speeds
DIRECTED = "2026-11-19"  # since when directions are counted: commit 803b719
CAPSNETS_SINCE = "2026-11-20"  # since when published CapsNets other than Guo's are judged
FIXED = "2026-11-18"  # when the rule and its margins were fixed: commit 818a752, that of speed with 1e55b75
NOT_RUN = "not run yet"
Error = Callable[[RunRecord], float]


def verdict(between: Difference | None, margin: float) -> str:
    """The rule, on our figure minus the paper's."""
    if between is None:
        return UNDECIDED
    low, high = between.interval
    if -margin <= low and high <= margin:
        return AGREES
    return DIFFERS if low > 0 or high < 0 else UNDECIDED


def direction(gain: Difference | None) -> str:
    """Whether a gain that the paper reports is one here, too, beyond chance."""
    if gain is None:
        return OPEN
    low, high = gain.interval
    return HOLDS if low > 0 else REVERSED if high < 0 else OPEN


def same(words: set[str], otherwise: str) -> str:
    """What the last epoch and the last ten say, if they say the same."""
    return words.pop() if len(words) == 1 else otherwise


@dataclass(frozen=True)
class Judge:
    """Finds results in a ledger; with a date, by the runs and analyses that were made before it."""

    book: Book
    ledger: Ledger
    before: str = ""

    def runs(self, name: str) -> list[RunRecord]:
        records = full_runs(self.ledger, self.book.experiments[name])
        return [run for _, run in sorted(records.items()) if self.counts(run.date)]

    def counts(self, date: str) -> bool:
        """Whether what was made on this day counts."""
        return not self.before or date < self.before

    def claim(self, name: str) -> Sample:
        """What the paper says of an experiment."""
        claim = self.book.claims[name]
        return Sample(claim.mean or 0.0, claim.std, claim.runs or 1)

    def figure(
        self, weights: Mapping[str, float], error: Error, constant: float = 0.0, *, learned: bool = False
    ) -> Difference | None:
        """Our weighted sum of mean errors, of all runs or of those that learned; None with fewer than two of each."""
        samples = [[error(run) for run in self.runs(name) if run.learned or not learned] for name in weights]
        if min(map(len, samples)) < 2:
            return None
        ours = contrast([(weight, Sample.of(sample)) for weight, sample in zip(weights.values(), samples, strict=True)])
        return Difference(ours.mean + constant, ours.margin)

    def against_paper(self, weights: Mapping[str, float], error: Error) -> Difference | None:
        """Our weighted sum of mean errors minus the paper's, with both spreads."""
        samples = {name: [error(run) for run in self.runs(name)] for name in weights}
        if min(map(len, samples.values())) < 2:
            return None
        ours = [(weight, Sample.of(samples[name])) for name, weight in weights.items()]
        return contrast([*ours, *((-weight, self.claim(name)) for name, weight in weights.items())])

    def margin(self, weights: Mapping[str, float]) -> float:
        """The data set's margin; on one without a margin, no difference is small."""
        return MARGINS.get(self.book.experiments[next(iter(weights))].data, 0.0)

    def error_verdict(self, name: str) -> str:
        return verdict(self.against_paper({name: 1.0}, last_error), self.margin({name: 1.0}))

    def figure_words(self, weights: Mapping[str, float], error: Error, constant: float) -> str:
        """Our figure by all runs and, where some learned nothing, by the others."""
        figure, learned = (self.figure(weights, error, constant, learned=only) for only in (False, True))
        if figure is None:
            return NOT_RUN
        runs = [run for name in weights for run in self.runs(name)]
        idle = sum(not run.learned for run in runs)
        if not idle or learned is None:
            return interval(figure)
        which = f"{idle} run that" if idle == 1 else f"{idle} runs that"
        return f"{interval(figure)} ({interval(learned)} without {which} learned nothing)"

    def error(self, title: str, name: str, note: str = "") -> Finding:
        """A mean error."""
        claim = self.book.claims[name]
        paper = "about " * claim.about + number(claim.mean, 1 if claim.half_unit > 0.01 else 2) + " %"
        ours = self.figure({name: 1.0}, last_error)
        shown = NOT_RUN if ours is None else f"{interval(ours)} %"
        return Finding(title, paper, shown, str(len(self.runs(name))), self.error_verdict(name), note)

    def networks(
        self, title: str, weights: Mapping[str, float], runs: str = "{}", *, constant: float = 0.0, note: str = ""
    ) -> Finding:
        """A difference between networks: by the last epoch and by the mean of the last ten.

        Both must lead to the same verdict, and to the same direction.

        Args:
            runs: How many runs there are, with a place for each experiment.
            constant: A published error that the sum also contains.
        """
        claims = {name: self.book.claims[name].mean or 0.0 for name in weights}
        paper = sum(weight * claims[name] for name, weight in weights.items()) + constant
        errors = last_error, mean_error
        last, last_ten = (self.figure_words(weights, error, constant) for error in errors)
        return Finding(
            title,
            f"{paper:.2f}",
            last,
            runs.format(*(len(self.runs(name)) for name in weights)),
            same({verdict(self.against_paper(weights, error), self.margin(weights)) for error in errors}, UNDECIDED),
            note,
            direction=same({direction(self.figure(weights, error, constant)) for error in errors}, OPEN),
            last_ten=last_ten,
        )


def last_error(run: RunRecord) -> float:
    return run.error


def mean_error(run: RunRecord) -> float:
    return run.error_by(run.epochs)


def interval(figure: Difference) -> str:
    """A figure with its interval."""
    digits = digits_of(abs(figure.mean))
    low, high = figure.interval
    return f"{figure.mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
