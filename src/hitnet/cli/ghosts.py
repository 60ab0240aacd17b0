"""`hitnet ghosts`: the paper's analysis of ghost capsules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hitnet.cli.options import AuditSplit, DataDir, Device
from hitnet.cli.terminal import console, print_written
from hitnet.errors import HitNetError
from hitnet.plots.ghosts import MOST_DRAWN, write_ghosts
from hitnet.runtime.files import check_vacant
from hitnet.training import analyse_ghosts

app = typer.Typer()


@app.command("ghosts")
def ghosts_command(
    words: Annotated[list[str], typer.Argument(metavar="RUNS... DATA", help="Run folders, then the data")],
    out: Annotated[Path, typer.Option(help="Folder for tables and pictures")] = Path("ghosts"),
    split: AuditSplit = None,
    device: Device = "auto",
    data_dir: DataDir = None,
) -> None:
    """The paper's analysis of ghost capsules over several runs: agreement, pairs, distances, doubtful images."""
    if len(words) < 2:
        raise HitNetError("Give at least one run folder and then the data, e.g. `hitnet ghosts runs/a runs/b mnist`.")
    *folders, data = words
    check_vacant(out)
    ghosts, images = analyse_ghosts(folders, data, split=None if split is None else str(split), device=device)
    written = write_ghosts(ghosts, images, out)
    networks = "the network" if ghosts.models == 1 else f"all {ghosts.models} networks"
    console.print(
        f"{images.name}: {len(ghosts.agreed()):,} of {len(images):,} images have one ghost class in {networks}; "
        f"{len(ghosts.doubtful()):,} of these are doubtful (mean distance within the hit zone)",
    )
    print_written(written)
    if len(ghosts.doubtful()) > MOST_DRAWN:
        console.print(f"The pictures show the {MOST_DRAWN} images with the most hits; doubtful.csv has all.")
