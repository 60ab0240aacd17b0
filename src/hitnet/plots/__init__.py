"""Figures: what a network has learned, what the ghosts show, how training went.

Each function returns matplotlib figures, one per page. `save` writes them as PNG, SVG, PDF, or any other type that
matplotlib supports.
"""

from hitnet.plots.ghosts import analysis_figure as analysis_figure
from hitnet.plots.ghosts import doubtful_figures as doubtful_figures
from hitnet.plots.ghosts import write_ghosts as write_ghosts
from hitnet.plots.history import draw_error as draw_error
from hitnet.plots.history import history_figure as history_figure
from hitnet.plots.history import plot_history as plot_history
from hitnet.plots.sheet import check_file_type as check_file_type
from hitnet.plots.sheet import class_figures as class_figures
from hitnet.plots.sheet import draw_image as draw_image
from hitnet.plots.sheet import save as save
from hitnet.plots.sheet import tile_figures as tile_figures
from hitnet.plots.synthesis import distribution_figures as distribution_figures
from hitnet.plots.synthesis import draw_distribution as draw_distribution
from hitnet.plots.synthesis import hybrid_figures as hybrid_figures
from hitnet.plots.synthesis import prototype_figures as prototype_figures
from hitnet.plots.synthesis import traversal_figures as traversal_figures
