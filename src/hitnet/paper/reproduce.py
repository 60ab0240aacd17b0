"""Doing the runs that are missing from the ledger, inside a budget of time.

A run that would not fit into what is left of the budget is not begun; should the estimate have been too low, the run
stops at its last checkpoint and goes on next time. What is done is in the ledger, what is half done in its run folder:
nothing else is remembered, so that the work can go on after any interruption, and on any machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hitnet.errors import HitNetError
from hitnet.paper.book import PICTURE_SEED, TEACHER_SEED, Book
from hitnet.paper.cost import in_words
from hitnet.paper.experiments import Experiment
from hitnet.paper.ledger import PICTURE, Ledger
from hitnet.paper.records import full_runs
from hitnet.paper.running import BudgetSpent, Length, Runner
from hitnet.training.progress import Progress

Say = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """A run to do: because it is missing from the ledger, or because its weights are needed here."""

    experiment: Experiment
    seed: int


@dataclass
class Outcome:
    """What came of it."""

    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def reproduce(
    name: str,
    *,
    book: Book,
    ledger: Ledger,
    docs: str | Path,
    runs: int | None = None,
    epochs: int | None = None,
    limit: int | None = None,
    budget: float | None = None,
    data_dir: str | Path | None = None,
    device: str = "auto",
    runs_dir: str | Path = "runs/paper",
    progress: Progress | None = None,
    say: Say = lambda text: None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Do the missing runs of a result, an experiment or everything, and what follows from them.

    runs           so many runs of each experiment, instead of its own number
    epochs, limit  shorten the runs (fewer epochs, only the first images): recorded as short, counted nowhere
    budget         minutes that all of it may take
    """
    check(runs=runs, epochs=epochs, limit=limit, budget=budget)
    end = None if budget is None else clock() + 60 * budget
    runner = Runner(
        book, ledger, Path(runs_dir), None if data_dir is None else Path(data_dir), device, progress, end, clock
    )
    length = Length(epochs, limit)
    outcome = Outcome()
    for task in tasks(name, book, ledger, runner, runs, length):
        do(task, runner, length, outcome, say)
    if length.full:
        finish(name, book, ledger, runner, runs, Path(docs), say)
    return outcome


def check(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None and not value > 0:
            raise HitNetError(f"--{name} must be above 0; got {value}.")


def tasks(name: str, book: Book, ledger: Ledger, runner: Runner, runs: int | None, length: Length) -> list[Task]:
    """What to do, in order: seed by seed, so that every cell of a table has a run early; teachers before pupils."""
    results, experiments = book.of(name)
    pictures = [result for result in results if result.draw]
    found: list[Task] = []
    if not (len(results) == 1 and pictures):
        missing = [
            Task(one, seed)
            for one in experiments
            for seed in range(one.wanted if runs is None else runs)
            if ledger.get(*length.key(one, seed)) is None
        ]
        found = sorted(missing, key=lambda task: task.seed)
    wanting = [book.experiments[result.experiments[0]] for result in pictures if not drawn(result.name, book, ledger)]
    found += [Task(one, PICTURE_SEED) for one in wanting if not runner.finished(one, PICTURE_SEED, length)]
    teachers = [book.experiments[task.experiment.teacher] for task in found if task.experiment.teacher]
    before = [Task(one, TEACHER_SEED) for one in teachers if not runner.finished(one, TEACHER_SEED, length)]
    ordered: list[Task] = []
    for task in before + found:
        if task not in ordered:
            ordered.append(task)
    return ordered


def drawn(result: str, book: Book, ledger: Ledger) -> bool:
    return ledger.get(PICTURE, book.results[result].experiments[0], (PICTURE_SEED,), result) is not None


def do(task: Task, runner: Runner, length: Length, outcome: Outcome, say: Say) -> None:
    """One task, if it fits."""
    one, seed = task.experiment, task.seed
    what = f"{one.name}, seed {seed}{'' if length.of(one) is None else f' (short: {length.of(one)})'}"
    if one.teacher and not runner.finished(runner.book.experiments[one.teacher], TEACHER_SEED, length):
        outcome.left.append(what)
        say(f"{what}: waits for its teacher, {one.teacher} with seed {TEACHER_SEED}")
        return
    needed, room = runner.estimate(one, seed, length), runner.room()
    if room is not None and needed > room:
        outcome.left.append(what)
        say(f"{what}: not begun; it would take {in_words(needed)}, and {in_words(max(0.0, room))} are left")
        return
    try:
        record = runner.run(one, seed, length)
    except BudgetSpent as stop:
        outcome.left.append(what)
        say(f"{what}: stopped after epoch {stop.epoch}, the budget is spent; it goes on from its run folder")
    except HitNetError as error:
        if "diverged" not in str(error):
            raise
        outcome.failed.append(f"{what}: {error}")
        say(f"{what}: {error}")
    else:
        outcome.done.append(what)
        say(f"{what}: error {record.error:.2f} % after {record.epochs} epochs, {in_words(record.seconds)}")


def finish(name: str, book: Book, ledger: Ledger, runner: Runner, runs: int | None, docs: Path, say: Say) -> None:
    """What is made of runs once they are there: analyses of ghosts, and pictures."""
    from hitnet.paper import ghosts, pictures  # both draw

    results, experiments = book.of(name)
    for one in experiments:
        seeds = tuple(range(one.wanted if runs is None else runs))
        if one.read_ghosts and seeds and set(seeds) <= set(full_runs(ledger, one)):
            ghosts.analyse(one, seeds, runner, docs, say)
    for result in results:
        ready = result.draw and runner.finished(book.experiments[result.experiments[0]], PICTURE_SEED)
        if ready and not drawn(result.name, book, ledger):
            pictures.draw(result, book, ledger, runner, docs, say)
