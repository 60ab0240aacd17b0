"""The section of readings: arms beside the paper's cells, with ghosts, and what hybrid images change in them."""

from __future__ import annotations

from reproduction.book import Page
from reproduction.cells import NONE, change_cell, claim_cell, mean_cell, number, runs_cell, seconds_cell, table
from reproduction.claims import MNIST_GHOSTS, Claim
from reproduction.experiments import Experiment
from reproduction.ghost_sections import agreed_share, pair_count, share
from reproduction.measures import difference, summarise, summarise_errors
from reproduction.records import AVERAGED_EPOCHS
from reproduction.sections import HYBRID_HEADER, hybrid_row

ARM_HEADER = (
    "arm",
    "beside",
    "paper, error %",
    "arm, error % [95 %]",
    "std",
    "irregularity",
    "best",
    "arm − other, points [95 %]",
    f"the same by the last {AVERAGED_EPOCHS} epochs",
    "runs",
    "s per model",
)
SHORT_HEADER = (
    "arm",
    "beside",
    "paper, error %",
    "the other at the same epochs, error % [95 %]",
    "arm, error % [95 %]",
    "arm − other, points [95 %]",
    "runs",
    "s per model",
)
# An arm with hybrid images, and the same network without them.
HYBRID_PAIRS = (
    ("mnist-hybrid-each-component", "mnist-hitnet-each"),
    ("mnist-hybrid-each-component-decay", "mnist-hitnet-each-decay"),
    ("mnist-hybrid-each", "mnist-hitnet-each"),
    ("fashion-hybrid-each", "fashion-each"),
)


def readings(page: Page) -> str:
    """All arms that have runs, beside the paper's figure and our cell; then ghosts; then what has not been run."""
    arms = [page.experiment(name) for name in page.result.experiments]
    made = [arm for arm in arms if page.records(arm.name) or page.diverged(arm.name)]
    parts = [
        "Each arm changes one reading of the experiment that it stands beside. Tables 1 to 4 contain no run of an arm. "
        "The intervals are not corrected for the number of arms. Which reading of batch-norm makes the cells was "
        "chosen by comparing these runs with the paper's figures."
    ]
    elsewhere = page.book.results["ghosts-mnist"].experiments
    ghosts = [arm for arm in made if arm.read_ghosts and arm.name not in elsewhere]
    made = [arm for arm in made if arm.name not in elsewhere]
    short = [arm for arm in made if is_short(page, arm) and arm not in ghosts]
    full = [arm for arm in made if arm not in ghosts and arm not in short]
    if full:
        parts += ["Arms of the same length as their cells:", table(ARM_HEADER, [arm_row(page, arm) for arm in full])]
    if short:
        words = (
            f"Shorter arms. Errors are means over the last {AVERAGED_EPOCHS} epochs of the arm, and over the same "
            "epochs of the other's runs, which go on for longer; the rate is constant. The paper's figure is that of "
            "the whole length."
        )
        parts += [words, table(SHORT_HEADER, [short_row(page, arm) for arm in short])]
    if ghosts:
        parts += ["Ghosts:", ghost_arms(page, ghosts)]
    gains = [
        hybrid_row(page, f"{name}, beside {without}", name, without)
        for name, without in HYBRID_PAIRS
        if page.records(name) and page.records(without)
    ]
    if gains:
        parts += ["What hybrid images change in arms:", table(HYBRID_HEADER, gains)]
    missing = [f"- {arm.name} ({arm.title}): {page.missing(arm.name)}" for arm in arms if page.missing(arm.name)]
    if missing:
        parts += ["Runs that have not been made:", "\n".join(missing)]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def is_short(page: Page, arm: Experiment) -> bool:
    """Whether an arm has fewer epochs than the experiment that it reads otherwise."""
    return arm.epochs < page.experiment(str(arm.arm_of)).epochs


def claim_of(page: Page, arm: Experiment) -> Claim | None:
    """What the paper says of the cell that an arm, or the arm that it stands beside, reads otherwise."""
    while arm.arm_of is not None:
        arm = page.experiment(arm.arm_of)
    return page.book.claims.get(arm.name)


def arm_row(page: Page, arm: Experiment) -> list[str]:
    """One arm beside the experiment that it reads otherwise."""
    records, others = page.records(arm.name), page.records(str(arm.arm_of))
    claim, summary = claim_of(page, arm), summarise(records)
    errors, means = (
        [[value(run) for run in runs] for runs in (records, others)]
        for value in (lambda run: run.error, lambda run: run.error_by(run.epochs))
    )
    return [
        f"{arm.name}: {arm.reading}",
        str(arm.arm_of),
        claim_cell(claim),
        mean_cell(summary),
        number(summary.std if summary else None, 3),
        number(summary.irregularity if summary else None, 3),
        number(summary.best if summary else None),
        change_cell(difference(*errors)),
        change_cell(difference(*means)),
        runs_cell(page, arm.name),
        seconds_cell(records),
    ]


def short_row(page: Page, arm: Experiment) -> list[str]:
    """A shorter arm beside the same epochs of the experiment that it reads otherwise."""
    records, others = page.records(arm.name), page.records(str(arm.arm_of))
    errors = [[run.error_by(arm.epochs) for run in runs] for runs in (records, others)]
    return [
        f"{arm.name}: {arm.reading}",
        str(arm.arm_of),
        claim_cell(claim_of(page, arm)),
        mean_cell(summarise_errors(errors[1])),
        mean_cell(summarise_errors(errors[0])),
        change_cell(difference(*errors)),
        runs_cell(page, arm.name),
        seconds_cell(records),
    ]


def ghost_arms(page: Page, arms: list[Experiment]) -> str:
    """The counts of ghosts in each arm, beside the paper's; the cells' are in their own section."""
    pairs = list(MNIST_GHOSTS.agreed_pairs)
    titles = (f"(true {true}, ghost {ghost})" for true, ghost in pairs)
    header = ("ghosts", "networks", "images with one ghost class", "doubtful", *titles)
    claim = MNIST_GHOSTS
    agreed = share(claim.agreed, claim.images)
    counts = [f"{count:,}" for count in claim.agreed_pairs.values()]
    rows = [["the paper", str(claim.models), agreed, str(claim.doubtful), *counts]]
    for arm in arms:
        title, entry = f"{arm.name}: {arm.reading}", page.ghost_analysis(arm.name)
        if entry is None:
            rows.append([title, runs_cell(page, arm.name), *[NONE] * 6])
            continue
        facts = entry.facts
        ours = [f"{pair_count(facts, true, ghost):,}" for true, ghost in pairs]
        rows.append([title, str(facts["models"]), agreed_share(facts), f"{len(facts['doubtful']):,}", *ours])
    return table(header, rows)
