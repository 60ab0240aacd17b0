"""`hitnet plot`: how the training of one run or several went."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hitnet import plots
from hitnet.cli.options import Picture
from hitnet.cli.terminal import print_written
from hitnet.plots import plot_history

app = typer.Typer()


@app.command("plot")
def plot_command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, finished or still in training", metavar="RUN")],
    out: Picture,
) -> None:
    """Draw error and loss over the epochs of one run, or of several to compare them."""
    plots.check_file_type(out)
    print_written(plots.save([plot_history(runs)], out))
