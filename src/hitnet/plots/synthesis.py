"""Figures of what a network has learned: prototypes, traversals, hybrid images, and how capsules are distributed."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from hitnet.errors import HitNetError
from hitnet.plots.sheet import Sheet, blank_figure, fitting, pages, sheets, text_width, tidy, tile_figures
from hitnet.plots.style import BLUE, FILL, GAP, INK, LINE, MARGIN, RED, SOFT, WIDTH
from hitnet.synthesis import CapsuleDistributions, HybridExamples, Prototypes, Traversal

MOST_STEPS = 40  # largest number of columns of a traversal; more would be too narrow to see
X_REC, X_MOD = r"$X_{\mathrm{rec}}$", r"$X_{\mathrm{mod}}$"


def prototype_figures(prototypes: Prototypes) -> list[Figure]:
    """The prototype of each class under its name. More classes mean smaller images, but not narrower than the names."""
    count = len(prototypes.class_names)
    longest = max(text_width(name, 8) for name in prototypes.class_names)
    most = max(5, int((WIDTH - 2 * MARGIN + GAP) / (longest + GAP)))
    columns = min(count, most, 5 if count <= 15 else 8 if count <= 40 else 10)
    return tile_figures(prototypes.images, columns, labels=prototypes.class_names)


def traversal_figures(traversal: Traversal) -> list[Figure]:
    """One row per component, one column per value; on the right, how much the picture changes."""
    steps, shape = len(traversal.values), traversal.images.shape[2:]
    check_steps(steps)
    side, bar = 0.42, 0.95
    tile = min(0.8, (WIDTH - 2 * MARGIN - side - bar) / steps - GAP)
    step = max(LINE, tile * shape[1] / shape[2] + GAP)  # at least as high as the row's number
    original = traversal.original
    head = 2.5 * LINE + (0 if original is None else 0.8 * shape[1] / shape[2] + LINE / 2)
    change, top_change = traversal.change, float(traversal.change.max()) or 1.0
    form = ".3f" if top_change >= 0.01 else ".0e"  # small changes must not be written as zeros
    figures = []
    width = side + steps * (tile + GAP) + bar + 2 * MARGIN
    for sheet, rows in sheets(len(traversal.images), step, width=width, above=head, gap=0.0):
        _traversal_head(sheet, traversal, side, tile, head)
        for row, top in rows:
            middle = top + tile * shape[1] / shape[2] / 2
            sheet.text(MARGIN + side - 0.1, middle, str(row), ha="right")
            for column in range(steps):
                sheet.image(traversal.images[row, column], MARGIN + side + column * (tile + GAP), top, tile)
            left = MARGIN + side + steps * (tile + GAP) + 0.05
            length = 0.45 * float(change[row]) / top_change
            sheet.axes.barh(middle, length, height=min(0.12, tile / 3), left=left, color=BLUE)
            sheet.text(left + length + 0.05, middle, f"{change[row]:{form}}", size=7, color=SOFT, ha="left")
        figures.append(sheet.figure)
    return figures


def check_steps(steps: int) -> None:
    """Raise HitNetError if a traversal has too many steps for a figure."""
    if steps > MOST_STEPS:
        raise HitNetError(f"A figure of a traversal has room for {MOST_STEPS} steps; got {steps:,}. Use fewer steps.")


def _traversal_head(sheet: Sheet, traversal: Traversal, side: float, tile: float, head: float) -> None:
    steps = len(traversal.values)
    capsule = "the central capsule" if traversal.original is None else "the image's own capsule"
    title = f"Class {traversal.class_name}, {capsule}: each component set to the values above the columns"
    sheet.text(MARGIN, MARGIN + LINE / 2, title, ha="left", size=9, room=sheet.axes.get_xlim()[1] - 2 * MARGIN)
    if traversal.original is not None:
        sheet.image(traversal.original, MARGIN + side, MARGIN + 1.5 * LINE, 0.8)
        sheet.text(MARGIN + side + 0.9, MARGIN + 1.5 * LINE + 0.1, "the image", ha="left", color=SOFT)
    level = MARGIN + head - LINE / 2
    sheet.text(MARGIN + side - 0.1, level, "no.", ha="right", size=7, color=SOFT)
    anchors = {column: ("center", 0.5) for column in range(steps)}
    if tile <= 0.33:  # narrow columns: only three values, with the outer two aligned to the edges
        anchors = {0: ("left", 0.0), steps // 2: ("center", 0.5), steps - 1: ("right", 1.0)}
    for column, (alignment, fraction) in anchors.items():
        x = MARGIN + side + column * (tile + GAP) + tile * fraction
        sheet.text(x, level, f"{float(traversal.values[column]):.3f}", size=7, color=SOFT, ha=alignment)
    right = MARGIN + side + steps * (tile + GAP) + 0.05
    sheet.text(right, level, "change (RMS)", ha="left", size=7, color=SOFT)


def hybrid_figures(examples: Sequence[HybridExamples]) -> list[Figure]:
    """A pair of panels per image, as in the paper.

    Both panels begin with X and X_rec. The left one continues with the X_mod, the right one with X_mod + X − X_rec.
    """
    first = examples[0]
    columns = math.ceil(math.sqrt(len(first.modified) + 2))
    lines = math.ceil((len(first.modified) + 2) / columns)
    between, gap = 0.3, 0.03
    panel = (WIDTH - 2 * MARGIN - between) / 2
    tile = (panel + gap) / columns - gap
    step = tile * first.original.shape[1] / first.original.shape[2] + gap
    block = lines * step + 2 * LINE + 0.12
    figures = []
    for sheet, rows in sheets(len(examples), block, width=WIDTH, gap=0.12):
        for row, top in rows:
            example = examples[row]
            pair = ((example.modified, X_MOD), (example.results, f"{X_MOD} + $X$ − {X_REC}"))
            for side, (following, formula) in enumerate(pair):
                left = MARGIN + side * (panel + between)
                sheet.text(left + tile / 2, top + LINE / 2, "$X$", size=7, color=SOFT, parse_math=True)
                sheet.text(left + tile * 1.5 + gap, top + LINE / 2, X_REC, size=7, color=SOFT, parse_math=True)
                for i, image in enumerate([example.original, example.reconstruction, *following]):
                    x, y = left + i % columns * (tile + gap), top + LINE + i // columns * step
                    sheet.image(image, x, y, tile)
                letter = chr(ord("a") + (2 * row + side) % 26)
                width = text_width(formula, 8, math=True)
                name = fitting(example.class_name, panel - width - 0.4, size=8)
                # Two texts: a name may contain characters of a formula.
                caption, level = f"({letter}) {name}:", top + LINE * 1.55 + lines * step
                middle = left + (panel + text_width(caption, 8) - width) / 2
                sheet.text(middle - 0.03, level, caption, ha="right")
                sheet.text(middle + 0.03, level, formula, ha="left", parse_math=True)
        figures.append(sheet.figure)
    return figures


def distribution_figures(features: CapsuleDistributions) -> list[Figure]:
    """Distributions of capsule components: a panel per class, or per component if there is only one class."""
    present = features.labels.unique().tolist()
    if len(present) > 1:
        panels = [(features.class_names[k], features.capsules[features.labels == k]) for k in present]
        title = f"{features.data}: components of the true class's capsule, by class"
    else:
        panels = [(f"component {i}", column[:, None]) for i, column in enumerate(features.capsules.T)]
        title = f"{features.data}, class {features.class_names[present[0]]}: components of the true class's capsule"
    reach = 3 * max(features.spread, float((features.capsules - features.centre).double().square().mean().sqrt()))
    columns, height = min(4, len(panels)), 1.62
    figures = []
    for rows in pages(math.ceil(len(panels) / columns), height, above=0.9):
        part = panels[rows.start * columns : rows.stop * columns]
        figure = blank_figure(WIDTH, len(rows) * height + 0.85)
        figure.suptitle(fitting(title, WIDTH, size=9), fontsize=9, color=INK, parse_math=False)
        grid = figure.subplots(len(rows), columns, squeeze=False, sharey=True)
        for axes in grid.flat[len(part) :]:
            axes.set_axis_off()
        for i, (name, capsules) in enumerate(part):
            name = fitting(name, WIDTH / columns - 0.15, size=8)
            axes = draw_distribution(grid.flat[i], capsules, features, reach=reach, title=name)
            axes.tick_params(labelbottom=i + columns >= len(part))
        handles, names = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names), fontsize=7, frameon=False)
        figures.append(figure)
    return figures


def draw_distribution(
    axes: Axes, capsules: Tensor, features: CapsuleDistributions, *, reach: float, title: str = ""
) -> Axes:
    """Draw the distribution of capsule components (N, d): all together filled, each as a line, the expected one dashed.

    `features` give the expected distribution; the x-axis has the `reach` to each side of the centre.
    """
    values = capsules.double().numpy()
    edges = np.linspace(features.centre - reach, features.centre + reach, 41)
    several = values.shape[1] > 1

    def density(values: np.ndarray) -> np.ndarray:
        """Density over all values, also those beyond the edges, to match the expected distribution."""
        return np.histogram(values, edges)[0] / (values.size * (edges[1] - edges[0]))

    axes.stairs(density(values), edges, fill=True, color=FILL, label="all components" if several else "images")
    for i, column in enumerate(values.T if several else ()):
        label = "each component" if i == 0 else None
        axes.plot((edges[1:] + edges[:-1]) / 2, density(column), color=BLUE, linewidth=0.5, alpha=0.45, label=label)
    x = np.linspace(edges[0], edges[-1], 241)
    expected = np.exp(-(((x - features.centre) / features.spread) ** 2) / 2) / (features.spread * math.sqrt(math.tau))
    law = f"expected: N({features.centre:g}, {features.spread:.3g})"
    axes.plot(x, expected, color=RED, linewidth=1.0, linestyle=(0, (4, 2)), label=law)
    low, high = features.centre - 2 * features.spread, features.centre + 2 * features.spread
    for end in (low, high):
        axes.axvline(end, color=RED, linewidth=0.5, alpha=0.5)
    share = 100 * float(features.within(capsules).double().mean())
    spread = float(np.sqrt(values.var(axis=0).mean()))
    axes.set_title(title, fontsize=8, color=INK, loc="left", pad=12, parse_math=False)
    figures = f"{values.mean():.3f} ± {spread:.3f}, {share:.0f} % within 2σ"
    axes.text(0, 1.02, figures, transform=axes.transAxes, fontsize=6.5, color=SOFT)
    axes.set(xlim=(edges[0], edges[-1]), yticks=[])
    ticks = [low, features.centre, high]
    if reach > 6 * features.spread:  # their labels would overlap
        offset = float(f"{reach / 2:.1g}")
        ticks = [features.centre - offset, features.centre, features.centre + offset]
    axes.set_xticks(ticks, [f"{value:.3g}" for value in ticks])
    return tidy(axes, size=6, sides=("bottom",))
