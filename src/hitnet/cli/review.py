"""`hitnet review AUDIT`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from hitnet.cli.options import DataDir
from hitnet.cli.terminal import console, plural
from hitnet.review import serve_review

app = typer.Typer()


@app.command("review")
def review_command(
    folder: Annotated[Path, typer.Argument(metavar="AUDIT", help="A folder that `hitnet audit` wrote")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen (default: any free port)")] = 0,
    reviewer: Annotated[str | None, typer.Option(help="Who decides (default: the name of the user)")] = None,
    count: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="How many labels are wrong? Judge N images, drawn for a count"),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser")] = True,
    data: Annotated[str | None, typer.Option(help="Where the audited data is now, if it has moved")] = None,
    data_dir: DataDir = None,
) -> None:
    """Review an audit in the browser: decide on many images at once, saved as you go.

    \b
    The page is served to this machine only. Every decision is written to
    AUDIT/decisions.jsonl before the page shows it as saved. Then write the
    corrected data:
    hitnet apply AUDIT --out NEW
    """

    def ready(address: str) -> None:
        console.print(f"review page: {address}", soft_wrap=True)
        console.print("Decisions are saved as they are made. Press Ctrl-C to stop.")

    decided = serve_review(
        folder, port=port, reviewer=reviewer, data=data, count=count, open_browser=open_browser, ready=ready
    )
    if not decided:
        console.print("No decisions yet.")
        return
    moved = "" if data is None else f" --data {shlex.quote(data)}"
    apply = f"hitnet apply {shlex.quote(str(folder))} --out NEW{moved}"
    saved = plural(decided, "decision is saved", "decisions are saved")
    console.print(f"{saved}. To write the corrected data: {apply}", soft_wrap=True)
