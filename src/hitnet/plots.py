"""Pictures for people: prototypes, traversals, generated and augmented images, distributions of features.

Each function gives matplotlib figures, one a page; `save` writes them as PNG, SVG, PDF or whatever else matplotlib
writes. Figures are made without pyplot, so that nothing global is touched, and matplotlib is imported when needed.
"""

from __future__ import annotations

import logging
import math
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

    from hitnet.synthesis.distributions import FeatureDistributions
    from hitnet.synthesis.hybrid import HybridExamples
    from hitnet.synthesis.prototypes import Prototypes
    from hitnet.synthesis.traversal import Traversal

INK, SOFT, FILL = "#22262b", "#6c737d", "#cfd9e6"
BLUE, RED = "#3a6ea5", "#b8442f"
WIDTH, TALLEST = 6.8, 9.6  # inches: the width of a column of A4 text, and the most that a page is filled
MARGIN, GAP, LINE = 0.08, 0.05, 0.17
DPI = 200
X_REC, X_MOD = r"$X_{\mathrm{rec}}$", r"$X_{\mathrm{mod}}$"


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

    def text(self, x: float, y: float, text: str, *, room: float = math.inf, size: float = 8, **style: Any) -> None:
        """Write centred on (x, y) unless `ha` says otherwise, cut to `room` inches; names hold no formulas."""
        most = room * 72 / (0.54 * size)
        shown = text if len(text) <= most else text[: max(1, int(most) - 1)] + "…"
        options = {"ha": "center", "va": "center", "color": INK, "parse_math": False, **style}
        self.axes.text(x, y, shown, fontsize=size, **options)


