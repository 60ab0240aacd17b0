"""Doing the runs that are missing from the ledger, inside a budget of time.

A run that would not fit into what is left of the budget is not begun; should the estimate have been too low, the run
stops at its last checkpoint and goes on next time. What is done is in the ledger, what is half done in its run folder:
nothing else is remembered, so that the work can go on after any interruption, and on any machine. Processes that share
run folders and ledger leave each other's runs alone: a second GPU needs no more than a second process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hitnet.errors import HitNetError
from hitnet.paper.book import PICTURE_SEED, TEACHER_SEED, Book, Result
from hitnet.paper.cost import in_words
from hitnet.paper.jobs import Job, Length
from hitnet.paper.ledger import Ledger
from hitnet.paper.records import RunRecord, diverged_runs, full_runs
from hitnet.paper.running import Runner
from hitnet.training.progress import Progress

Say = Callable[[str], None]


@dataclass
class Outcome:
    """What came of it; `begun` is whether there was anything to do that could be begun."""

    begun: bool = False
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def reproduce(
    *names: str,
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
    side_by_side: int | None = None,
    progress: Progress | None = None,
    say: Say = lambda text: None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Do the missing runs of results, experiments or everything, and what follows from them.

    runs           so many runs of each experiment, instead of its own number
    epochs, limit  shorten the runs (fewer epochs, only the first images): recorded as short, counted nowhere
    budget         minutes that all of it may take
    side_by_side   so many networks are trained together; None: as many as suit the device
    """
    check(runs=runs, epochs=epochs, limit=limit, budget=budget, side_by_side=side_by_side)
    end = None if budget is None else clock() + 60 * budget
    runner = Runner(
        book,
        ledger,
        Path(runs_dir),
        None if data_dir is None else Path(data_dir),
        device,
        progress,
        end,
        clock,
        side_by_side,
    )
    ledger.check_writable()
    length = Length(epochs, limit)
    outcome = Outcome()
    for group in groups(names, runner, runs, length):
        do(group, runner, length, outcome, say)
    finish(names, runner, runs, length, Path(docs), say)
    return outcome


