"""The paper's results, each with its figure, ours and the verdict, in the rows of the summary."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from hitnet.runtime import read_json
from reproduction.book import Book, Finding, Findings, completion
from reproduction.cells import number
from reproduction.claims import (
    CAPSNET_ELSEWHERE,
    CAPSNET_SLOWER,
    EXPECTED_WITHIN,
    LOWEST_AT_AN_EPOCH,
    MNIST_GHOSTS,
    Claim,
)
from reproduction.cost import H200, Costs, duration_text
from reproduction.ledger import ANALYSIS, Ledger
from reproduction.measures import Difference, Sample, contrast
from reproduction.provenance import LABORATORY
from reproduction.sections import HYBRID_ROWS, TABLE2_ROWS
from reproduction.verdicts import (
    DOUBTFUL_MARGIN,
    GHOST_SHARE_MARGIN,
    NOT_RUN,
    SPEED_MARGIN,
    UNDECIDED,
    Judge,
    verdict,
)

HITNET, DECAY = "mnist-hitnet-shared", "mnist-hitnet-shared-decay"
N1, N1_DECAY = "mnist-n1-constant", "mnist-n1-decay"
# Published CapsNets that the paper says HitNet beats: on each data set the best one, on CIFAR-10 the best two.
CAPSNETS = (
    ("Guo", "cifar10-shared"),
    ("Shin", "cifar10-shared"),
    ("Liao", "fashion-shared"),
    ("Nair et al.", "svhn-shared"),
    ("Sabour et al.", "affnist-still-shared"),
)
REBUILT = "(not the paper's test images)"
SPEEDS = LABORATORY.parent / "benchmarks/records/training.json"


def findings(book: Book, ledger: Ledger) -> Findings:
    """All results of the paper, in about its order."""
    judge = Judge(book, ledger)
    return (
        (
            judge.error("HitNet on MNIST, constant rate", HITNET),
            judge.error("HitNet on MNIST, decreasing rate", DECAY),
        ),
        (judge.error("HitNet with squash on MNIST", "mnist-squash-shared"),),
        (
            fashion(judge),
            judge.error("HitNet on CIFAR-10", "cifar10-shared"),
            judge.error("HitNet on SVHN", "svhn-shared"),
        ),
        (
            judge.error("HitNet on affNIST without shifts", "affnist-still-shared", REBUILT),
            judge.error("HitNet on affNIST with shifts", "affnist-shared", REBUILT),
        ),
        *comparisons(judge),
        (speed(judge),),
        *(hybrid_gains(judge, chosen) for chosen in (HYBRID_ROWS[:2], HYBRID_ROWS[2:])),
        (best(judge),),
        (components(judge),),
        *((finding,) for finding in ghosts(judge)),
        (svhn_ghosts(judge),),
    )


def fashion(judge: Judge) -> Finding:
    return judge.error("HitNet on Fashion-MNIST", "fashion-shared")


def first_verdicts(book: Book, ledger: Ledger) -> list[Finding]:
    """The findings that got more runs than planned after a first verdict, as they were before these runs."""
    pairs = [
        (fashion(Judge(book, ledger, before="2026-11-18")), fashion(Judge(book, ledger))),
        (ghosts(Judge(book, ledger, before="2026-11-19"))[0], ghosts(Judge(book, ledger))[0]),
    ]
    return [first for first, now in pairs if first.runs != now.runs]


def comparisons(judge: Judge) -> Findings:
    """What the paper says is worse than HitNet."""
    rates = {N1: 1.0, N1_DECAY: -1.0, HITNET: -1.0, DECAY: 1.0}
    gains = "HitNet gains less than N1 from a decreasing rate"
    return (
        (
            judge.networks("HitNet better than N1, constant rate", {N1: 1.0, HITNET: -1.0}, "N1 {}, HitNet {}"),
            judge.networks("HitNet better than N1, decreasing rate", {N1_DECAY: 1.0, DECAY: -1.0}, "{}, {}"),
        ),
        (judge.networks(gains, rates, "N1 {} and {}, HitNet {} and {}"),),
        (
            judge.networks(
                "HitNet better than N2b (centrifugal)", {"mnist-n2b-shared": 1.0, HITNET: -1.0}, "N2b {}, HitNet {}"
            ),
            judge.networks(
                "HitNet better than N2 (CapsNet-like)", {"mnist-n2-shared": 1.0, HITNET: -1.0}, "N2 {}, HitNet {}"
            ),
        ),
        tuple(against_capsnet(judge, *pair) for pair in CAPSNETS),
    )


def against_capsnet(judge: Judge, source: str, name: str) -> Finding:
    """HitNet against the error of a CapsNet that another source reports."""
    titles, data = {each: title for title, each in TABLE2_ROWS}, judge.book.experiments[name].data
    return judge.networks(
        f"HitNet better than {source}'s CapsNet on {titles[name]}",
        {name: -1.0},
        constant=CAPSNET_ELSEWHERE[source][data],
        note=f"({titles[name]}: {REBUILT[1:]}" if data == "affnist" else "",
    )


def hybrid_gains(judge: Judge, chosen: tuple[tuple[str, str, str], ...]) -> tuple[Finding, ...]:
    """By how much hybrid images lower errors; the first line names whose runs are counted."""
    return tuple(
        judge.networks(
            f"Hybrid gain on {title}",
            {without: 1.0, name: -1.0},
            "{}, {}" if place else "without {}, with {}",
        )
        for place, (title, name, without) in enumerate(chosen)
    )


def speed(judge: Judge) -> Finding:
    """HitNet against CapsNet, one network each."""
    hitnet, capsnet = (
        [run.images_per_second for run in judge.runs(name) if run.beside == 1]
        for name in ("mnist-hitnet-each-50", "mnist-capsnet")
    )
    shown, between = NOT_RUN, None
    if hitnet and capsnet:
        ratio = Sample.of([each / statistics.mean(capsnet) for each in hitnet])
        shown = f"{ratio.mean:.1f} times"
        if ratio.std is not None:
            between = contrast([(1, ratio), (-1, Sample(CAPSNET_SLOWER, None, 1))])
    runs = f"HitNet {len(hitnet)}, CapsNet {len(capsnet)}"
    paper = f"about {CAPSNET_SLOWER:.0f} times"
    return Finding("HitNet faster than CapsNet", paper, shown, runs, verdict(between, SPEED_MARGIN))


def speed_ratios() -> dict[str, float]:
    """HitNet's speed divided by CapsNet's in other ways, from the record of the benchmark."""
    rows = read_json(SPEEDS)
    several = {
        row["network"]: row["images_per_second"] for row in rows if row.get("networks") == 8 and "network" in row
    }
    ladder = {row["what"]: row.get("images_per_second") for row in rows if row["experiment"] == "ladder"}
    textbook = ladder["textbook CapsNet, eager, TF32"]
    return {
        "eight": several["hitnet"] / several["capsnet"],
        "eager": ladder["plain eager loop, float32"] / textbook,
        "kernels": ladder["own kernels"] / textbook,
    }


def best(judge: Judge) -> Finding:
    """The best run with hybrid images, and the lowest error of any epoch; an extreme has no interval."""
    name = "mnist-hybrid-shared-component-decay"
    runs, claim = judge.runs(name), judge.book.claims.get(name, Claim())
    shown = NOT_RUN
    if runs:
        lowest = min(min(run.errors) for run in runs)
        shown = f"best of {len(runs)} runs {min(run.error for run in runs):.2f} %; {lowest:.2f} % at some epoch"
    paper = f"best of 20 runs {number(claim.best)} %; {LOWEST_AT_AN_EPOCH:.2f} % at some epoch"
    return Finding("MNIST, hybrid images, decreasing rate", paper, shown, str(len(runs)), UNDECIDED)


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
        shown = "; ".join(parts)
    paper = f'"confirmed"; a normal distribution has {EXPECTED_WITHIN} %'
    return Finding("Components of capsules within ±2m/√n", paper, shown, "1" if entry else "0", UNDECIDED)


def ghost_facts(judge: Judge, *names: str) -> list[dict[str, object]]:
    """The analyses of ghosts over whole groups of networks."""
    return [
        entry.facts
        for name in names
        for entry in judge.ledger.select(ANALYSIS, name)
        if not entry.label
        and len(entry.seeds) == judge.book.experiments[name].wanted
        and judge.counts(entry.facts["date"])
    ]


def ghosts(judge: Judge) -> list[Finding]:
    """Ghosts of MNIST: the share of images with one ghost class, and the doubtful images."""
    groups = ghost_facts(judge, *(f"mnist-ghosts-shared{end}" for end in ("", "-second", "-third")))
    longer = ghost_facts(judge, "mnist-ghosts-shared-250")
    claim, found = MNIST_GHOSTS, []
    for title, published, margin, unit, count in (
        (
            "MNIST images to which 20 networks give the same ghost class",
            100 * claim.agreed / claim.images,
            GHOST_SHARE_MARGIN,
            " %",
            agreed,
        ),
        ("Doubtful images of MNIST", float(claim.doubtful), DOUBTFUL_MARGIN, "", doubtful),
    ):
        values = [count(facts) for facts in groups]
        parts = [", ".join(f"{value:.0f}{unit}" for value in values)] if values else [NOT_RUN]
        parts += [f"250 epochs: {count(facts):.0f}{unit}" for facts in longer]
        between = None
        if len(values) > 1:
            ours = contrast([(1, Sample.of(values))])
            between = Difference(ours.mean - published, ours.margin)
        judged = verdict(between, margin)
        found.append(Finding(title, f"{published:.0f}{unit}", "; ".join(parts), groups_words(values), judged))
    return found


def groups_words(groups: list[float]) -> str:
    return f"{len(groups)} group{'' if len(groups) == 1 else 's'} of 20"


def agreed(facts: Mapping[str, object]) -> float:
    counts = dict(map(tuple, facts["agreement"]))  # type: ignore[call-overload]
    return 100 * counts.get(1, 0) / facts["images"]  # type: ignore[no-any-return]


def doubtful(facts: Mapping[str, object]) -> float:
    return float(len(facts["doubtful"]))  # type: ignore[arg-type]


def svhn_ghosts(judge: Judge) -> Finding:
    """Ghosts of SVHN, of which the paper shows pictures and no figure."""
    longer = "svhn-ghosts-shared-250"
    groups = ghost_facts(judge, "svhn-ghosts-shared", longer)
    shown = ", ".join(f"{doubtful(facts):.0f} after {facts['epochs']} epochs" for facts in groups)
    shown = f"{shown}, of both kinds" if groups else NOT_RUN
    paper = "pictures of wrong labels and of images with two digits; no number"
    runs = groups_words([doubtful(facts) for facts in groups])
    planned = completion(judge.book, longer, judge.ledger, Costs(H200))
    left = f"{planned.done} of {planned.wanted} runs made, {duration_text(planned.seconds)} to go on an H200"
    epochs = judge.book.experiments[longer].epochs
    note = f"({epochs} epochs planned: {left})" if planned.seconds else ""
    return Finding("Doubtful images of SVHN", paper, shown, runs, UNDECIDED, note)
