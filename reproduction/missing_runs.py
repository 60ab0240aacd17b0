"""Making the runs that are missing from the ledger, within a budget of time.

A run that would not fit into the rest of the budget is not started; if an estimate was too low, the run stops at its
last checkpoint and resumes next time. What is done is in the ledger, what is half done in its run folder, and nothing
else is remembered: the work can be resumed after any interruption, on any machine. Processes that share run folders
and ledger do not touch each other's runs, so for a second GPU start a second process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hitnet import HitNetError, Progress
from hitnet.runtime import remove_litter
from reproduction.book import TEACHER_SEED, Book, Result
from reproduction.committees import judge_committees
from reproduction.cost import duration_text
from reproduction.experiments import Experiment, Length, PlannedRun
from reproduction.figures import FOLDER, draw_picture
from reproduction.ghosts import analyse_ghosts, redraw_doubtful
from reproduction.ledger import Ledger
from reproduction.provenance import LABORATORY, code_version, is_held
from reproduction.records import RunRecord, diverged_runs, full_runs, ghost_analysis
from reproduction.runner import Runner

OWN_LEDGER = LABORATORY / "ledger.jsonl"
Report = Callable[[str], None]


@dataclass
class Outcome:
    """What was done; `begun` is whether any run could be started."""

    begun: bool = False
    done: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def reproduce(
    *names: str,
    book: Book,
    ledger: Ledger,
    folder: str | Path,
    runs: int | None = None,
    epochs: int | None = None,
    limit: int | None = None,
    budget: float | None = None,
    device: str = "auto",
    runs_dir: str | Path = "runs/paper",
    side_by_side: int | None = None,
    uncommitted: bool = False,
    progress: Progress | None = None,
    report: Report = lambda text: None,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Make the missing runs of results or experiments, then their ghost analyses and pictures.

    Args:
        names: Results or experiments, or "all".
        folder: The folder of the pages, where pictures go.
        runs: How many runs of each experiment; None: the experiment's own number.
        epochs: Shorten the runs to fewer epochs; they are recorded as short and counted nowhere.
        limit: Shorten the runs to the first images, likewise.
        budget: Minutes for all of it; None: no limit.
        side_by_side: How many networks to train together; None: as many as suit the device.
        uncommitted: Add runs to the repository's own ledger although no commit holds the sources; they say so.
        report: Called with each message.

    Raises:
        HitNetError: A name is unknown, a number is not above 0, a run cannot be counted, or no commit holds the
            sources.
    """
    check_positive(runs=runs, epochs=epochs, limit=limit, budget=budget, side_by_side=side_by_side)
    own = ledger.path.resolve() == OWN_LEDGER
    if own and not uncommitted and not is_held(code_version()):
        raise HitNetError(
            f"No commit that git finds here holds these sources ({code_version()}), so nobody could repeat these runs. "
            "Commit first. On a machine without git, use a copy of the ledger, and add its lines on a machine with git "
            "(--merge). Or record them all the same with `uncommitted`."
        )
    remove_litter(Path(folder) / FOLDER, shared=True)
    end = None if budget is None else clock() + 60 * budget
    runner = Runner(
        book,
        ledger,
        Path(runs_dir),
        device,
        progress,
        end,
        clock,
        side_by_side,
        uncommitted or (False if own else None),
    )
    ledger.check_writable()
    length = Length(epochs, limit)
    outcome = Outcome()
    for group in missing_groups(names, runner, runs, length):
        run_group(group, runner, length, outcome, report)
    analyse_and_draw(names, runner, runs, length, Path(folder), report)
    return outcome


