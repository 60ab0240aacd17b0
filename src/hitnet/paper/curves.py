"""The figure beside table 1: mean test error over the epochs of the four networks, constant rate."""

from __future__ import annotations

import numpy as np

from hitnet import plots
from hitnet.paper.book import Page, Result
from hitnet.paper.pictures import FOLDER
from hitnet.paper.table1 import CONSTANT, NETWORKS

IMAGE = FOLDER / "curves.png"


def render(page: Page) -> str:
    histories, lines = {}, []
    for network, title in NETWORKS.items():
        name = f"mnist-{network}-constant"
        records = page.records(name)
        if not records:
            lines.append(f"- {title}: {page.missing(name)}")
            continue
        mean = np.mean([record.errors for record in records], axis=0)
        label = f"{title}, mean of {len(records)} run{'s' if len(records) > 1 else ''}"
        histories[label] = [{"epoch": i, "test_error": float(error)} for i, error in enumerate(mean, start=1)]
        lines.append(f"- {label}")
    if not histories:
        return "\n".join(["There is nothing to draw yet.", "", *lines, ""])
    draw(page, histories)
    return "\n".join([f"![Mean test error over the epochs]({IMAGE.as_posix()})", "", *lines, ""])


def draw(page: Page, histories: dict[str, list[dict[str, float]]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(plots.sheet.WIDTH, 3.4), facecolor="white", layout="constrained")
    axes = plots.draw_error(figure.subplots(), histories)
    axes.set_title("mean test error on MNIST, %, constant learning rate", fontsize=8, loc="left")
    axes.legend(fontsize=7, frameon=False)
    plots.save([figure], page.docs / IMAGE)


RESULT = Result("curves", "Error over the epochs", "the figure beside table 1", CONSTANT.experiments, render)
