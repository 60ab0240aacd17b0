"""The figure of the centripetal loss: over the distance from the centre, and on the plane (capsules of size 2)."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle

from hitnet.capsules import CENTRE, HIT_RADIUS, MISS_RADIUS
from hitnet.losses import centripetal_loss
from hitnet.plots.sheet import BLUE, INK, SOFT, WIDTH, blank_figure, tidy

POINTS, PIXELS = 1_000, 300
FARTHEST = 2.0  # √n/2 for capsules of 16 components


def loss_figure() -> Figure:
    """Four panels: the loss of the true class and of another class, over the distance and on the plane (n = 2)."""
    figure = blank_figure(WIDTH, WIDTH * 0.85)
    for column, (true, title) in enumerate(((True, "capsule of the true class"), (False, "another capsule"))):
        draw_loss_over_distance(figure.add_subplot(2, 2, 1 + column), true=true).set_title(
            title, fontsize=8, color=INK, loc="left"
        )
        draw_loss_on_plane(figure.add_subplot(2, 2, 3 + column), true=true)
    return figure


def class_loss(distances: np.ndarray, *, true: bool) -> np.ndarray:
    """The paper's loss of a capsule of the true class, or of another class, at each distance; any shape."""
    values = torch.from_numpy(distances.reshape(-1, 1))
    return centripetal_loss(values, torch.full_like(values, true, dtype=torch.bool)).numpy().reshape(distances.shape)


def draw_loss_over_distance(axes: Axes, *, true: bool) -> Axes:
    """Draw the loss over the distance of the capsule from the centre, and the edge of the zone without loss."""
    distances = np.linspace(0, FARTHEST, POINTS)
    axes.plot(distances, class_loss(distances, true=true), color=BLUE, linewidth=1.4)
    edge, name = (HIT_RADIUS, "m") if true else (MISS_RADIUS, "m'")
    axes.axvline(edge, color=SOFT, linewidth=0.7, linestyle=(0, (4, 3)))
    axes.annotate(f"{name} = {edge}", (edge, axes.get_ylim()[1]), (3, -8), textcoords="offset points", fontsize=6.5)
    return tidy(axes, x="distance from the centre", y="loss", sides=("left", "bottom"))


def draw_loss_on_plane(axes: Axes, *, true: bool) -> Axes:
    """Draw the loss of capsules of two components as colours, with a circle around the hit zone or the miss zone.

    The plane reaches beyond [0, 1]: within it, no capsule of two components is as far as m' = 0.9.
    """
    side = np.linspace(CENTRE - 1, CENTRE + 1, PIXELS)
    distances = np.hypot(side[None, :] - CENTRE, side[:, None] - CENTRE)
    reach = (side[0], side[-1])
    axes.imshow(class_loss(distances, true=true), extent=(*reach, *reach), origin="lower", cmap="viridis_r")
    radius = HIT_RADIUS if true else MISS_RADIUS
    axes.add_patch(Circle((CENTRE, CENTRE), radius, fill=False, edgecolor="black", linewidth=1.0))
    return tidy(axes, x="component 1", y="component 2")
