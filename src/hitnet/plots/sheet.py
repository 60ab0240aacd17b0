"""Shared by all figures: a page measured in inches, colours, page breaks, images side by side, and writing to files.

Figures are made without pyplot, so no global state changes.
"""

import logging
import math
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.backends.backend_pdf import PdfPages
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from torch import Tensor

from hitnet.errors import HitNetError, log
from hitnet.plots.style import GAP, INK, LABEL, LINE, MARGIN, SOFT, TALLEST, WIDTH
from hitnet.runtime.files import expand, replacing

DPI, FINE = 200, 600  # resolution of pixel graphics, and of images inside vector graphics
COLUMNS = 10  # images in a row of a class
MISSING = "Glyph .* missing"  # matplotlib's warning if a font lacks a character

logging.getLogger("fontTools").setLevel(logging.WARNING)  # it would log every glyph of the fonts in a PDF


def blank_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, whose axes are laid out by matplotlib."""
    return Figure(figsize=(width, height), facecolor="white", layout="constrained")


def tidy(
    axes: Axes, *, title: str = "", x: str = "", y: str = "", size: float = 6.5, sides: Sequence[str] | None = None
) -> Axes:
    """Give axes a title, names, small ticks and, where `sides` are given, only these spines."""
    if title:
        axes.set_title(title, fontsize=8, color=INK, loc="left")
    axes.set_xlabel(x, fontsize=7, color=SOFT)
    axes.set_ylabel(y, fontsize=7, color=SOFT)
    axes.tick_params(which="both", labelsize=size, colors=SOFT, length=2, width=0.5)
    for side, spine in axes.spines.items() if sides is not None else ():
        spine.set(visible=side in (sides or ()), color=SOFT, linewidth=0.5)
    return axes


class Sheet:
    """A page with a single axes, in inches from the top left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.figure = Figure(figsize=(width, height), facecolor="white")
        self.axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()

    def image(self, image: Tensor, left: float, top: float, width: float) -> float:
        """Draw an image (C, H, W) in [0, 1] at this width; return its height."""
        height = width * image.shape[1] / image.shape[2]
        draw_image(self.axes, image, extent=(left, left + width, top + height, top))
        return height

    def text(self, x: float, y: float, text: str, *, room: float = math.inf, size: float = LABEL, **style: Any) -> None:
        """Write text centred on (x, y), cut to `room` inches. `style` overrides: `ha`, or `parse_math` for formulas."""
        options = {"ha": "center", "va": "center", "color": INK, "parse_math": False, **style}
        self.axes.text(x, y, fitting(text, room, size=size), fontsize=size, **options)


def fitting(text: str, room: float, *, size: float) -> str:
    """The text, cut with "…" to fit into `room` inches at this font size."""
    if text_width(text, size) <= room:
        return text
    most = max(1, bisect_right(range(len(text)), room, key=lambda length: text_width(text[:length] + "…", size)) - 1)
    return text[:most] + "…"


def text_width(text: str, size: float, *, math: bool = False) -> float:
    """Width of a text in inches, in the font of names; with `math`, $…$ are formulas."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", MISSING)  # `save` reports it
        width: float = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), ismath=math)[0]
    return width / 72


def draw_image(axes: Axes, image: Tensor, *, extent: tuple[float, float, float, float] | None = None) -> Axes:
    """Draw an image (C, H, W), floats in [0, 1] or uint8, on axes.

    It takes the `extent` (left, right, bottom, top) of them, or else they are fitted to it, with square pixels.
    """
    array = image.detach().cpu().float().numpy() / (255 if image.dtype == torch.uint8 else 1)
    pixels = array[0] if array.shape[0] == 1 else array.transpose(1, 2, 0)
    limits = None if extent is None else (axes.get_xlim(), axes.get_ylim())
    place: dict[str, Any] = {"extent": extent, "aspect": "equal" if extent is None else "auto"}
    axes.imshow(np.clip(pixels, 0, 1), cmap="gray", vmin=0, vmax=1, interpolation="nearest", **place)
    if limits is not None:
        axes.set(xlim=limits[0], ylim=limits[1])
    return axes


def save(figures: Sequence[Figure], path: str | Path) -> list[Path]:
    """Write figures to a file, whose ending gives the type; returns the files that were written.

    Several figures become pages of one PDF. For other types they become the files NAME-1, NAME-2, …
    """
    target = expand(path)
    kind = check_file_type(target)
    # Publishers ask for TrueType fonts. Without dates, the same figure gives the same file. Composite images are off,
    # because matplotlib would resample all images at one resolution and shift them slightly.
    dpi = FINE if kind in ("pdf", "svg", "svgz", "eps", "ps") else DPI
    with (
        matplotlib.rc_context({"pdf.fonttype": 42, "svg.hashsalt": "hitnet", "image.composite_image": False}),
        _missing_reported_once(),
    ):
        if kind == "pdf":
            with replacing(target) as temporary, PdfPages(temporary, metadata={"CreationDate": None}) as pages:
                for figure in figures:
                    pages.savefig(figure, dpi=dpi)
            return [target]
        many = len(figures) > 1
        names = [target.with_stem(f"{target.stem}-{i}") if many else target for i in range(1, len(figures) + 1)]
        for figure, name in zip(figures, names, strict=True):
            with replacing(name) as temporary:
                figure.savefig(temporary, dpi=dpi, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return names


@contextmanager
def _missing_reported_once() -> Iterator[None]:
    """Log one message for all characters that the font lacks, instead of matplotlib's two lines for each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", MISSING)
        yield
    for warning in caught:
        if not re.match(MISSING, str(warning.message)):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if any(re.match(MISSING, str(warning.message)) for warning in caught):
        log.warning(
            "The font lacks some characters of the names and shows boxes instead. Add a font that has them to "
            "font.family in your matplotlibrc, e.g. font.family: DejaVu Sans, Noto Sans CJK JP."
        )


def check_file_type(path: str | Path) -> str:
    """The type that a file's ending gives; raise HitNetError if that type cannot be written."""
    known = set(FigureCanvasBase.get_supported_filetypes()) - {"pgf"}  # it writes images into separate files
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in known:
        raise HitNetError(
            f"{path}: pictures are not written as {Path(path).suffix or 'a file without an ending'}. "
            f"Use .png, .svg or .pdf (also possible: {', '.join(sorted(known - {'png', 'svg', 'pdf'}))})."
        )
    return kind


def sheets(
    rows: int, height: float, *, width: float, above: float = 0.0, gap: float = GAP
) -> Iterator[tuple[Sheet, list[tuple[int, float]]]]:
    """One page after the other, each with the numbers of its rows and their tops; `gap` is left after each row."""
    for page in pages(rows, height, above=above):
        sheet = Sheet(width, above + len(page) * height - gap + 2 * MARGIN)
        yield sheet, [(row, MARGIN + above + place * height) for place, row in enumerate(page)]


def pages(rows: int, height: float, *, above: float = 0.0) -> list[range]:
    """Cut rows of this height into pages of nearly equal length, with space `above` the rows; all in inches."""
    capacity = max(1, int((TALLEST - above - 2 * MARGIN) / height))
    count = max(1, math.ceil(rows / capacity))
    per_page = max(1, math.ceil(rows / count))
    return [range(start, min(start + per_page, rows)) for start in range(0, rows, per_page)]


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
