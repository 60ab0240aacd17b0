"""Training curves: error and loss over the epochs, of one run or of several in one figure."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from hitnet.errors import HitNetError
from hitnet.plots.sheet import blank_figure, fitting, tidy
from hitnet.plots.style import BLUE, INK, RED, SOFT, WIDTH
from hitnet.training.run_folder import RunFolder

Histories = Mapping[str, list[dict[str, Any]]]
COLOURS = (BLUE, RED, "#4f8a5b", "#8a5fa8", "#c28a2b", "#3f9aa6", "#7a6a5c", "#c2608f")
WIDE_SPAN = 10.0  # above this ratio of the highest to the lowest value, the scale is logarithmic


def plot_history(runs: Sequence[str | Path]) -> Figure:
    """Error and loss over the epochs of run folders, finished or still in training."""
    for run in runs:
        RunFolder(run).config()  # raises for a folder that is no run
    folders = list(dict.fromkeys(Path(run).resolve() for run in runs))
    names = [folder.name for folder in folders]
    if len(set(names)) < len(names):  # then by what tells them apart
        shared = os.path.commonpath(folders)
        names = [str(folder.relative_to(shared)) for folder in folders]
    return history_figure({name: RunFolder(folder).history() for name, folder in zip(names, folders, strict=True)})


def history_figure(histories: Histories) -> Figure:
    """Two panels over the epochs, error and loss, with one colour per run; histories are by the name to show."""
    if not histories:
        raise HitNetError("histories must have at least one run; got none.")
    empty = [name for name, rows in histories.items() if not rows]
    if empty:
        raise HitNetError(
            f"There are no epochs to draw of {', '.join(empty)}. A run writes its history with its first checkpoint."
        )
    figure = blank_figure(WIDTH, 2.75 + 0.17 * len(histories))
    left, right = figure.subplots(1, 2)
    draw_error(left, histories)
    draw_loss(right, histories)
    # The legend does not use the lines' labels: matplotlib ignores those that begin with "_".
    names = [fitting(name, WIDTH - 0.7, size=7) for name in histories]
    legend = figure.legend(right.lines, names, loc="outside lower center", fontsize=7, frameon=False)
    for text in legend.get_texts():
        text.set(color=INK, parse_math=False)
    return figure


def draw_error(axes: Axes, histories: Histories) -> Axes:
    """Draw test errors as solid lines and training errors as dotted lines."""
    _draw(axes, histories, "train_error", 100, linewidth=0.9, linestyle=(0, (1, 1.2)), alpha=0.8)
    tested = _draw(axes, histories, "test_error", 100, linewidth=1.4)
    return _finish(axes, "error, % (dotted: in training)" if tested else "error in training, %")


def draw_loss(axes: Axes, histories: Histories) -> Axes:
    """Draw the training loss: classification plus weighted reconstruction."""
    _draw(axes, histories, "loss", linewidth=1.4)
    return _finish(axes, "training loss")


def colours(count: int) -> list[Any]:
    """`count` different colours: the usual ones, or a rainbow if there are not enough of them."""
    return list(COLOURS[:count] if count <= len(COLOURS) else colormaps["turbo"](np.linspace(0.05, 0.95, count)))


def _draw(axes: Axes, histories: Histories, key: str, factor: float = 1, **style: Any) -> bool:
    """Draw one line per run whose history has `key`, times a factor; return whether there is any."""
    drawn = False
    for (name, rows), colour in zip(histories.items(), colours(len(histories)), strict=True):
        points = [(row["epoch"], factor * row[key]) for row in rows if key in row]
        if points:
            marker = "." if len(points) == 1 else ""  # a single epoch would be an invisible line
            axes.plot(*zip(*points, strict=True), label=name, color=colour, marker=marker, **style)
            drawn = True
    return drawn


def _finish(axes: Axes, title: str) -> Axes:
    values = np.concatenate([np.zeros(0), *(np.asarray(line.get_ydata(), dtype=float) for line in axes.lines)])
    positive = values[values > 0]  # a logarithmic scale cannot show an error of 0
    if len(positive) and positive.max() > WIDE_SPAN * positive.min():
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(axis="y", color=SOFT, alpha=0.2, linewidth=0.5)
    return tidy(axes, title=title, x="epoch", sides=("left", "bottom"))
