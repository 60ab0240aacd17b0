"""The figure of prototypes: each class's central capsule, decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hitnet import plots, synthesis
from hitnet.paper import pictures
from hitnet.paper.book import Drawing, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(from_: Drawing) -> list[Figure]:
    return plots.prototype_figures(synthesis.prototypes(from_.run, device=from_.device))


RESULT = Result(
    "prototypes",
    "Prototypes of the digits",
    "the figure of prototypes, section 3.2",
    ("mnist-hitnet-constant",),
    pictures.render,
    draw,
)
