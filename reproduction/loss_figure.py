"""The paper's figure of the centripetal loss, which drives capsules to the centre or away from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from hitnet import centripetal_loss
from hitnet.capsules import CENTRE, HIT_RADIUS, MISS_RADIUS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, BLUE = "#22262b", "#6c737d", "#3a6ea5"  # as hitnet.plots has them
WIDTH = 6.8
POINTS, PIXELS = 1_000, 300
FARTHEST = 2.0  # √n/2 for capsules of 16 components


def loss_figure() -> Figure:
    """Four panels: the loss of the true class and of another class, over the distance and on the plane (n = 2)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, WIDTH * 0.85), facecolor="white", layout="constrained")
    for column, (true, title) in enumerate(((True, "capsule of the true class"), (False, "another capsule"))):
        draw_over_distance(figure.add_subplot(2, 2, 1 + column), true=true).set_title(
            title, fontsize=8, color=INK, loc="left"
        )
        draw_on_plane(figure.add_subplot(2, 2, 3 + column), true=true)
    return figure


def class_loss(lengths: np.ndarray, *, true: bool) -> np.ndarray:
    """The paper's loss of a capsule of the true class, or of another class, at each distance; any shape."""
    values = torch.from_numpy(lengths.reshape(-1, 1))
    return centripetal_loss(values, torch.full_like(values, true, dtype=torch.bool)).numpy().reshape(lengths.shape)


def draw_over_distance(axes: Axes, *, true: bool) -> Axes:
    """Draw the loss over the distance of the capsule from the centre, and the edge of the zone without loss."""
    lengths = np.linspace(0, FARTHEST, POINTS)
    axes.plot(lengths, class_loss(lengths, true=true), color=BLUE, linewidth=1.4)
    edge, name = (HIT_RADIUS, "m") if true else (MISS_RADIUS, "m'")
    axes.axvline(edge, color=SOFT, linewidth=0.7, linestyle=(0, (4, 3)))
    axes.annotate(f"{name} = {edge}", (edge, axes.get_ylim()[1]), (3, -8), textcoords="offset points", fontsize=6.5)
    for side, spine in axes.spines.items():
        spine.set(visible=side in ("left", "bottom"), color=SOFT, linewidth=0.5)
    return tidy(axes, "distance from the centre", "loss")


def draw_on_plane(axes: Axes, *, true: bool) -> Axes:
    """Draw the loss of capsules of two components as colours, with a circle around the hit zone or the miss zone.

    The plane reaches beyond [0, 1]: within it, no capsule of two components is as far as m' = 0.9.
    """
    from matplotlib.patches import Circle

    side = np.linspace(CENTRE - 1, CENTRE + 1, PIXELS)
    lengths = np.hypot(side[None, :] - CENTRE, side[:, None] - CENTRE)
    reach = (side[0], side[-1])
    axes.imshow(class_loss(lengths, true=true), extent=(*reach, *reach), origin="lower", cmap="viridis_r")
    radius = HIT_RADIUS if true else MISS_RADIUS
    axes.add_patch(Circle((CENTRE, CENTRE), radius, fill=False, edgecolor="black", linewidth=1.0))
    return tidy(axes, "component 1", "component 2")


def tidy(axes: Axes, x: str, y: str) -> Axes:
    """Give axes names and small ticks."""
    axes.set_xlabel(x, fontsize=7, color=SOFT)
    axes.set_ylabel(y, fontsize=7, color=SOFT)
    axes.tick_params(which="both", labelsize=6.5, colors=SOFT, length=2, width=0.5)
    return axes
