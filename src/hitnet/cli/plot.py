"""`hitnet plot`: how the training of one run or several went."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hitnet import plots
from hitnet.cli.synthesis import Picture, say_written
from hitnet.training import RunFolder


def register(app: typer.Typer) -> None:
    app.command("plot")(plot_command)


def plot_command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, finished or still in training", metavar="RUN")],
    out: Picture,
) -> None:
    """Draw error and loss over the epochs of one run, or of several to compare them."""
    plots.check_file_type(out)
    for run in runs:
        RunFolder(run).config()  # says what is wrong with a folder that is no run
    names = [run.resolve().name for run in runs]
    if len(set(names)) < len(names):
        names = [str(run) for run in runs]
    histories = {name: RunFolder(run).history() for name, run in zip(names, runs, strict=True)}
    say_written(plots.save([plots.history_figure(histories)], out))
