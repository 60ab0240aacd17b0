"""Figures of the ghost analysis: agreement, pairs, distances, and the doubtful images as in the paper."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hitnet.capsules import HIT_RADIUS
from hitnet.data.images import Images
from hitnet.inference.ghosts import Ghosts
from hitnet.plots.sheet import fitting, save, text_width, tile_figures, tile_width
from hitnet.plots.style import BLUE, INK, LABEL, RED, WIDTH
from hitnet.runtime import files, spreadsheets

MOST_DRAWN = 200  # largest number of doubtful images in a figure
MANY_COLUMNS, FEW_COLUMNS = 9, 5  # columns of doubtful images if their labels fit, and if names must be cut
MANY = 20  # with more classes, the cells of a matrix have no labels


def doubtful_figures(doubtful: pd.DataFrame, images: Images, *, most: int = MOST_DRAWN) -> list[Figure]:
    """At most N doubtful images of `Ghosts.doubtful`, those with the most hits, each under (label, ghost, hits)."""
    rows = doubtful.tail(most)
    facts = list(zip(rows["label"], rows["ghost"], rows["hits"], strict=True))
    labels, columns = [f"({label}, {ghost}, {hits})" for label, ghost, hits in facts], MANY_COLUMNS
    if any(text_width(label, LABEL) > tile_width(columns) for label in labels):
        columns = FEW_COLUMNS
        # Cut each name separately: a label that is cut as a whole would lose its ghost class and its hits.
        room = (tile_width(columns) - text_width(f"(, , {rows['hits'].max()})", LABEL)) / 2
        cut = {name: fitting(name, room, size=LABEL) for name in {*rows["label"], *rows["ghost"]}}
        labels = [f"({cut[label]}, {cut[ghost]}, {hits})" for label, ghost, hits in facts]
    return tile_figures(images.select(rows.index.tolist()).pixels, columns, labels=labels)


def analysis_figure(ghosts: Ghosts) -> Figure:
    """Three panels: agreement of the networks, pairs of classes where all agree, mean and spread of distances."""
    figure = Figure(figsize=(WIDTH * 1.6, 3.6), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    draw_agreement(left, ghosts)
    draw_pairs(middle, ghosts)
    draw_distances(right, ghosts)
    return figure


def draw_agreement(axes: Axes, ghosts: Ghosts) -> Axes:
    """Draw how many images have 1, 2, … different ghost classes."""
    agreement = ghosts.agreement()
    axes.bar(agreement["classes"], 100 * agreement["share"], color=BLUE)
    axes.set(xlabel="different ghost classes $N_c$", ylabel="% of the images", title=f"{ghosts.models} networks")
    axes.set_xticks(agreement["classes"])
    return axes


def draw_pairs(axes: Axes, ghosts: Ghosts) -> Axes:
    """Draw a matrix of (ghost class, true class), for the images on which all networks agree."""
    counts = ghosts.pairs(ghosts.agreed()).iloc[:-1, :-1].to_numpy()
    axes.imshow(counts, cmap="Blues")
    axes.set(xlabel="true class", ylabel="ghost class", title="pairs where all agree ($N_c = 1$)")
    if len(counts) <= MANY:
        upright = 90 if max(map(len, ghosts.class_names)) > 2 else 0
        axes.set_xticks(range(len(counts)), ghosts.class_names, rotation=upright, parse_math=False)
        axes.set_yticks(range(len(counts)), ghosts.class_names, parse_math=False)
        for (row, column), count in np.ndenumerate(counts):
            if count:
                colour = "white" if count > counts.max() / 2 else INK
                axes.text(column, row, str(count), ha="center", va="center", fontsize=6, color=colour)
    return axes


def draw_distances(axes: Axes, ghosts: Ghosts) -> Axes:
    """Draw mean and spread of the ghosts' distances, for the images on which all networks agree."""
    rows = ghosts.agreed()
    axes.scatter(rows["mean_distance"], rows["std_distance"], s=2, alpha=0.3, color=BLUE, linewidths=0, rasterized=True)
    axes.axvline(HIT_RADIUS, color=RED, linewidth=1)
    axes.set(xlabel="mean ghost distance", ylabel="standard deviation", title="agreed ghosts; red: hit zone")
    return axes


def write_ghosts(ghosts: Ghosts, images: Images, out: Path) -> list[Path]:
    """Write tables and figures of the analysis into a new folder; return the files."""
    files.check_vacant(out)
    doubtful = ghosts.doubtful()
    identity = {"id": images.ids.numpy()} | ({} if images.paths is None else {"path": list(images.paths)})
    table = ghosts.table.assign(**identity)
    tables = {
        "ghosts.csv": table,
        "agreement.csv": ghosts.agreement(),
        "pairs.csv": ghosts.pairs(ghosts.agreed()).reset_index(allow_duplicates=True),
        "doubtful_pairs.csv": ghosts.pairs(doubtful).reset_index(allow_duplicates=True),
        "doubtful.csv": table.loc[doubtful.index],
    }
    for name, frame in tables.items():
        spreadsheets.write_csv(out / name, frame)
    pictures = save([analysis_figure(ghosts)], out / "analysis.png")
    if len(doubtful):
        pictures += save(doubtful_figures(doubtful, images), out / "doubtful.png")
    return [out / name for name in tables] + pictures
