"""Doing the runs that are missing from the ledger, inside a budget of time.

A run that would not fit into what is left of the budget is not begun; should the estimate have been too low, the run
stops at its last checkpoint and goes on next time. What is done is in the ledger, what is half done in its run folder:
nothing else is remembered, so that the work can go on after any interruption, and on any machine.
"""

from __future__ import annotations

import itertools
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
    """Runs to do side by side: because they are missing from the ledger, or because their weights are needed here."""

    experiment: Experiment
    seeds: tuple[int, ...]


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
    """What to do, in order: low seeds first, so that every cell of a table has a run early; teachers before pupils."""
    results, experiments = book.of(name)
    pictures = [result for result in results if result.draw]
    missing: dict[str, set[int]] = {}
    if not (len(results) == 1 and pictures):
        for one in experiments:
            seeds = range(one.wanted if runs is None else runs)
            missing[one.name] = {seed for seed in seeds if ledger.get(*length.key(one, seed)) is None}
    for result in pictures:
        one = book.experiments[result.experiments[0]]
        if not drawn(result.name, book, ledger) and not runner.finished(one, PICTURE_SEED, length):
            missing.setdefault(one.name, set()).add(PICTURE_SEED)
    teachers = {book.experiments[one].teacher for one, seeds in missing.items() if seeds} - {None}
    before = [book.experiments[one] for one in book.experiments if one in teachers]
    first = [Task(one, (TEACHER_SEED,)) for one in before if not runner.finished(one, TEACHER_SEED, length)]
    for task in first:
        missing.get(task.experiment.name, set()).discard(TEACHER_SEED)
    groups = [
        Task(book.experiments[one], group) for one, seeds in missing.items() for group in shared_out(seeds, runner)
    ]
    return first + sorted(groups, key=lambda task: task.seeds[0])


def shared_out(seeds: set[int], runner: Runner) -> list[tuple[int, ...]]:
    """Seeds in groups of about the same size, as large as are trained side by side here."""
    ordered = sorted(seeds)
    groups = -(-len(ordered) // runner.side_by_side)
    ends = [len(ordered) * i // groups for i in range(groups + 1)] if groups else []
    return [tuple(ordered[start:end]) for start, end in itertools.pairwise(ends)]


def drawn(result: str, book: Book, ledger: Ledger) -> bool:
    return ledger.get(PICTURE, book.results[result].experiments[0], (PICTURE_SEED,), result) is not None


def do(task: Task, runner: Runner, length: Length, outcome: Outcome, say: Say) -> None:
    """Those runs of a task that fit."""
    one = task.experiment
    short = "" if length.of(one) is None else f" (short: {length.of(one)})"
    what = {seed: f"{one.name}, seed {seed}{short}" for seed in task.seeds}
    if one.teacher and not runner.finished(runner.book.experiments[one.teacher], TEACHER_SEED, length):
        outcome.left += what.values()
        say(f"{what[task.seeds[0]]}: waits for its teacher, {one.teacher} with seed {TEACHER_SEED}")
        return
    fitting, needed, room = [], 0.0, runner.room()
    for seed in task.seeds:
        needed += runner.estimate(one, seed, length)
        if room is None or needed <= room:
            fitting.append(seed)
            continue
        outcome.left.append(what[seed])
        say(f"{what[seed]}: not begun; it would take until {in_words(needed)} from now, and {in_words(room)} are left")
    try:
        done = runner.run(one, fitting, length) if fitting else {}
    except BudgetSpent as stop:
        outcome.left += [what[seed] for seed in fitting]
        say(
            f"{what[fitting[0]]}: stopped after epoch {stop.epoch}, the budget is spent; it goes on from its run folder"
        )
        return
    for seed, made in done.items():
        if isinstance(made, str):
            outcome.failed.append(f"{what[seed]}: {made}")
            say(f"{what[seed]}: {made}")
        else:
            outcome.done.append(what[seed])
            say(f"{what[seed]}: error {made.error:.2f} % after {made.epochs} epochs, {in_words(made.seconds)}")


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
