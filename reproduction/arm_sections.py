"""The section of arms: other readings of the paper beside its cells, and what hybrid images change."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from reproduction.arms import ARMS
from reproduction.book import Page, Result
from reproduction.claims import MNIST_GHOSTS
from reproduction.experiments import Experiment
from reproduction.ghost_sections import pair_count, share
from reproduction.page import (
    NONE,
    change_cell,
    claim_cell,
    digits_of,
    mean_cell,
    number,
    runs_cell,
    seconds_cell,
    table,
)
from reproduction.records import AVERAGED_EPOCHS, RunRecord, difference, summarise, summarise_errors

HYBRID_HEADER = (
    "hybrid images",
    "the same network without",
    "paper, error %",
    "here, error % (runs)",
    "change, points [95 %]",
    f"change of the mean of the last {AVERAGED_EPOCHS} epochs",
)
ARM_HEADER = (
    "arm",
    "beside",
    "paper, error %",
    "that cell here, error % [95 %]",
    "arm, error % [95 %]",
    "arm − cell, points [95 %]",
    "runs",
    "s per model",
)
# An experiment with hybrid images, and the same network without them.
HYBRID_PAIRS = (
    ("mnist-hybrid-shared-component", "mnist-hitnet-shared"),
    ("mnist-hybrid-shared-component-decay", "mnist-hitnet-shared-decay"),
    ("fashion-hybrid-shared-component", "fashion-shared"),
    ("cifar10-hybrid-shared-component", "cifar10-shared"),
    ("svhn-hybrid-shared-component", "svhn-shared"),
    ("mnist-hybrid-component", "mnist-hitnet-constant"),
    ("mnist-hybrid-component-decay", "mnist-hitnet-decay"),
    ("mnist-hybrid", "mnist-hitnet-constant"),
    ("mnist-hybrid-decay", "mnist-hitnet-decay"),
    ("fashion-hybrid", "fashion-hitnet"),
    ("cifar10-hybrid", "cifar10-hitnet"),
    ("svhn-hybrid", "svhn-hitnet"),
)


def arms_section(page: Page) -> str:
    """All arms that have runs, beside the paper's figure and our cell; then ghosts; then what has not been run."""
    arms = [page.experiment(name) for name in page.result.experiments]
    made = [arm for arm in arms if page.records(arm.name) or page.diverged(arm.name)]
    note = (
        "Each arm changes one reading of the paper, or two together. Tables 1 to 3 contain no run of an arm. The "
        "intervals are not corrected for the number of arms, and no recipe is chosen by them."
    )
    parts = [note]
    ghosts = [arm for arm in made if arm.read_ghosts]
    short = [arm for arm in made if is_short(page, arm) and arm not in ghosts]
    full = [arm for arm in made if arm not in ghosts and arm not in short]
    if full:
        parts += ["Arms of the same length as their cells:", table(ARM_HEADER, [arm_row(page, arm) for arm in full])]
    if short:
        words = (
            f"Shorter arms. Errors are means over the last {AVERAGED_EPOCHS} epochs of the arm, and over the same "
            "epochs of the cell's runs, which go on for longer; the rate is constant. The paper's figure is that of "
            "the whole length."
        )
        parts += [words, table(ARM_HEADER, [arm_row(page, arm) for arm in short])]
    if ghosts:
        parts += ["Ghosts:", ghost_arms(page, ghosts)]
    gains = [
        hybrid_row(page, name, without)
        for name, without in HYBRID_PAIRS
        if page.records(name) and page.records(without)
    ]
    if gains:
        parts += ["What hybrid images change, cells included:", table(HYBRID_HEADER, gains)]
    missing = [f"- {arm.name} ({arm.title}): {page.missing(arm.name)}" for arm in arms if page.missing(arm.name)]
    if missing:
        parts += ["Runs that have not been made:", "\n".join(missing)]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def is_short(page: Page, arm: Experiment) -> bool:
    """Whether an arm has fewer epochs than the cell that it reads otherwise."""
    return arm.epochs < page.experiment(str(arm.arm_of)).epochs


def arm_row(page: Page, arm: Experiment) -> list[str]:
    """One arm beside the cell that it reads otherwise, at the same epochs."""
    cell = page.experiment(str(arm.arm_of))
    records, others = page.records(arm.name), page.records(cell.name)
    short = is_short(page, arm)
    errors, cell_errors = (
        [run.error_by(arm.epochs) if short else run.error for run in runs] for runs in (records, others)
    )
    claim = page.book.claims.get(cell.name)
    summary, ours = summarise_errors(errors), summarise_errors(cell_errors)
    return [
        f"{arm.name}: {arm.reading}",
        cell.name,
        claim_cell(claim),
        mean_cell(ours, None) if ours else NONE,
        mean_cell(summary, None if short else claim) if summary else NONE,
        change_cell(difference(errors, cell_errors)),
        runs_cell(page, arm.name, summary),
        seconds_cell(records),
    ]


def hybrid_row(page: Page, name: str, without: str) -> list[str]:
    """What an experiment's hybrid images change, beside what the paper's did."""
    experiments = [page.experiment(each) for each in (without, name)]
    claims = [page.book.claims.get(each.arm_of or each.name) for each in experiments]
    before, after = (page.records(each.name) for each in experiments)
    last = experiments[1].epochs
    return [
        name,
        without,
        " → ".join(number(claim.mean if claim else None) for claim in claims),
        " → ".join(counted_mean(runs) for runs in (before, after)),
        change_cell(difference([run.error for run in after], [run.error for run in before])),
        change_cell(difference([run.error_by(last) for run in after], [run.error_by(last) for run in before])),
    ]


def counted_mean(runs: Sequence[RunRecord]) -> str:
    """The mean error of some runs, and their number."""
    mean = statistics.mean(run.error for run in runs)
    return f"{number(mean, digits_of(mean))} ({len(runs)})"


def ghost_arms(page: Page, arms: list[Experiment]) -> str:
    """The counts of ghosts in each arm, beside the cell's and the paper's."""
    pairs = list(MNIST_GHOSTS.agreed_pairs)
    titles = (f"(true {true}, ghost {ghost})" for true, ghost in pairs)
    header = ("ghosts", "networks", "images with one ghost class", "doubtful", *titles)
    claim = MNIST_GHOSTS
    rows = [
        [
            "the paper",
            str(claim.models),
            share(claim.agreed, claim.images),
            str(claim.doubtful),
            *(f"{count:,}" for count in claim.agreed_pairs.values()),
        ]
    ]
    cells = dict.fromkeys(str(arm.arm_of) for arm in arms)
    for name in (*cells, *(arm.name for arm in arms)):
        entry = page.ghost_analysis(name)
        words = page.experiment(name).reading or "the cell"
        if entry is None:
            rows.append([f"{name}: {words}", runs_cell(page, name, summarise(page.records(name))), *[NONE] * 6])
            continue
        facts = entry.facts
        rows.append(
            [
                f"{name}: {words}",
                str(facts["models"]),
                share(dict(map(tuple, facts["agreement"])).get(1, 0), facts["images"]),
                f"{len(facts['doubtful']):,}",
                *(f"{pair_count(facts, true, ghost):,}" for true, ghost in pairs),
            ]
        )
    return table(header, rows)


ARMS_RESULT = Result(
    "arms",
    "Other readings of the paper",
    "beside tables 1 to 3 and section 3.3",
    tuple(arm.name for arm in ARMS),
    arms_section,
    paper_runs="",
)
