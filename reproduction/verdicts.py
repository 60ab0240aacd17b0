"""Whether each result of the paper was reproduced, by one rule.

A result *agrees* if the 95 % interval of the difference between our figure and the paper's lies within a margin, which
each data set has. It *differs* if the interval excludes 0 and does not lie within the margin. Else it is *undecided*,
as it is without an interval. The spread of the paper's runs counts where the paper gives it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from reproduction.book import Book, Finding
from reproduction.cells import digits_of, number
from reproduction.claims import (
    CAPSNET_ELSEWHERE,
    CAPSNET_SLOWER,
    EXPECTED_WITHIN,
    LOWEST_AT_AN_EPOCH,
    MNIST_GHOSTS,
    Claim,
)
from reproduction.ledger import ANALYSIS, Ledger
from reproduction.measures import Difference, Sample, contrast
from reproduction.records import RunRecord, full_runs

AGREES, DIFFERS, UNDECIDED = "agrees", "differs", "undecided"
MARGINS = {"mnist": 0.04, "fashion-mnist": 0.2, "svhn": 0.2, "cifar10": 1.0, "affnist": 1.0}  # percentage points
GHOST_SHARE_MARGIN, DOUBTFUL_MARGIN, SPEED_MARGIN = 3.0, 20.0, 2.0  # percentage points, images, times
NOT_RUN = "not run yet"
LEARNED_NOTHING = 80.0  # % wrong; the same answer for all images of ten classes is wrong for about 90 %
Error = Callable[[RunRecord], float]


def verdict(between: Difference | None, margin: float) -> str:
    """The rule, on our figure minus the paper's."""
    if between is None:
        return UNDECIDED
    low, high = between.interval
    if -margin <= low and high <= margin:
        return AGREES
    return DIFFERS if low > 0 or high < 0 else UNDECIDED


