"""Images side by side: in a grid under their labels, or in rows by class."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure
from torch import Tensor

from hitnet.plots.sheet import GAP, LINE, MARGIN, TALLEST, WIDTH, sheets

COLUMNS = 10  # images in a row of a class


def tile_width(columns: int) -> float:
    """Width of an image in inches, with N columns."""
    return min(1.25, (WIDTH - 2 * MARGIN + GAP) / columns - GAP)


def tile_figures(images: Tensor, columns: int, *, labels: Sequence[str] | None = None) -> list[Figure]:
    """Images (N, C, H, W) in a grid, each under its label."""
    tile = tile_width(columns)
    above = LINE if labels else 0.0
    step = tile * images.shape[2] / images.shape[3] + GAP + above
    figures = []
    width = columns * (tile + GAP) - GAP + 2 * MARGIN
    for sheet, rows in sheets(math.ceil(len(images) / columns), step, width=width):
        for row, top in rows:
            for i in range(row * columns, min((row + 1) * columns, len(images))):
                left = MARGIN + i % columns * (tile + GAP)
                if labels:
                    sheet.text(left + tile / 2, top + LINE / 2, labels[i], room=tile)
                sheet.image(images[i], left, top + above, tile)
        figures.append(sheet.figure)
    return figures


def class_figures(images: Tensor, labels: Sequence[str]) -> list[Figure]:
    """Images (N, C, H, W), ordered by class, in rows. The label of a class stands beside its first row."""
    side = 0.12 + min(1.2, 0.075 * max(len(label) for label in labels))
    rows: list[tuple[str, list[int]]] = []
    for i, label in enumerate(labels):
        if i == 0 or label != labels[i - 1] or len(rows[-1][1]) == COLUMNS:
            rows.append((label if i == 0 or label != labels[i - 1] else "", []))
        rows[-1][1].append(i)
    widest = max(len(row) for _, row in rows)
    aspect = images.shape[2] / images.shape[3]
    # One page of smaller images is better than two pages, but below 0.6 inches an image is hard to see.
    one_page = max(0.6, ((TALLEST - 2 * MARGIN) / len(rows) - GAP) / aspect)
    tile = min(1.25, (WIDTH - 2 * MARGIN - side + GAP) / widest - GAP, one_page)
    step = tile * aspect + GAP
    figures = []
    for sheet, page in sheets(len(rows), step, width=side + widest * (tile + GAP) - GAP + 2 * MARGIN):
        for row, top in page:
            sheet.text(MARGIN + side - 0.08, top + (step - GAP) / 2, rows[row][0], room=side, ha="right")
            for column, i in enumerate(rows[row][1]):
                sheet.image(images[i], MARGIN + side + column * (tile + GAP), top, tile)
        figures.append(sheet.figure)
    return figures