def draw_image(axes: Axes, image: Tensor, *, extent: tuple[float, float, float, float] | None = None) -> Axes:
    """An image (C, H, W), floats in [0, 1] or uint8, grey or colour, on axes whose limits stay as they are."""
    array = image.detach().cpu().float().numpy() / (255 if image.dtype == torch.uint8 else 1)
    pixels = array[0] if array.shape[0] == 1 else array.transpose(1, 2, 0)
    limits = None if extent is None else (axes.get_xlim(), axes.get_ylim())
    axes.imshow(
        np.clip(pixels, 0, 1), cmap="gray", vmin=0, vmax=1, interpolation="nearest", extent=extent, aspect="auto"
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
    # TrueType fonts, as publishers ask for, and no dates: the same figure gives the same file.
    with matplotlib.rc_context({"pdf.fonttype": 42, "svg.hashsalt": "hitnet"}), _quiet_fonts():
        if kind == "pdf":
            with replacing(target) as temporary, PdfPages(temporary, metadata={"CreationDate": None}) as pages:
                for figure in figures:
                    pages.savefig(figure, dpi=DPI)
            return [target]
        many = len(figures) > 1
        names = [target.with_stem(f"{target.stem}-{i}") if many else target for i in range(1, len(figures) + 1)]
        for figure, name in zip(figures, names, strict=True):
            with replacing(name) as temporary:
                figure.savefig(temporary, dpi=DPI, format=kind, metadata={"Date": None} if kind == "svg" else None)
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


def check_file_type(path: str | Path) -> str:
    """The type by the file's ending, or an error that names those that can be written."""
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in known:
        raise HitNetError(
            f"{path}: pictures are not written as {Path(path).suffix or 'a file without an ending'}. "
            f"Use .png, .svg or .pdf (also possible: {', '.join(sorted(set(known) - {'png', 'svg', 'pdf'}))})."
        )
    return kind


def pages(rows: int, height: float, *, above: float = 0.0) -> list[range]:
    """Rows of this height, cut into pages of near equal length."""
    most = max(1, int((TALLEST - above - 2 * MARGIN) / height))
    count = max(1, math.ceil(rows / most))
    each = math.ceil(rows / count)
    return [range(start, min(start + each, rows)) for start in range(0, rows, each)]


def prototype_figures(found: Prototypes) -> list[Figure]:
    """The prototypes of all classes, each under its name."""
    count = len(found.class_names)
    columns = min(count, 5 if count <= 15 else 8 if count <= 40 else 10)
    return tile_figures(found.images, columns, labels=found.class_names)


def tile_figures(images: Tensor, columns: int, *, labels: Sequence[str] | None = None) -> list[Figure]:
    """Images (N, C, H, W) row after row, each with its label above it."""
    tile = min(1.25, (WIDTH - 2 * MARGIN + GAP) / columns - GAP)
    above = LINE if labels else 0.0
    step = tile * images.shape[2] / images.shape[3] + GAP + above
    figures = []
    for rows in pages(math.ceil(len(images) / columns), step):
        sheet = Sheet(columns * (tile + GAP) - GAP + 2 * MARGIN, len(rows) * step - GAP + 2 * MARGIN)
        for i in range(rows.start * columns, min(rows.stop * columns, len(images))):
            left, top = MARGIN + i % columns * (tile + GAP), MARGIN + (i // columns - rows.start) * step
            if labels:
                sheet.text(left + tile / 2, top + LINE / 2, labels[i], room=tile)
            sheet.image(images[i], left, top + above, tile)
        figures.append(sheet.figure)
    return figures


def class_figures(images: Tensor, labels: Sequence[str], *, columns: int = 10) -> list[Figure]:
    """Images (N, C, H, W) that come class by class, in rows; a class's label stands beside its first row."""
    side = 0.12 + min(1.2, 0.075 * max(len(label) for label in labels))
    rows: list[tuple[str, list[int]]] = []
    for i, label in enumerate(labels):
        if i == 0 or label != labels[i - 1] or len(rows[-1][1]) == columns:
            rows.append((label if i == 0 or label != labels[i - 1] else "", []))
        rows[-1][1].append(i)
    widest = max(len(row) for _, row in rows)
    aspect = images.shape[2] / images.shape[3]
    # Rather one page of smaller images than two; below 0.6 inches they are no longer seen well.
    fitting = max(0.6, ((TALLEST - 2 * MARGIN) / len(rows) - GAP) / aspect)
    tile = min(1.25, (WIDTH - 2 * MARGIN - side + GAP) / widest - GAP, fitting)
    step = tile * aspect + GAP
    figures = []
    for page in pages(len(rows), step):
        sheet = Sheet(side + widest * (tile + GAP) - GAP + 2 * MARGIN, len(page) * step - GAP + 2 * MARGIN)
        for number, row in enumerate(page):
            top = MARGIN + number * step
            sheet.text(MARGIN + side - 0.08, top + (step - GAP) / 2, rows[row][0], room=side, ha="right")
            for column, i in enumerate(rows[row][1]):
                sheet.image(images[i], MARGIN + side + column * (tile + GAP), top, tile)
        figures.append(sheet.figure)
    return figures


def traversal_figures(found: Traversal) -> list[Figure]:
    """A row for each component, a column for each value, and on the right how much the picture changes."""
    steps, shape = len(found.values), found.images.shape[2:]
    side, bar = 0.42, 0.95
    tile = min(0.8, (WIDTH - 2 * MARGIN - side - bar) / steps - GAP)
    step = tile * shape[1] / shape[2] + GAP
    original = found.original
    head = 2.5 * LINE + (0 if original is None else 0.8 * shape[1] / shape[2] + LINE / 2)
    change, top_change = found.change, float(found.change.max()) or 1.0
    figures = []
    for rows in pages(len(found.images), step, above=head):
        sheet = Sheet(side + steps * (tile + GAP) + bar + 2 * MARGIN, head + len(rows) * step + 2 * MARGIN)
        _traversal_head(sheet, found, side, tile, head)
        for number, row in enumerate(rows):
            top = MARGIN + head + number * step
            middle = top + (step - GAP) / 2
            sheet.text(MARGIN + side - 0.1, middle, str(row), ha="right")
            for column in range(steps):
                sheet.image(found.images[row, column], MARGIN + side + column * (tile + GAP), top, tile)
            left = MARGIN + side + steps * (tile + GAP) + 0.05
            length = 0.45 * float(change[row]) / top_change
            sheet.axes.barh(middle, length, height=min(0.12, tile / 3), left=left, color=BLUE)
            sheet.text(left + length + 0.05, middle, f"{change[row]:.3f}", size=7, color=SOFT, ha="left")
        figures.append(sheet.figure)
    return figures


def _traversal_head(sheet: Sheet, found: Traversal, side: float, tile: float, head: float) -> None:
    steps = len(found.values)
    whose = "the central capsule" if found.original is None else "the image's own capsule"
    title = f"Class {found.class_name}, {whose}: each component set to the values above the columns"
    sheet.text(MARGIN, MARGIN + LINE / 2, title, ha="left", size=9, room=sheet.axes.get_xlim()[1] - MARGIN)
    if found.original is not None:
        sheet.image(found.original, MARGIN + side, MARGIN + 1.5 * LINE, 0.8)
        sheet.text(MARGIN + side + 0.9, MARGIN + 1.5 * LINE + 0.1, "the image", ha="left", color=SOFT)
    level = MARGIN + head - LINE / 2
    sheet.text(MARGIN + side - 0.1, level, "no.", ha="right", size=7, color=SOFT)
    shown = range(steps) if tile > 0.33 else {0, steps // 2, steps - 1}
    for column in shown:
        x = MARGIN + side + column * (tile + GAP) + tile / 2
        sheet.text(x, level, f"{float(found.values[column]):.3f}", size=7, color=SOFT)
    right = MARGIN + side + steps * (tile + GAP) + 0.05
    sheet.text(right, level, "change (RMS)", ha="left", size=7, color=SOFT)


def hybrid_figures(examples: Sequence[HybridExamples]) -> list[Figure]:
    """As in the paper: for each image a pair of panels that both begin with X and X_rec; on the left follow the
    X_mod, on the right the new images X_mod + X − X_rec."""
    first = examples[0]
    columns = math.ceil(math.sqrt(len(first.modified) + 2))
    lines = math.ceil((len(first.modified) + 2) / columns)
    between, gap = 0.3, 0.03
    panel = (WIDTH - 2 * MARGIN - between) / 2
    tile = (panel + gap) / columns - gap
    step = tile * first.original.shape[1] / first.original.shape[2] + gap
    block = lines * step + 2 * LINE + 0.12
    figures = []
    for rows in pages(len(examples), block):
        sheet = Sheet(WIDTH, len(rows) * block - 0.12 + 2 * MARGIN)
        for number, row in enumerate(rows):
            one, top = examples[row], MARGIN + number * block
            pair = ((one.modified, X_MOD), (one.results, f"{X_MOD} + $X$ − {X_REC}"))
            for side, (following, what) in enumerate(pair):
                left = MARGIN + side * (panel + between)
                sheet.text(left + tile / 2, top + LINE / 2, "$X$", size=7, color=SOFT, parse_math=True)
                sheet.text(left + tile * 1.5 + gap, top + LINE / 2, X_REC, size=7, color=SOFT, parse_math=True)
                for i, image in enumerate([one.original, one.reconstruction, *following]):
                    x, y = left + i % columns * (tile + gap), top + LINE + i // columns * step
                    sheet.image(image, x, y, tile)
                letter = chr(ord("a") + (2 * row + side) % 26)
                name = one.class_name[:30].replace("$", r"\$")
                caption = f"({letter}) {name}: {what}"
                sheet.text(left + panel / 2, top + LINE * 1.55 + lines * step, caption, parse_math=True)
        figures.append(sheet.figure)
    return figures


def feature_figures(found: FeatureDistributions) -> list[Figure]:
    """Distributions beside the expected one: a panel for each class, or, of one class alone, for each component."""
    present = found.labels.unique().tolist()
    if len(present) > 1:
        panels = [(found.class_names[k], found.capsules[found.labels == k]) for k in present]
        title = f"{found.data}: components of the true class's capsule, by class"
    else:
        panels = [(f"component {i}", column[:, None]) for i, column in enumerate(found.capsules.T)]
        title = f"{found.data}, class {found.class_names[present[0]]}: components of the true class's capsule"
    reach = max(3 * found.spread, 3 * float((found.capsules - found.centre).double().square().mean().sqrt()))
    columns, height = min(4, len(panels)), 1.62
    figures = []
    for rows in pages(math.ceil(len(panels) / columns), height, above=0.9):
        part = panels[rows.start * columns : rows.stop * columns]
        figures.append(_feature_page(found, part, title, columns, len(rows), height, reach))
    return figures


def _feature_page(
    found: FeatureDistributions,
    panels: list[tuple[str, Tensor]],
    title: str,
    columns: int,
    rows: int,
    height: float,
    reach: float,
) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, rows * height + 0.85), facecolor="white", layout="constrained")
    figure.suptitle(title, fontsize=9, color=INK, parse_math=False)
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for i, axes in enumerate(grid.flat):
        if i < len(panels):
            draw_features(axes, panels[i][1], found, reach=reach, title=panels[i][0])
            axes.tick_params(labelbottom=i + columns >= len(panels))
        else:
            axes.set_axis_off()
    handles, names = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), fontsize=7, frameon=False)
    return figure