@dataclass(frozen=True)
class Judge:
    """Finds results in a ledger."""

    book: Book
    ledger: Ledger

    def runs(self, name: str) -> list[RunRecord]:
        return [run for _, run in sorted(full_runs(self.ledger, self.book.experiments[name]).items())]

    def claim(self, name: str) -> Sample:
        """What the paper says of an experiment."""
        claim = self.book.claims[name]
        return Sample(claim.mean or 0.0, claim.std, claim.runs or 1)

    def figure(self, weights: Mapping[str, float], error: Error, constant: float = 0.0) -> Difference | None:
        """Our weighted sum of mean errors; None if one of them has fewer than two runs."""
        samples = {name: [error(run) for run in self.runs(name)] for name in weights}
        if min(map(len, samples.values())) < 2:
            return None
        ours = contrast([(weight, Sample.of(samples[name])) for name, weight in weights.items()])
        return Difference(ours.mean + constant, ours.margin)

    def against_paper(self, weights: Mapping[str, float], error: Error) -> Difference | None:
        """Our weighted sum of mean errors minus the paper's, with both spreads."""
        samples = {name: [error(run) for run in self.runs(name)] for name in weights}
        if min(map(len, samples.values())) < 2:
            return None
        ours = [(weight, Sample.of(samples[name])) for name, weight in weights.items()]
        return contrast([*ours, *((-weight, self.claim(name)) for name, weight in weights.items())])

    def margin(self, weights: Mapping[str, float]) -> float:
        return MARGINS[self.book.experiments[next(iter(weights))].data]

    def idle_words(self, weights: Mapping[str, float]) -> str:
        """How many runs learned nothing, and how the others err on average; empty if all learned."""
        said = ""
        for name in weights:
            errors = [run.error for run in self.runs(name)]
            learned = [error for error in errors if error < LEARNED_NOTHING]
            if learned and len(learned) < len(errors):
                others = f"the other {len(learned)}: mean error {statistics.mean(learned):.2f} %"
                said += f"; {len(errors) - len(learned)} of {len(errors)} runs of {name} learned nothing ({others})"
        return said

    def counted(self, weights: Mapping[str, float]) -> str:
        """How many runs there are of each experiment."""
        return ", ".join(str(len(self.runs(name))) for name in weights)

    def error(self, title: str, name: str, note: str = "") -> Finding:
        """A mean error."""
        claim, weights = self.book.claims[name], {name: 1.0}
        paper = "about " * claim.about + number(claim.mean, 1 if claim.half_unit > 0.01 else 2) + " %"
        ours = self.figure(weights, last_error)
        shown = NOT_RUN if ours is None else f"{interval(ours)} %{note}"
        judged = verdict(self.against_paper(weights, last_error), self.margin(weights))
        return Finding(title, paper, shown, self.counted(weights), judged)

    def networks(self, title: str, weights: Mapping[str, float], *, constant: float = 0.0) -> Finding:
        """A difference between networks: by the last epoch and by the mean of the last ten.

        Both must lead to the same verdict. `constant` is a published error that the sum also contains.
        """
        claims = {name: self.book.claims[name].mean or 0.0 for name in weights}
        paper = sum(weight * claims[name] for name, weight in weights.items()) + constant
        found = [self.figure(weights, error, constant) for error in (last_error, mean_error)]
        margin = self.margin(weights)
        judged = {verdict(self.against_paper(weights, error), margin) for error in (last_error, mean_error)}
        shown = NOT_RUN
        if found[0] is not None and found[1] is not None:
            shown = f"{interval(found[0])}; last 10 epochs {interval(found[1])}{self.idle_words(weights)}"
        return Finding(
            title, f"{paper:.2f}", shown, self.counted(weights), judged.pop() if len(judged) == 1 else UNDECIDED
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


def speed(judge: Judge) -> Finding:
    """HitNet against CapsNet, one network each; the other ratios are from benchmarks/records/training.json."""
    hitnet, capsnet = (
        [run.images_per_second for run in judge.runs(name) if run.beside == 1]
        for name in ("mnist-hitnet-each-50", "mnist-capsnet")
    )
    shown, between = NOT_RUN, None
    if hitnet and capsnet:
        ratio = Sample.of([each / statistics.mean(capsnet) for each in hitnet])
        shown = f"{ratio.mean:.1f}, one network each; 3.0 with eight; 3.2 if both are plain eager loops"
        if ratio.std is not None:
            between = contrast([(1, ratio), (-1, Sample(CAPSNET_SLOWER, None, 1))])
    runs = f"{len(hitnet)}, {len(capsnet)}"
    paper = f"about {CAPSNET_SLOWER:.0f}"
    return Finding("CapsNet is slower, times", paper, shown, runs, verdict(between, SPEED_MARGIN))


def best(judge: Judge) -> Finding:
    """The best run with hybrid images, and the lowest error of any epoch; an extreme has no interval."""
    name = "mnist-hybrid-shared-component-decay"
    runs, claim = judge.runs(name), judge.book.claims.get(name, Claim())
    shown = NOT_RUN
    if runs:
        lowest = min(min(run.errors) for run in runs)
        shown = f"{min(run.error for run in runs):.2f} % of {len(runs)} runs; {lowest:.2f} % at some epoch"
    paper = f"{number(claim.best)} % of 20 runs; {LOWEST_AT_AN_EPOCH:.2f} % at some epochs"
    return Finding("Best run on MNIST (hybrid images, decreasing rate)", paper, shown, str(len(runs)), UNDECIDED)


def components(judge: Judge) -> Finding:
    """The share of components within ±2m/√n of the centre."""
    entry = judge.book.results["components"].picture(judge.ledger)
    shown = "not measured yet"
    if entry is not None:
        measured = entry.facts["measured"]
        parts = []
        for split, name in (("test", "by_class_test"), ("training", "by_class")):
            rows = measured.get(name, ())
            total = sum(row[1] for row in rows)
            parts += [f"{100 * sum(row[1] * row[4] for row in rows) / total:.1f} % on {split} images"] if rows else []
            parts += [] if rows else [f"not measured on {split} images"]
        shown = f"{'; '.join(parts)} ({entry.experiment})"
    paper = f'"confirmed" ({EXPECTED_WITHIN} % if normal)'
    return Finding("Components of capsules within ±2m/√n", paper, shown, "1" if entry else "0", UNDECIDED)


def ghost_facts(judge: Judge, *names: str) -> list[dict[str, object]]:
    """The analyses of ghosts over whole groups of networks."""
    return [
        entry.facts
        for name in names
        for entry in judge.ledger.select(ANALYSIS, name)
        if not entry.label and len(entry.seeds) == judge.book.experiments[name].wanted
    ]


def ghosts(judge: Judge) -> list[Finding]:
    """Ghosts of MNIST: the share of images with one ghost class, and the doubtful images."""
    groups = ghost_facts(judge, "mnist-ghosts-shared", "mnist-ghosts-shared-second")
    longer = ghost_facts(judge, "mnist-ghosts-shared-250")
    claim, findings = MNIST_GHOSTS, []
    for title, published, margin, unit, count in (
        (
            "Images with one ghost class in 20 networks",
            100 * claim.agreed / claim.images,
            GHOST_SHARE_MARGIN,
            " %",
            agreed,
        ),
        ("Doubtful images of MNIST", float(claim.doubtful), DOUBTFUL_MARGIN, "", doubtful),
    ):
        values = [count(facts) for facts in groups]
        parts = [f"{', '.join(f'{value:.0f}{unit}' for value in values)} after 60 epochs"] if values else [NOT_RUN]
        parts += [f"{count(facts):.0f}{unit} after 250" for facts in longer]
        between = None
        if len(values) > 1:
            ours = contrast([(1, Sample.of(values))])
            between = Difference(ours.mean - published, ours.margin)
        groups_words = f"{len(values)} group{'' if len(values) == 1 else 's'} of 20"
        findings.append(
            Finding(title, f"{published:.0f}{unit}", ", ".join(parts), groups_words, verdict(between, margin))
        )
    return findings


def agreed(facts: Mapping[str, object]) -> float:
    counts = dict(map(tuple, facts["agreement"]))  # type: ignore[call-overload]
    return 100 * counts.get(1, 0) / facts["images"]  # type: ignore[no-any-return]


def doubtful(facts: Mapping[str, object]) -> float:
    return float(len(facts["doubtful"]))  # type: ignore[arg-type]


def svhn_ghosts(judge: Judge) -> Finding:
    """Ghosts of SVHN, of which the paper shows pictures and no figure."""
    groups = ghost_facts(judge, "svhn-ghosts-shared", "svhn-ghosts-shared-250")
    shown = ", ".join(f"{doubtful(facts):.0f} after {facts['epochs']} epochs" for facts in groups)
    shown = f"{shown}, of both kinds" if groups else NOT_RUN
    runs = f"{len(groups)} group{'' if len(groups) == 1 else 's'} of 20"
    return Finding("Doubtful images of SVHN", "pictures of two kinds, no figure", shown, runs, UNDECIDED)


def findings(book: Book, ledger: Ledger) -> list[Finding]:
    """All results of the paper in its order."""
    judge = Judge(book, ledger)
    hitnet, decay = "mnist-hitnet-shared", "mnist-hitnet-shared-decay"
    n1, n1_decay = "mnist-n1-constant", "mnist-n1-decay"
    gain = "Hybrid images lower the error, points:"
    guo = CAPSNET_ELSEWHERE["Guo"]["cifar10"]
    rows: Sequence[Callable[[], Finding]] = (
        partial(judge.error, "HitNet on MNIST, constant rate", hitnet),
        partial(judge.error, "HitNet on MNIST, decreasing rate", decay),
        partial(judge.networks, "HitNet better than the baseline N1, points", {n1: 1.0, hitnet: -1.0}),
        partial(judge.networks, "HitNet better than N1, decreasing rate, points", {n1_decay: 1.0, decay: -1.0}),
        partial(
            judge.networks, "Centripetal better than centrifugal (N2b), points", {"mnist-n2b-shared": 1.0, hitnet: -1.0}
        ),
        partial(
            judge.networks, "HitNet better than the CapsNet-like N2, points", {"mnist-n2-shared": 1.0, hitnet: -1.0}
        ),
        partial(
            judge.networks,
            "HitNet gains less from a decreasing rate than N1, points",
            {n1: 1.0, n1_decay: -1.0, hitnet: -1.0, decay: 1.0},
        ),
        partial(judge.error, "HitNet with squash", "mnist-squash-shared"),
        partial(judge.error, "HitNet on Fashion-MNIST", "fashion-shared"),
        partial(judge.error, "HitNet on CIFAR-10", "cifar10-shared"),
        partial(
            judge.networks,
            "Better than reproduced CapsNets; nearest: Guo's on CIFAR-10, points",
            {"cifar10-shared": -1.0},
            constant=guo,
        ),
        partial(judge.error, "HitNet on SVHN", "svhn-shared"),
        partial(judge.error, "HitNet on affNIST", "affnist-still-shared", " (rebuilt test images)"),
        partial(judge.error, "HitNet on affNIST with shifts", "affnist-shared", " (rebuilt test images)"),
        partial(speed, judge),
        partial(judge.networks, f"{gain} MNIST", {hitnet: 1.0, "mnist-hybrid-shared-component": -1.0}),
        partial(
            judge.networks, f"{gain} MNIST, decreasing rate", {decay: 1.0, "mnist-hybrid-shared-component-decay": -1.0}
        ),
        partial(
            judge.networks, f"{gain} Fashion-MNIST", {"fashion-shared": 1.0, "fashion-hybrid-shared-component": -1.0}
        ),
        partial(judge.networks, f"{gain} CIFAR-10", {"cifar10-shared": 1.0, "cifar10-hybrid-shared-component": -1.0}),
        partial(judge.networks, f"{gain} SVHN", {"svhn-shared": 1.0, "svhn-hybrid-shared-component": -1.0}),
        partial(best, judge),
        partial(components, judge),
    )
    return [*(row() for row in rows), *ghosts(judge), svhn_ghosts(judge)]
