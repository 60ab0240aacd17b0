"""Draw docs/images/capsules.png: the capsules of test images of digits.

    python tools/draw_capsules.py

It trains the README's network on `mnist-sample` and draws the capsules of the 2,000 test images.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor

import hitnet
from hitnet.capsules import CENTRE, HIT_RADIUS, MISS_RADIUS, distances, one_hot
from hitnet.plots import save
from hitnet.plots.sheet import WIDTH, blank_figure, tidy
from hitnet.plots.style import BLUE, INK, RED, SOFT

TARGET = Path(__file__).parents[1] / "docs" / "images" / "capsules.png"
MOST_DOTS = 4_000  # of each colour; more would only cover each other
BINS = 60


def capsule_figure(capsules: Tensor, labels: Tensor) -> Figure:
    """Two panels: capsules (B, K, n) in [0, 1] of images with labels (B,), around the centre, and their distances."""
    figure = blank_figure(WIDTH, WIDTH / 2)
    left, right = figure.subplots(1, 2)
    draw_capsules(left, capsules, labels)
    draw_capsule_distances(right, capsules, labels)
    right.legend(loc="upper center", fontsize=6.5, framealpha=1, edgecolor="none", labelcolor=INK)
    return figure


def split_capsules(capsules: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The capsules of the true classes (B, n), and all others (B (K - 1), n)."""
    true = one_hot(labels, capsules.shape[1])
    return capsules[true], capsules[~true]


def places_on_plane(capsules: Tensor) -> np.ndarray:
    """A point (N, 2) per capsule (N, n): at its true distance from the centre, in the direction of components 1 and 2.

    A plain projection would put most capsules that miss into the hit zone.
    """
    direction = torch.nn.functional.normalize(capsules[:, :2].double() - CENTRE, dim=1)
    return (direction * distances(capsules[:, None].double())).numpy()


def farthest(capsules: Tensor) -> float:
    """Where the drawings end: at the farthest capsule, but never within the miss zone's edge."""
    return 1.05 * max(float(distances(capsules).max()), MISS_RADIUS)


def draw_capsules(axes: Axes, capsules: Tensor, labels: Tensor) -> Axes:
    """Draw a dot per capsule around the centre, and circles around the hit zone and within the miss zone."""
    true, others = split_capsules(capsules, labels)
    for chosen, colour in ((others, SOFT), (true, BLUE)):
        x, y = places_on_plane(chosen[:: 1 + len(chosen) // MOST_DOTS]).T
        axes.scatter(x, y, s=2, alpha=0.35, color=colour, linewidths=0, rasterized=True)
    for radius, name in ((HIT_RADIUS, "m"), (MISS_RADIUS, "m'")):
        axes.add_patch(Circle((0, 0), radius, fill=False, edgecolor=RED, linewidth=1.0))
        label = axes.annotate(f"{name} = {radius}", (0, radius), (0, 4), textcoords="offset points", ha="center")
        label.set(fontsize=6.5, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1})
    reach = farthest(capsules)
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
    return tidy(axes, title="capsules around the centre", sides=tuple(axes.spines))


def draw_capsule_distances(axes: Axes, capsules: Tensor, labels: Tensor) -> Axes:
    """Draw how many percent of the capsules of the true class, and of the others, lie at each distance."""
    reach = farthest(capsules)
    parts = split_capsules(capsules, labels)
    for part, colour, name in zip(parts, (BLUE, SOFT), ("of the true class", "of other classes"), strict=True):
        values = distances(part[None].double())[0].numpy()
        weights = np.full(len(values), 100 / len(values))
        axes.hist(values, BINS, range=(0, reach), weights=weights, color=colour, alpha=0.75, label=f"capsules {name}")
    for radius in (HIT_RADIUS, MISS_RADIUS):
        axes.axvline(radius, color=RED, linewidth=1.0)
    title = "their distances; red: m and m'"
    return tidy(axes, title=title, x="distance from the centre", y="% of them", sides=("left", "bottom"))


def main() -> None:
    data = hitnet.open_data("mnist-sample")
    run, test = hitnet.train(data, device="cpu"), data.load("test")
    with torch.inference_mode():
        capsules = run.model(test.pixels / 255, reconstruct=False).capsules
    save([capsule_figure(capsules, test.labels)], TARGET)


if __name__ == "__main__":
    main()