def draw_features(
    axes: Axes, capsules: Tensor, found: FeatureDistributions, *, reach: float, title: str = ""
) -> Axes:
    """The distribution of capsule components (N, d): all together filled, each as a line, the expected one dashed."""
    values = capsules.double().numpy()
    edges = np.linspace(found.centre - reach, found.centre + reach, 41)
    several = values.shape[1] > 1
    axes.hist(values.ravel(), edges.tolist(), density=True, color=FILL, label="all components" if several else "images")
    for i, column in enumerate(values.T if several else ()):
        density, _ = np.histogram(column, edges, density=True)
        label = "each component" if i == 0 else None
        axes.plot((edges[1:] + edges[:-1]) / 2, density, color=BLUE, linewidth=0.5, alpha=0.45, label=label)
    x = np.linspace(edges[0], edges[-1], 241)
    expected = np.exp(-(((x - found.centre) / found.spread) ** 2) / 2) / (found.spread * math.sqrt(2 * math.pi))
    law = f"expected: N({found.centre:g}, {found.spread:.3g})"
    axes.plot(x, expected, color=RED, linewidth=1.0, linestyle=(0, (4, 2)), label=law)
    for sign in (-2, 2):
        axes.axvline(found.centre + sign * found.spread, color=RED, linewidth=0.5, alpha=0.5)
    share = 100 * float(found.within(capsules).double().mean())
    spread = float(np.sqrt(values.var(axis=0).mean()))
    axes.set_title(title, fontsize=8, color=INK, loc="left", pad=12, parse_math=False)
    axes.text(
        0, 1.02, f"{values.mean():.3f} ± {spread:.3f}, {share:.0f} % within 2σ", transform=axes.transAxes,
        fontsize=6.5, color=SOFT,
    )  # fmt: skip
    axes.set(xlim=(edges[0], edges[-1]), yticks=[])
    axes.tick_params(labelsize=6, colors=SOFT, length=2, width=0.5)
    for name, spine in axes.spines.items():
        spine.set(visible=name == "bottom", color=SOFT, linewidth=0.5)
    return axes
