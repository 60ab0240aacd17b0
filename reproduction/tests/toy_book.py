"""A small book of experiments on toy images: two epochs of a small network, a run in a second."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hitnet.data import open_data, save_npz
from hitnet.runtime import pick_device
from reproduction import Book, Experiment, Ledger, Result
from reproduction.claims import Claim
from reproduction.cost import device_name
from reproduction.error_rows import error_table
from reproduction.figures import draw_prototypes, picture_section
from reproduction.ghost_sections import ghosts_section
from reproduction.ledger import RUN, SHORT, Entry
from reproduction.records import RunRecord
from toy import toy_images

CPU = "cpu (toy, 1 threads)"
HERE = device_name(pick_device("cpu"))
SHORT_RECIPE = {"epochs": 2, "batch_size": 32}


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def toy_book(folder: Path) -> Book:
    """Experiments `toy` (3 runs), `toy-hybrid` (1 run, taught by `toy`) and `toy-ghosts` (2 runs)."""
    data = folder / "bands.npz"
    if not data.exists():
        save_npz(toy_images(60), data)
    train, test = (open_data(data).load(split) for split in ("train", "test"))
    toy = Experiment(
        "toy",
        "Toy",
        "hitnet-small",
        str(data),
        len(train),
        len(test),
        train.shape,
        3,
        recipe="fast",
        options=SHORT_RECIPE,
        classes=3,
    )
    hybrid = replace(toy, name="toy-hybrid", wanted=1, teacher="toy", options={**SHORT_RECIPE, "augment": "hybrid"})
    ghosts = replace(toy, name="toy-ghosts", wanted=2, read_ghosts=(1, 2), options={**SHORT_RECIPE, "ghosts": 1})
    experiments = {experiment.name: experiment for experiment in (toy, hybrid, ghosts)}
    table = Result("toy-table", "A table", "nowhere", ("toy",), lambda page: error_table(page, [("Toy", "toy")]))
    picture = Result("toy-picture", "A picture", "nowhere", ("toy",), picture_section, draw_prototypes)
    ghost = Result("toy-ghost-page", "Ghosts", "nowhere", ("toy-ghosts",), ghosts_section)
    results = {result.name: result for result in (table, picture, ghost)}
    return Book(experiments, results, {"toy": Claim(50.0)})


def record(experiment: Experiment, wrong: list[int] | None = None, **changes: object) -> RunRecord:
    """A full run of an experiment that was never trained, with these numbers of wrong images after each epoch."""
    counts = [1] * experiment.epochs if wrong is None else wrong
    run = RunRecord(
        network=experiment.network,
        data=experiment.data,
        fingerprint="f",
        images=experiment.images,
        recipe=experiment.full_recipe().to_dict(),
        epochs=experiment.epochs,
        wrong=counts,
        tested=experiment.tested_each_epoch,
        tested_on="toy",
        final_wrong=counts[-1],
        final_tested=experiment.test_images,
        seconds=2.0,
        epoch_seconds=1.0,
        images_per_second=100.0,
        beside=1,
        device=CPU,
        torch="2",
        code="c",
        date="2026-01-01",
        weights="w",
        model_options=experiment.full_options,
    )
    return replace(run, **changes)  # type: ignore[arg-type]


def add(ledger: Ledger, experiment: Experiment, seed: int, run: RunRecord | None = None) -> None:
    ledger.add(Entry(RUN, experiment.name, (seed,), (run or record(experiment)).to_facts()))


def add_short(ledger: Ledger, experiment: Experiment, seed: int, label: str) -> None:
    ledger.add(Entry(SHORT, experiment.name, (seed,), record(experiment, epochs=1, wrong=[1]).to_facts(), label))


def table_row(text: str, start: str) -> list[str]:
    """The cells of the only row of a Markdown table whose first cell is `start`."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]