def check_positive(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not value > 0:
            raise HitNetError(f"`{name}` must be above 0; got {value}.")


def missing_groups(names: Sequence[str], runner: Runner, runs: int | None, length: Length) -> list[list[PlannedRun]]:
    """The runs to make, in groups to be trained side by side.

    These are runs that are missing from the ledger, and runs whose weights are needed here. Low seeds come first, so
    that every cell of a table has a run early, and teachers come before pupils.
    """
    experiments = runner.book.experiments
    missing = missing_seeds(names, runner, runs, length)
    teachers = {experiments[name].teacher for name, seeds in missing.items() if seeds} - {None}
    first = [
        PlannedRun(experiment, TEACHER_SEED)
        for name, experiment in experiments.items()
        if name in teachers and runner.to_be_made(experiment, TEACHER_SEED, length)
    ]
    jobs = [PlannedRun(experiment, seed) for name, experiment in experiments.items() for seed in missing.get(name, ())]
    rest = share_out([job for job in jobs if job not in first], runner.at_once)
    return share_out(first, runner.at_once) + sorted(rest, key=lambda group: group[0].seed)


def missing_seeds(names: Sequence[str], runner: Runner, runs: int | None, length: Length) -> dict[str, set[int]]:
    """The seeds of missing runs by experiment, those of pictures included."""
    ledger = runner.ledger
    missing: dict[str, set[int]] = {}
    pictures: list[Result] = []
    for results, experiments in map(runner.book.look_up, names):
        pictures += [result for result in results if result.draw]
        for experiment in experiments:
            length.check(experiment)
        if len(results) == 1 and results[0].draw:
            continue
        for experiment in experiments:
            failed = runner.diverged(experiment, length)
            missing[experiment.name] = {
                seed
                for seed in experiment.seeds(runs)
                if seed not in failed and ledger.get(*length.ledger_key(experiment, seed)) is None
            }
    for result in pictures:
        experiment = runner.book.experiments[result.experiments[0]]
        if not result.picture(ledger) and runner.to_be_made(experiment, result.seed, length):
            missing.setdefault(experiment.name, set()).add(result.seed)
    return missing


def share_out(jobs: list[PlannedRun], most: int) -> list[list[PlannedRun]]:
    """Groups of jobs of about the same cost: equally large, `most` jobs at most, sorted by seed."""
    kinds: dict[Any, list[PlannedRun]] = {}
    for job in sorted(jobs, key=lambda job: job.seed):
        experiment = job.experiment
        kind = (experiment.in_shape, experiment.features, experiment.epochs, experiment.teacher is not None)
        kinds.setdefault(kind, []).append(job)
    groups = []
    for alike in kinds.values():
        count = -(-len(alike) // most)
        groups += [alike[len(alike) * i // count : len(alike) * (i + 1) // count] for i in range(count)]
    return groups


def run_group(group: list[PlannedRun], runner: Runner, length: Length, outcome: Outcome, report: Report) -> None:
    """Train those runs of a group that fit into the budget."""
    titles = {job: job_title(job, length) for job in group}
    fitting = fitting_jobs(group, runner, length, lambda job, reason: report(f"{titles[job]}: {reason}"))
    ended: set[PlannedRun] = set()

    def tell(job: PlannedRun, ending: RunRecord | str) -> None:
        ended.add(job)
        if isinstance(ending, str):
            outcome.failed.append(f"{titles[job]}: {ending}")
            report(f"{titles[job]}: {ending}")
        else:
            outcome.done.append(titles[job])
            took = duration_text(ending.seconds)
            report(f"{titles[job]}: error {ending.error:.2f} % after {ending.epochs} epochs, {took}")

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
            report(f"{titles[job]}: stopped after epoch {epochs}, the budget is spent; the same command resumes it")
    outcome.left += [titles[job] for job in group if job not in ended]


def fitting_jobs(
    group: list[PlannedRun], runner: Runner, length: Length, report: Callable[[PlannedRun, str], None]
) -> list[PlannedRun]:
    """The runs to start now, claimed for this process.

    No other process is training them, their teachers are finished, and side by side they fit into the budget. For each
    of the other runs, `report` is called with the reason.
    """
    fitting: list[PlannedRun] = []
    costs, seconds_left = runner.costs, runner.seconds_left()
    for job in group:
        if reason := runner.without_teacher(job, length):
            report(job, reason)
            continue
        folder = runner.folder(job.experiment, job.seed, length)
        unfinished = [
            other for other in (*fitting, job) if not runner.folder(other.experiment, other.seed, length).finished
        ]
        needed = sum(
            runner.estimate(other, length, costs) / costs.fullness(other.experiment, len(unfinished))
            for other in unfinished
        )
        if seconds_left is None or needed <= seconds_left:
            if folder.finished or folder.claim():
                fitting.append(job)
            else:
                report(job, "another process is training it")
        else:
            left = duration_text(max(0.0, seconds_left))
            report(job, f"not started: it would end in {duration_text(needed)}, but the budget ends in {left}")
    return fitting


def job_title(job: PlannedRun, length: Length) -> str:
    label = length.short_label(job.experiment)
    return f"{job.experiment.name}, seed {job.seed}" + ("" if label is None else f" (short: {label})")


def analyse_and_draw(
    names: Sequence[str], runner: Runner, runs: int | None, length: Length, folder: Path, report: Report
) -> None:
    """Make ghost analyses and pictures of runs of full length, once these are there."""
    experiments: dict[str, Experiment] = {}
    results: dict[str, Result] = {}
    for named_results, named_experiments in map(runner.book.look_up, names):
        experiments |= {experiment.name: experiment for experiment in named_experiments}
        results |= {result.name: result for result in named_results}
    for experiment in experiments.values():
        if length.short_label(experiment) is not None:
            continue
        if experiment.read_ghosts:
            analyse_if_complete(experiment, runner, runs, folder, report)
        if experiment.committees:
            files, test = runner.prediction_files(experiment), runner.images(experiment, "test")
            judge_committees(experiment, files, test, runner.ledger, report)
    for result in results.values():
        if result.draw is None or result.picture(runner.ledger):
            continue
        experiment = runner.book.experiments[result.experiments[0]]
        if length.short_label(experiment) is not None:
            report(f"{result.name}: not drawn: its run is a short one")
        elif runner.finished(experiment, result.seed):
            draw_picture(result, runner.drawing(experiment, result.seed), runner.ledger, folder, report)


def analyse_if_complete(experiment: Experiment, runner: Runner, runs: int | None, folder: Path, report: Report) -> None:
    """Analyse the ghosts of an experiment once all its runs are recorded.

    If the ledger has the analysis, only draw those of its pictures that are missing.
    """
    failed = diverged_runs(runner.ledger, experiment)
    seeds = tuple(seed for seed in experiment.seeds(runs) if seed not in failed)
    if not seeds or not set(seeds) <= set(full_runs(runner.ledger, experiment)):
        return
    analysis = ghost_analysis(runner.ledger, experiment, seeds)
    if analysis is None:
        readings, images = runner.ghost_readings(experiment, seeds), runner.images(experiment, "train")
        analyse_ghosts(experiment, readings, images, runner.ledger, folder, report)
    elif not all((folder / file).is_file() for file in analysis.facts["files"]):
        redraw_doubtful(experiment, analysis, runner.images(experiment, "train"), runner.ledger, folder, report)
