"""`hitnet plot`: how the training of one run or several went."""

from __future__ import annotations

import os
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
    folders = list(dict.fromkeys(run.resolve() for run in runs))
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):  # then by what tells them apart
        shared = os.path.commonpath(folders)
        names = [str(folder.relative_to(shared)) for folder in folders]
    histories = {name: RunFolder(folder).history() for name, folder in zip(names, folders, strict=True)}
    say_written(plots.save([plots.history_figure(histories)], out))
