"""`python -m reproduction`: list the paper's results, make their runs, write the page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import reproduction as paper
from hitnet.cli.options import DataDir, Device
from hitnet.cli.terminal import console, make_table
from hitnet.errors import HitNetError
from hitnet.runtime.bar import shown
from hitnet.runtime.device import pick_device
from reproduction.cost import device_name, in_words
from reproduction.ledger import SHORT, source_root
from reproduction.ledger import repair as repair_ledger
from reproduction.page import made_of
from reproduction.records import full_runs

PACKAGED = Path(paper.__file__).parent / "ledger.jsonl"
Names = Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="Results or experiments (see --list), or all")]
ListAll = Annotated[
    bool, typer.Option("--list", help="List all results, how far they are, and the time left on this machine")
]
Render = Annotated[bool, typer.Option("--render", help="Write results.md and its figures from the ledger")]
Repair = Annotated[
    bool, typer.Option("--repair", help="Remove the torn last line that a crash or a full disk left in the ledger")
]
Runs = Annotated[int | None, typer.Option(metavar="N", help="Make N runs of each experiment instead of its own number")]
Epochs = Annotated[
    int | None,
    typer.Option(metavar="N", help="Shorten the runs to N epochs; short runs are kept apart and never counted"),
]
Limit = Annotated[
    int | None,
    typer.Option(metavar="N", help="Train and test only on the first N images; these runs are never counted either"),
]
Budget = Annotated[float | None, typer.Option(help="Minutes; a run that would not fit is not started")]
SideBySide = Annotated[
    int | None, typer.Option(metavar="N", help="Train N networks at once (default: 8 on a GPU, 1 on a CPU)")
]
LedgerFile = Annotated[Path | None, typer.Option(help="Ledger file (default: the repository's own)")]
Docs = Annotated[
    Path | None,
    typer.Option(help="Folder of the page and its figures (default: docs; with --ledger FILE.jsonl, FILE-docs)"),
]

app = typer.Typer()


@app.command()
def reproduce_command(
    names: Names = None,
    list_: ListAll = False,
    render: Render = False,
    repair: Repair = False,
    runs: Runs = None,
    epochs: Epochs = None,
    limit: Limit = None,
    budget: Budget = None,
    side_by_side: SideBySide = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    runs_dir: Annotated[Path, typer.Option(help="Folder for the run folders")] = Path("runs/paper"),
    ledger: LedgerFile = None,
    docs: Docs = None,
) -> None:
    """Reproduce the paper: make the missing runs of the tables and figures that are rendered from the ledger.

    \b
    python -m reproduction --list                   results, progress and time left here
    python -m reproduction table1-constant --budget 25
    python -m reproduction squash mnist-n1-decay    several names, trained side by side
    python -m reproduction --render                 write docs/results.md

    After an interruption, the same command resumes the work, here or on another machine.
    """
    if [bool(names), list_, render, repair].count(True) != 1:
        raise HitNetError(
            "Give one of: a NAME to reproduce, --list to see the names, --render to write the page, --repair."
        )
    for_runs = {"runs": runs, "epochs": epochs, "limit": limit, "budget": budget, "side_by_side": side_by_side}
    if not names:
        refuse_misplaced(for_runs)
    if repair:
        print_repaired(ledger_path(ledger, writing=True))
        return
    book = paper.PAPER
    opened = paper.Ledger(ledger_path(ledger, writing=bool(names)))
    if render and not opened.path.exists():
        raise HitNetError(f"There is no ledger {opened.path}, so the page would be empty. Check the name.")
    folder = docs or docs_folder(opened.path)
    if list_:
        print_list(book, opened, device)
    elif not names:
        console.print(f"written: {paper.write_page(book, opened, folder)}", soft_wrap=True)
    else:
        make_runs(names, book=book, ledger=opened, docs=folder, device=device, runs_dir=runs_dir, **for_runs)


def refuse_misplaced(for_runs: Mapping[str, object]) -> None:
    """Raise if options for runs were given without the name of a result."""
    misplaced = [f"--{name.replace('_', '-')}" for name, value in for_runs.items() if value is not None]
    if misplaced:
        raise HitNetError(f"{', '.join(misplaced)} needs the NAME of a result; see `python -m reproduction --list`.")


def make_runs(names: list[str], *, book: paper.Book, ledger: paper.Ledger, **options: Any) -> None:
    """Make the missing runs of results or experiments, and print what was done."""
    for name in names:
        book.look_up(name)
    with shown(True, f"Reproducing {', '.join(names)}") as bar:
        outcome = paper.reproduce(
            *names,
            book=book,
            ledger=ledger,
            progress=bar,
            say=lambda text: console.print(text, soft_wrap=True),
            **options,
        )
    print_outcome(outcome, ledger)


def print_repaired(path: Path) -> None:
    torn = repair_ledger(path)
    said = f"removed the torn last line, which began with {torn[:100]!r}" if torn else "its last line is whole"
    console.print(f"{path}: {said}", soft_wrap=True)


def ledger_path(given: Path | None, *, writing: bool) -> Path:
    """The given file, or the package's own ledger, which is only written to in its repository."""
    if given is not None:
        return given
    if writing and source_root() is None:
        raise HitNetError("An installed hitnet does not change its own ledger. Name a file of your own: --ledger FILE.")
    return PACKAGED


def docs_folder(ledger: Path) -> Path:
    """The repository's docs for the package's own ledger, a folder beside it for another."""
    root = source_root()
    if ledger.resolve() != PACKAGED.resolve():
        return ledger.with_name(f"{ledger.stem}-docs")
    return Path("docs") if root is None else root / "docs"


def print_list(book: paper.Book, ledger: paper.Ledger, device: str) -> None:
    here = device_name(pick_device(device))
    costs = book.costs(here, ledger)
    table = make_table("name", "what it is", "in the paper", "runs of plan", "left of plan here")
    for name, result in book.results.items():
        now = paper.standing(book, name, ledger, costs)
        left = in_words(now.seconds) if now.done < now.wanted else "done"
        table.add_row(name, result.title, result.where, f"{now.done} of {now.wanted}", left)
    table.add_section()
    for name, experiment in book.experiments.items():
        now = paper.standing(book, name, ledger, costs)
        planned = made_of(max(now.done, len(full_runs(ledger, experiment))), experiment.wanted)
        short = len(ledger.select(SHORT, name))
        left = f"{in_words(costs.seconds(experiment))} per run, {experiment.epochs} epochs"
        table.add_row(f"  {name}", experiment.title, f"{short} short, not counted" if short else "", planned, left)
    console.print(f"Results, then the experiments behind them; times are estimates for {here}.")
    console.print(table)


def print_outcome(outcome: paper.Outcome, ledger: paper.Ledger) -> None:
    console.print(f"{len(outcome.done)} done, {len(outcome.left)} left; ledger: {ledger.path}", soft_wrap=True)
    if outcome.left:
        console.print(
            "Repeat the command to continue." if outcome.begun else "Nothing was started; the reasons are above."
        )
    if outcome.failed:
        raise HitNetError(f"{len(outcome.failed)} failed: {'; '.join(outcome.failed)}")
