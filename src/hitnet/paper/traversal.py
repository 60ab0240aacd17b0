"""What the components of a capsule draw: the central capsule of one class, swept over [0.5 − 2m/√n, 0.5 + 2m/√n]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hitnet import plots, synthesis
from hitnet.paper import pictures
from hitnet.paper.book import Drawing, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLASS = 3  # any would do: the paper speaks of all


def draw(from_: Drawing) -> list[Figure]:
    names = from_.run.class_names
    name = names[min(CLASS, len(names) - 1)]
    return plots.traversal_figures(synthesis.traverse(from_.run, name, device=from_.device))


RESULT = Result(
    "traversal",
    "What the components of a capsule draw",
    "section 3.2",
    ("mnist-hitnet-constant",),
    pictures.render,
    draw,
)
