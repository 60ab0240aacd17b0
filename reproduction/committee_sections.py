"""The section of DropConnect and of committees of networks."""

from __future__ import annotations

from reproduction.book import Page, Result
from reproduction.claims import WAN, Claim
from reproduction.committees import committee_errors
from reproduction.experiments import COMMITTEE
from reproduction.page import NONE, mean_cell, number, runs_cell, seconds_cell, table
from reproduction.plan import DROPCONNECT_EXPERIMENTS
from reproduction.records import summarise, summarise_errors

COMMITTEE_ROWS = (
    ("DropConnect, no augmentation", "mnist-dropconnect"),
    ("DropConnect, random crops", "mnist-dropconnect-crops"),
    ("DropConnect, random crops, rotation, scaling", "mnist-dropconnect-all"),
    ("HitNet, the paper's recipe", "mnist-hitnet-constant"),
    ("Hit-or-Miss on ResNet-9, ours", "mnist-resnet9"),
)


def committee_section(page: Page) -> str:
    """Single networks and committees of five, beside the figures of Wan et al. that the paper quotes."""
    note = (
        f"A committee is {COMMITTEE} networks; it decides by the mean of their distances, or of their probabilities "
        "for softmax. Committees share no network, and none is chosen by the test images: they are the runs in the "
        "order of their seeds. The figures of Wan et al. (2013) are as the paper quotes them.\n\n"
    )
    header = (
        "network",
        "Wan et al., one network",
        "one network here, error % [95 %]",
        "runs",
        "Wan et al., committee",
        "committee here, error % [95 %]",
        "committees",
        "s per model",
        "missing",
    )
    return note + table(header, [committee_row(page, *row) for row in COMMITTEE_ROWS])


def committee_row(page: Page, title: str, name: str) -> list[str]:
    experiment, records = page.experiment(name), page.records(name)
    single, together = WAN.get(name, (None, None))
    summary = summarise(records)
    committees = summarise_errors(committee_errors(page.ledger, experiment))
    return [
        title,
        number(single),
        mean_cell(summary, None if single is None else Claim(single)) if summary else NONE,
        runs_cell(page, name, summary),
        number(together),
        mean_cell(committees, None if together is None else Claim(together), of="committee") if committees else NONE,
        f"{committees.runs if committees else 0} of {experiment.committees}",
        seconds_cell(records),
        page.missing(name),
    ]


COMMITTEES = Result(
    "committees",
    "DropConnect, and committees of five networks on MNIST",
    "section 3.1",
    (*(experiment.name for experiment in DROPCONNECT_EXPERIMENTS), "mnist-hitnet-constant", "mnist-resnet9"),
    committee_section,
)
