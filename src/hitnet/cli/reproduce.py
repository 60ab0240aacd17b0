"""`hitnet reproduce`: the paper's results, from the list to the page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hitnet import paper
from hitnet.cli.options import DataDir, Device
from hitnet.cli.progress import training_progress
from hitnet.cli.terminal import console, make_table
from hitnet.errors import HitNetError
from hitnet.paper.cost import device_name, in_words
from hitnet.paper.ledger import SHORT
from hitnet.paper.markdown import made_of
from hitnet.paper.origin import source_root
from hitnet.paper.records import full_runs
from hitnet.training.device import pick_device

PACKAGED = Path(paper.__file__).parent / "ledger.jsonl"


app = typer.Typer()


@app.command("reproduce")
def reproduce_command(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="Results or experiments (see --list), or all")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List all results, their cost here, and their progress")
    ] = False,
    render: Annotated[bool, typer.Option("--render", help="Write results.md and its figures from the ledger")] = False,
    runs: Annotated[int | None, typer.Option(help="N runs per experiment, instead of its own number")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Shorten the runs; short runs are kept apart and not counted")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Train and test only on the first N images; not counted either")
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Minutes; no run starts that would not end in time")] = None,
    side_by_side: Annotated[
        int | None, typer.Option(help="Networks to train at once (default: 8 on a GPU, 1 on a CPU)")
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    runs_dir: Annotated[Path, typer.Option(help="Folder for the run folders")] = Path("runs/paper"),
    ledger: Annotated[Path | None, typer.Option(help="Ledger file (default: the repository's own)")] = None,
    docs: Annotated[
        Path | None, typer.Option(help="Folder of the page and its figures (default: docs; for FILE.jsonl: FILE-docs)")
    ] = None,
) -> None:
    """Reproduce the paper: do the missing runs, and render every table and figure from the ledger.

    \b
    hitnet reproduce --list                   all results, their cost on this machine, their progress
    hitnet reproduce table1-constant --budget 25
    hitnet reproduce squash mnist-n1-decay    several at once; a GPU trains them side by side
    hitnet reproduce --render                 write docs/results.md

    If it is interrupted, the same command continues it, here or on another machine.
    """
    if [bool(names), list_, render].count(True) != 1:
        raise HitNetError("Give one of: a NAME to reproduce, --list to see the names, --render to write the page.")
    for_runs = {"runs": runs, "epochs": epochs, "limit": limit, "budget": budget, "side-by-side": side_by_side}
    misplaced = [f"--{option}" for option, value in for_runs.items() if value is not None and not names]
    if misplaced:
        raise HitNetError(f"{', '.join(misplaced)} goes with the NAME of a result; see `hitnet reproduce --list`.")
    book = paper.PAPER
    kept = paper.Ledger(ledger_path(ledger, writing=bool(names)))
    if render and not kept.path.exists():
        raise HitNetError(f"There is no ledger {kept.path}; the page would lose every run. Is the name right?")
    folder = docs or docs_folder(kept.path)
    if list_:
        print_list(book, kept, device)
    elif not names:
        console.print(f"written: {paper.render(book, kept, folder)}", soft_wrap=True)
    else:
        for name in names:
            book.of(name)
        with training_progress(f"Reproducing {', '.join(names)}") as bar:
            outcome = paper.reproduce(
                *names,
                book=book,
                ledger=kept,
                docs=folder,
                runs=runs,
                epochs=epochs,
                limit=limit,
                budget=budget,
                data_dir=data_dir,
                device=device,
                runs_dir=runs_dir,
                side_by_side=side_by_side,
                progress=bar,
                say=lambda text: console.print(text, soft_wrap=True),
            )
        print_outcome(outcome, kept)


def ledger_path(given: Path | None, *, writing: bool) -> Path:
    """The file that was named, or the package's own; the latter is written only in a repository."""
    if given is not None:
        return given
    if writing and source_root() is None:
        raise HitNetError(
            "This hitnet is installed, not run from its repository, so its own ledger is not changed. Name a file of "
            "yours (--ledger FILE)."
        )
    return PACKAGED


def docs_folder(ledger: Path) -> Path:
    """The repository's documents for its own ledger; another ledger has a folder beside it."""
    root = source_root()
    if ledger.resolve() != PACKAGED.resolve():
        return ledger.with_name(f"{ledger.stem}-docs")
    return Path("docs") if root is None else root / "docs"


def print_list(book: paper.Book, ledger: paper.Ledger, device: str) -> None:
    here = device_name(pick_device(device))
    costs = book.costs(here, ledger)
    table = make_table("name", "what it is", "in the paper", "runs", "left to do here")
    for name, result in book.results.items():
        now = paper.standing(book, name, ledger, costs)
        left = in_words(now.seconds) if now.done < now.wanted else "done"
        table.add_row(name, result.title, result.where, f"{now.done} of {now.wanted}", left)
    table.add_section()
    for name, experiment in book.experiments.items():
        now = paper.standing(book, name, ledger, costs)
        planned = made_of(max(now.done, len(full_runs(ledger, experiment))), experiment.wanted)
        short = len(ledger.of(SHORT, name))
        left = f"{in_words(costs.seconds(experiment))} per run, {experiment.epochs} epochs"
        table.add_row(f"  {name}", experiment.title, f"{short} short, not counted" if short else "", planned, left)
    console.print(f"Results, and below them the experiments that they consist of; costs are estimates for {here}.")
    console.print(table)


def print_outcome(outcome: paper.Outcome, ledger: paper.Ledger) -> None:
    console.print(f"{len(outcome.done)} done, {len(outcome.left)} left; ledger: {ledger.path}", soft_wrap=True)
    if outcome.left:
        console.print("Use the same command to continue." if outcome.begun else "Nothing was started; see above why.")
    if outcome.failed:
        raise HitNetError(f"{len(outcome.failed)} failed: {'; '.join(outcome.failed)}")
