"""What all pictures share: a page measured in inches, colours, paging, and files that are written whole.

Figures are made without pyplot, so that nothing global is touched, and matplotlib is imported when needed.
"""

from __future__ import annotations

import logging
import math
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hitnet.errors import HitNetError
from hitnet.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SOFT, FILL = "#22262b", "#6c737d", "#cfd9e6"
BLUE, RED = "#3a6ea5", "#b8442f"
WIDTH, TALLEST = 6.8, 9.6  # inches: the width of a column of A4 text, and the most that a page is filled
MARGIN, GAP, LINE = 0.08, 0.05, 0.17
LABEL = 8  # points: the size of names
DPI, FINE = 200, 600  # of pictures made of pixels, and of the images within those made of lines
MISSING = "Glyph .* missing"  # what matplotlib warns of when a font lacks a character

log = logging.getLogger("hitnet")


class Sheet:
    """A page whose one axes is measured in inches from the top left corner."""

    def __init__(self, width: float, height: float) -> None:
        from matplotlib.figure import Figure

        self.figure: Figure = Figure(figsize=(width, height), facecolor="white")
        self.axes: Axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.axes.set(xlim=(0, width), ylim=(height, 0))
        self.axes.set_axis_off()

    def image(self, image: Tensor, left: float, top: float, width: float) -> float:
        """Draw an image (C, H, W) in [0, 1] at this width; gives its height."""
        height = width * image.shape[1] / image.shape[2]
        draw_image(self.axes, image, extent=(left, left + width, top + height, top))
        return height

    def text(self, x: float, y: float, text: str, *, room: float = math.inf, size: float = LABEL, **style: Any) -> None:
        """Write centred on (x, y) unless `ha` says otherwise, cut to `room` inches; names hold no formulas."""
        options = {"ha": "center", "va": "center", "color": INK, "parse_math": False, **style}
        self.axes.text(x, y, fitting(text, room, size=size), fontsize=size, **options)


def fitting(text: str, room: float, *, size: float) -> str:
    """The text, or as much of its beginning as `room` inches hold at this size of font, and then "…"."""
    if text_width(text, size) <= room:
        return text
    most = max(1, bisect_right(range(len(text)), room, key=lambda length: text_width(text[:length] + "…", size)) - 1)
    return text[:most] + "…"


def text_width(text: str, size: float, *, math: bool = False) -> float:
    """In inches, in the font that names are written in; `math` reads $…$ as formulas."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", MISSING)  # `save` says it
        width: float = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), ismath=math)[0]
    return width / 72


def draw_image(axes: Axes, image: Tensor, *, extent: tuple[float, float, float, float] | None = None) -> Axes:
    """An image (C, H, W), floats in [0, 1] or uint8, grey or colour.

    With an `extent` (left, right, bottom, top) it is put there, and the limits of the axes stay as they are; without,
    the axes become those of the image, with square pixels.
    """
    array = image.detach().cpu().float().numpy() / (255 if image.dtype == torch.uint8 else 1)
    pixels = array[0] if array.shape[0] == 1 else array.transpose(1, 2, 0)
    limits = None if extent is None else (axes.get_xlim(), axes.get_ylim())
    axes.imshow(
        np.clip(pixels, 0, 1),
        cmap="gray",
        vmin=0,
        vmax=1,
        interpolation="nearest",
        extent=extent,
        aspect="equal" if extent is None else "auto",
    )
    if limits is not None:
        axes.set(xlim=limits[0], ylim=limits[1])
    return axes


def save(figures: Sequence[Figure], path: str | Path) -> list[Path]:
    """Write figures to a file, the type by its ending; several become pages of one PDF, else NAME-1, NAME-2, …"""
    import matplotlib
    from matplotlib.backends.backend_pdf import PdfPages

    target = Path(path)
    kind = check_file_type(target)
    # TrueType fonts, as publishers ask for, and no dates: the same figure gives the same file. Images each for itself:
    # put together into one, they would all be drawn anew at its resolution, a little out of place.
    dpi = FINE if kind in ("pdf", "svg", "svgz", "eps", "ps") else DPI
    with (
        matplotlib.rc_context({"pdf.fonttype": 42, "svg.hashsalt": "hitnet", "image.composite_image": False}),
        _quiet_fonts(),
        _missing_said_once(),
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
def _quiet_fonts() -> Iterator[None]:
    """Keep off the log what fontTools says, glyph by glyph, of the fonts that go into a PDF."""
    log = logging.getLogger("fontTools")
    before = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(before)


@contextmanager
def _missing_said_once() -> Iterator[None]:
    """One sentence for all characters that the font lacks, where matplotlib has two lines for each."""
    with warnings.catch_warnings(record=True) as said:
        warnings.filterwarnings("always", MISSING)
        yield
    for one in said:
        if not re.match(MISSING, str(one.message)):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if any(re.match(MISSING, str(one.message)) for one in said):
        log.warning(
            "The font lacks some characters of the names, which are drawn as boxes. Name one that has them in the "
            "font.family of your matplotlibrc, after the first, e.g. font.family: DejaVu Sans, Noto Sans CJK JP."
        )


def file_types() -> set[str]:
    """The endings, without their dot, of the pictures that can be written."""
    from matplotlib.backend_bases import FigureCanvasBase

    return set(FigureCanvasBase.get_supported_filetypes()) - {"pgf"}  # its images are files of their own


def check_file_type(path: str | Path) -> str:
    """The type by the file's ending, or an error that names those that can be written."""
    known = file_types()
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in known:
        raise HitNetError(
            f"{path}: pictures are not written as {Path(path).suffix or 'a file without an ending'}. "
            f"Use .png, .svg or .pdf (also possible: {', '.join(sorted(known - {'png', 'svg', 'pdf'}))})."
        )
    return kind


def pages(rows: int, height: float, *, above: float = 0.0) -> list[range]:
    """Rows of this height, cut into pages of near equal length."""
    most = max(1, int((TALLEST - above - 2 * MARGIN) / height))
    count = max(1, math.ceil(rows / most))
    each = max(1, math.ceil(rows / count))
    return [range(start, min(start + each, rows)) for start in range(0, rows, each)]
