"""Figures: what a network has learned, what the ghosts show, how training went.

Each function returns matplotlib figures, one per page. `save` writes them as PNG, SVG, PDF, or any other type that
matplotlib supports.
"""

from hitnet.plots.capsules import capsule_figure
from hitnet.plots.ghosts import analysis_figure, doubtful_figures, write_ghosts
from hitnet.plots.history import draw_error, draw_loss, history_figure, plot_history
from hitnet.plots.sheet import check_file_type, class_figures, draw_image, save, tile_figures
from hitnet.plots.synthesis import (
    distribution_figures,
    draw_distribution,
    hybrid_figures,
    prototype_figures,
    traversal_figures,
)

__all__ = [
    "analysis_figure",
    "capsule_figure",
    "check_file_type",
    "class_figures",
    "distribution_figures",
    "doubtful_figures",
    "draw_distribution",
    "draw_error",
    "draw_image",
    "draw_loss",
    "history_figure",
    "hybrid_figures",
    "plot_history",
    "prototype_figures",
    "save",
    "tile_figures",
    "traversal_figures",
    "write_ghosts",
]