def check(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None and not value > 0:
            raise HitNetError(f"--{name.replace('_', '-')} must be above 0; got {value}.")


def groups(names: Sequence[str], runner: Runner, runs: int | None, length: Length) -> list[list[Job]]:
    """Runs to do, because they are missing from the ledger or their weights are needed here, in groups to be trained
    side by side: low seeds first, so that every cell of a table has a run early; teachers before pupils."""
    book, ledger = runner.book, runner.ledger
    missing: dict[str, set[int]] = {}
    pictures: list[Result] = []
    for results, experiments in map(book.of, names):
        pictures += [result for result in results if result.draw]
        for one in experiments:
            length.check(one)
        if len(results) == 1 and results[0].draw:
            continue
        for one in experiments:
            seeds = range(one.wanted if runs is None else runs)
            failed = runner.diverged(one, length)
            missing[one.name] = {s for s in seeds if s not in failed and ledger.get(*length.key(one, s)) is None}
    for result in pictures:
        one = book.experiments[result.experiments[0]]
        if not result.picture(ledger) and runner.to_be_made(one, PICTURE_SEED, length):
            missing.setdefault(one.name, set()).add(PICTURE_SEED)
    teachers = {book.experiments[one].teacher for one, seeds in missing.items() if seeds} - {None}
    before = [book.experiments[one] for one in book.experiments if one in teachers]
    first = [Job(one, TEACHER_SEED) for one in before if runner.to_be_made(one, TEACHER_SEED, length)]
    jobs = [Job(one, seed) for one in book.experiments.values() for seed in missing.get(one.name, ())]
    others = shared_out([job for job in jobs if job not in first], runner.at_once)
    return shared_out(first, runner.at_once) + sorted(others, key=lambda group: group[0].seed)


def shared_out(jobs: list[Job], most: int) -> list[list[Job]]:
    """Jobs of about the same cost in groups of about the same size, of `most` at the most; by seed."""
    kinds: dict[Any, list[Job]] = {}
    for job in sorted(jobs, key=lambda job: job.seed):
        one = job.experiment
        kinds.setdefault((one.in_shape, one.features, one.epochs, one.teacher is not None), []).append(job)
    found = []
    for own in kinds.values():
        count = -(-len(own) // most)
        found += [own[len(own) * i // count : len(own) * (i + 1) // count] for i in range(count)]
    return found


def do(group: list[Job], runner: Runner, length: Length, outcome: Outcome, say: Say) -> None:
    """Those runs of a group that fit."""
    what = {job: in_short(job, length) for job in group}
    fitting = those_that_fit(group, runner, length, lambda job, why: say(f"{what[job]}: {why}"))
    ended: set[Job] = set()

    def tell(job: Job, made: RunRecord | str) -> None:
        ended.add(job)
        if isinstance(made, str):
            outcome.failed.append(f"{what[job]}: {made}")
            say(f"{what[job]}: {made}")
        else:
            outcome.done.append(what[job])
            say(f"{what[job]}: error {made.error:.2f} % after {made.epochs} epochs, {in_words(made.seconds)}")

    try:
        if fitting:
            outcome.begun = True
            runner.run(fitting, length, tell)
    finally:
        for job in fitting:
            runner.folder(job.experiment, job.seed, length).release()
    for job in fitting:
        if job not in ended:
            epochs, _ = runner.folder(job.experiment, job.seed, length).position()
            say(f"{what[job]}: stopped after epoch {epochs}, the budget is spent; it goes on from its run folder")
    outcome.left += [what[job] for job in group if job not in ended]


def those_that_fit(group: list[Job], runner: Runner, length: Length, say: Callable[[Job, str], None]) -> list[Job]:
    """The runs that are to be begun now, claimed for this process: no other is at them, their teachers are there, and
    they fit into the budget side by side."""
    fitting: list[Job] = []
    costs, room = runner.costs, runner.room()
    for job in group:
        if why := runner.without_teacher(job, length):
            say(job, why)
            continue
        folder = runner.folder(job.experiment, job.seed, length)
        trained = [one for one in (*fitting, job) if not runner.folder(one.experiment, one.seed, length).finished]
        needed = sum(
            runner.estimate(one, length, costs) / costs.fullness(one.experiment, len(trained)) for one in trained
        )
        if room is None or needed <= room:
            if folder.finished or folder.claim():
                fitting.append(job)
            else:
                say(job, "another process is at it")
        else:
            say(
                job,
                f"not begun; it would take until {in_words(needed)} from now, and {in_words(max(0.0, room))} are left",
            )
    return fitting


def in_short(job: Job, length: Length) -> str:
    label = length.of(job.experiment)
    return f"{job.experiment.name}, seed {job.seed}" + ("" if label is None else f" (short: {label})")


def finish(names: Sequence[str], runner: Runner, runs: int | None, length: Length, docs: Path, say: Say) -> None:
    """What is made of runs of full length once they are there: analyses of ghosts, and pictures."""
    from hitnet.paper import ghosts, pictures  # both draw

    found = [runner.book.of(name) for name in names]
    for one in {one.name: one for _, experiments in found for one in experiments}.values():
        failed = diverged_runs(runner.ledger, one)
        seeds = tuple(seed for seed in range(one.wanted if runs is None else runs) if seed not in failed)
        if one.read_ghosts and length.of(one) is None and seeds and set(seeds) <= set(full_runs(runner.ledger, one)):
            ghosts.analyse(one, seeds, runner, docs, say)
    for result in {result.name: result for results, _ in found for result in results}.values():
        one = runner.book.experiments[result.experiments[0]]
        if result.draw is None or result.picture(runner.ledger):
            continue
        if length.of(one) is not None:
            say(f"{result.name}: not drawn, because its run is a short one")
        elif runner.finished(one, PICTURE_SEED):
            pictures.draw(result, runner, docs, say)
