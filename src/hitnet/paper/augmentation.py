"""The figure of hybrid augmentation: two images of Fashion-MNIST, each with 23 modifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hitnet import plots, synthesis
from hitnet.paper import pictures
from hitnet.paper.book import Drawing, Result
from hitnet.synthesis.distributions import run_images

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES, STRENGTH = 2, 1.0  # the paper's noise: m/√n


def draw(from_: Drawing) -> list[Figure]:
    images = run_images(from_.run, data_dir=from_.data_dir).select(range(EXAMPLES))
    found = synthesis.hybrid_examples(from_.run, images, strength=STRENGTH, device=from_.device)
    return plots.hybrid_figures(found)


RESULT = Result(
    "augmentation",
    "Examples of hybrid augmentation",
    "the figure of hybrid augmentation, section 3.2",
    ("fashion-hitnet",),
    pictures.render,
    draw,
)
