"""`python -m reproduction`: list the paper's results, make their runs, write the page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import reproduction as paper
from hitnet import HitNetError
from hitnet.cli import console, make_table
from hitnet.runtime import pick_device, shown
from reproduction.cells import runs_text
from reproduction.cost import device_name, duration_text
from reproduction.ledger import SHORT, describe_entry
from reproduction.ledger import repair as repair_ledger
from reproduction.missing_runs import OWN_LEDGER
from reproduction.provenance import LABORATORY, unheld_sources
from reproduction.records import full_runs


def use_data_dir(folder: Path | None) -> Path | None:
    """Let hitnet look for known sets in this folder."""
    if folder is not None:
        os.environ["HITNET_DATA"] = str(folder)
    return folder


Names = Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="Results or experiments (see --list), or all")]
ListAll = Annotated[
    bool, typer.Option("--list", help="List all results, how far they are, and the time left on this machine")
]
Render = Annotated[bool, typer.Option("--render", help="Write README.md, results.md and their figures from the ledger")]
CheckSources = Annotated[
    bool,
    typer.Option("--check-sources", help="List the ledger's lines whose sources no commit of this repository holds"),
]
Merge = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Add the lines of another ledger, if commits of this repository hold their sources"
    ),
]
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
Pages = Annotated[
    Path | None,
    typer.Option(help="Folder of the pages and figures (default: reproduction; with --ledger FILE.jsonl, FILE-pages)"),
]
Uncommitted = Annotated[
    bool,
    typer.Option("--uncommitted", help="Add runs to the own ledger although no commit holds the sources; they say so"),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder of the known sets (default: $HITNET_DATA, else the cache)", callback=use_data_dir),
]

app = typer.Typer()


@app.command()
def reproduce_command(
    names: Names = None,
    list_: ListAll = False,
    render: Render = False,
    merge: Merge = None,
    repair: Repair = False,
    check_sources: CheckSources = False,
    runs: Runs = None,
    epochs: Epochs = None,
    limit: Limit = None,
    budget: Budget = None,
    side_by_side: SideBySide = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    runs_dir: Annotated[Path, typer.Option(help="Folder for the run folders")] = Path("runs/paper"),
    ledger: LedgerFile = None,
    pages: Pages = None,
    uncommitted: Uncommitted = False,
) -> None:
    """Reproduce the paper: make the missing runs of the tables and figures that are rendered from the ledger.

    \b
    python -m reproduction --list                   results, progress and time left here
    python -m reproduction table1-constant --budget 25
    python -m reproduction squash mnist-n1-decay    several names, trained side by side
    python -m reproduction --render                 write reproduction/README.md and results.md

    After an interruption, the same command resumes the work, here or on another machine.
    """
    if [bool(names), list_, render, repair, check_sources, merge is not None].count(True) != 1:
        raise HitNetError(
            "Give one of: a NAME to reproduce, --list to see the names, --render to write the pages, --merge, "
            "--repair, --check-sources."
        )
    for_runs = {"runs": runs, "epochs": epochs, "limit": limit, "budget": budget, "side_by_side": side_by_side}
    if not names:
        refuse_misplaced({**for_runs, "uncommitted": uncommitted or None})
    path = ledger or OWN_LEDGER
    if repair:
        print_repaired(path)
        return
    book, opened = paper.PAPER, paper.Ledger(path)
    if (render or check_sources) and not opened.path.exists():
        raise HitNetError(f"There is no ledger {opened.path}. Check the name.")
    folder = pages or pages_folder(opened.path)
    if list_:
        print_list(book, opened, device)
    elif merge is not None:
        merge_ledger(paper.Ledger(merge), opened)
    elif check_sources:
        print_unheld(opened)
    elif render:
        for write in (paper.write_page, paper.write_summary):
            console.print(f"written: {write(book, opened, folder)}", soft_wrap=True)
    else:
        where = {"folder": folder, "device": device, "runs_dir": runs_dir, "uncommitted": uncommitted}
        make_runs(names or [], book=book, ledger=opened, **where, **for_runs)


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
            report=lambda text: console.print(text, soft_wrap=True),
            **options,
        )
    print_outcome(outcome, ledger)


def print_repaired(path: Path) -> None:
    torn = repair_ledger(path)
    said = f"removed the torn last line, which began with {torn[:100]!r}" if torn else "its last line is whole"
    console.print(f"{path}: {said}", soft_wrap=True)


def pages_folder(ledger: Path) -> Path:
    """The laboratory itself for its own ledger, a folder beside it for another."""
    return LABORATORY if ledger.resolve() == OWN_LEDGER else ledger.with_name(f"{ledger.stem}-pages")


def print_unheld(ledger: paper.Ledger) -> None:
    """Print the lines that name sources which no commit of this repository holds."""
    entries = [entry for entry in ledger.entries.values() if "code" in entry.facts]
    unheld = unheld_sources(entry.facts["code"] for entry in entries)
    for code in unheld:
        lines = [entry for entry in entries if entry.facts["code"] == code]
        names = ", ".join(sorted({entry.experiment for entry in lines}))
        console.print(f"{code}: {len(lines)} lines ({names})", soft_wrap=True)
    count = sum(entry.facts["code"] in unheld for entry in entries)
    console.print(f"{count} of {len(entries)} lines name sources that no commit of this repository holds.")


def merge_ledger(other: paper.Ledger, ledger: paper.Ledger) -> None:
    """Add the entries of another ledger, as a machine without git writes it."""
    if not other.path.exists():
        raise HitNetError(f"There is no ledger {other.path}. Check the name.")
    new = [entry for entry in other.entries.values() if ledger.entries.get(entry.key) != entry]
    if unheld := unheld_sources(entry.facts["code"] for entry in new if "code" in entry.facts):
        raise HitNetError(
            f"{other.path}: no commit of this repository holds the sources of {', '.join(unheld)}, so nothing was "
            "added. Commit them first."
        )
    for entry in new:
        if entry.key in ledger.entries:
            both = f"{other.path} and {ledger.path} both record {describe_entry(entry)}"
            raise HitNetError(f"{both}, differently. Nothing was added: remove the line from one of the two.")
    for entry in new:
        ledger.add(entry)
    console.print(f"{len(new)} new lines of {len(other.entries)}; ledger: {ledger.path}", soft_wrap=True)


def print_list(book: paper.Book, ledger: paper.Ledger, device: str) -> None:
    here = device_name(pick_device(device))
    costs = book.costs(here, ledger)
    table = make_table("name", "what it is", "in the paper", "runs of plan", "left of plan here")
    for name, result in book.results.items():
        now = paper.completion(book, name, ledger, costs)
        left = duration_text(now.seconds) if now.done < now.wanted else "done"
        table.add_row(name, result.title, result.where, f"{now.done} of {now.wanted}", left)
    table.add_section()
    for name, experiment in book.experiments.items():
        now = paper.completion(book, name, ledger, costs)
        planned = runs_text(max(now.done, len(full_runs(ledger, experiment))), experiment.wanted)
        short = len(ledger.select(SHORT, name))
        left = f"{duration_text(costs.seconds(experiment))} per run, {experiment.epochs} epochs"
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
