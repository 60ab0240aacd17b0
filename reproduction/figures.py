"""The paper's figures: curves from the ledger, and pictures that need a network's weights.

A picture is drawn once from a run folder, kept as a file, and named in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from hitnet import Network, open_data, plots, synthesis
from reproduction.book import Drawing, Page, Result
from reproduction.cells import table
from reproduction.claims import EXPECTED_WITHIN
from reproduction.ledger import PICTURE, Entry, Ledger
from reproduction.loss_figure import loss_figure
from reproduction.records import full_runs
from reproduction.sections import TABLE1

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path("images")
CURVES_FILE = FOLDER / "curves.png"
LOSS_FILE = FOLDER / "loss.png"
NETWORK_FILE = FOLDER / "network.png"
WIDTH, BLUE, RED = 6.8, "#3a6ea5", "#b8442f"  # as hitnet.plots has them
MOST_DRAWN = 200  # largest number of doubtful images in a figure
TRAVERSED_CLASS = 3  # any would do: the paper speaks of all
# The paper does not say how far it modifies capsules: a noise of m/√n is our reading, from its section on generation.
AUGMENTED_EXAMPLES, AUGMENTATION_STRENGTH = 2, 1.0
REBUILT_PER_CLASS = 2
Cell = tuple[int, int]  # column and row of a grid


def curves_section(page: Page) -> str:
    """The figure beside table 1: mean test error over the epochs of the four networks, constant rate.

    Runs that learned nothing are left out: one of them would hide what the others do.
    """
    histories, lines = {}, []
    for title, name in TABLE1["constant"]:
        records = page.records(name)
        if not records:
            lines.append(f"- {title}: {page.missing(name)}")
            continue
        learned = [record for record in records if record.learned] or records
        mean = np.mean([record.errors for record in learned], axis=0)
        label = f"{title}, mean of {len(learned)} run{'s' if len(learned) > 1 else ''}"
        histories[label] = [{"epoch": i, "test_error": float(error) / 100} for i, error in enumerate(mean, start=1)]
        idle = len(records) - len(learned)
        lines.append(f"- {label}" + f"; {idle} of {len(records)}, left out, learned nothing" * bool(idle))
    if not histories:
        return "\n".join(["There are no runs to draw yet.", "", *lines, ""])
    draw_curves(histories, page.folder / CURVES_FILE)
    return "\n".join([f"![Mean test error over the epochs]({CURVES_FILE.as_posix()})", "", *lines, ""])


def draw_curves(histories: dict[str, list[dict[str, float]]], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 3.4), facecolor="white", layout="constrained")
    axes = plots.draw_error(figure.subplots(), histories)
    axes.set_title("mean test error on MNIST, %, constant learning rate", fontsize=8, loc="left")
    axes.legend(fontsize=7, frameon=False)
    plots.save([figure], file)


def loss_section(page: Page) -> str:
    """The figure of the centripetal loss, drawn from the code of the loss."""
    plots.save([loss_figure()], page.folder / LOSS_FILE)
    return (
        f"![The centripetal loss]({LOSS_FILE.as_posix()})\n\n"
        "The loss of the capsule of the true class (left) and of another capsule (right), λ included: over the "
        "distance from the centre, and on the plane of capsules with two components. Within the left circle (radius "
        "m) and outside the right one (radius m') there is no loss. The figure needs no runs.\n"
    )


def network_section(page: Page) -> str:
    """The paper's figure 1: the layers of HitNet, with the sizes that the network itself has."""
    config = page.experiment("mnist-hitnet-shared").model
    rows, columns = config.num_classes, config.capsule_dim
    sizes = [" × ".join(map(str, size)) for size in layer_sizes(Network(config))]
    first, second, _, *decoder = sizes
    last = decoder.pop()
    texts = {
        (0, 0): f"image\n{' × '.join(map(str, config.in_shape))}",
        (1, 0): f"convolution\n9 × 9, ReLU\n{first}",
        (2, 0): f"convolution\n9 × 9, step 2, ReLU\n{second}",
        (3, 0): f"Hit-or-Miss layer:\nfully connected,\nbatch-norm, sigmoid\n{rows} capsules of {columns}",
        (4, 0): f"distance to the\ncentre (0.5, …, 0.5)\n{rows}: nearest wins",
        (3, 1): "all capsules but\nthe true one → 0",
        **{(2 - i, 1): f"fully connected\n{size}" for i, size in enumerate(decoder)},
        (0, 1): f"fully connected\n{last}: image rebuilt",
        (4, 1): "centripetal loss",
        (4, 2): "ghost: the nearest\nwrong class has\nno loss",
        (0, 2): "prototype: what is\nrebuilt of the centre",
    }
    arrows = [((i, 0), (i + 1, 0)) for i in range(4)] + [((i + 1, 1), (i, 1)) for i in range(3)]
    arrows += [((3, 0), (3, 1)), ((4, 0), (4, 1)), ((4, 2), (4, 1)), ((0, 1), (0, 2))]
    plots.save([boxes_figure(texts, arrows, red=((3, 0), (4, 1), (4, 2), (0, 2)))], page.folder / NETWORK_FILE)
    return (
        f"![The network]({NETWORK_FILE.as_posix()})\n\nAbove: from an image to its class. Below: the decoder, from the "
        "capsule of the true class to an image. Red: what the paper adds. The sizes are read off the network on images "
        "of MNIST.\n"
    )


def layer_sizes(network: Network) -> list[tuple[int, ...]]:
    """The size of what each convolution and each fully connected layer gives for one image, in their order."""
    sizes: list[tuple[int, ...]] = []

    def note(layer: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
        sizes.append(tuple(result.shape[1:]))

    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(note)
    with torch.no_grad():
        network.eval()(torch.zeros(1, *network.config.in_shape), torch.zeros(1, dtype=torch.long))
    return sizes


def boxes_figure(texts: dict[Cell, str], arrows: Sequence[tuple[Cell, Cell]], *, red: Sequence[Cell]) -> Figure:
    """Boxes with text at cells (column, row) of a grid, some of them red, and arrows between them."""
    from matplotlib.figure import Figure

    columns, rows = (max(cell[axis] for cell in texts) + 1 for axis in (0, 1))
    figure = Figure(figsize=(WIDTH, 0.9 * rows), facecolor="white")
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
    axes.axis("off")
    boxes = {}
    for cell, text in texts.items():
        look = {"boxstyle": "round", "facecolor": "white", "edgecolor": RED if cell in red else BLUE}
        boxes[cell] = axes.text(*cell, text, ha="center", va="center", fontsize=6.5, bbox=look)
    for start, end in arrows:
        how = {"arrowstyle": "->", "color": RED if {start, end} & {*red} else BLUE}
        patches = {"patchA": boxes[start].get_bbox_patch(), "patchB": boxes[end].get_bbox_patch()}
        axes.annotate("", xy=end, xytext=start, arrowprops=how | patches)
    return figure


def draw_prototypes(drawing: Drawing) -> list[Figure]:
    """Each class's central capsule, decoded."""
    return plots.prototype_figures(synthesis.prototypes(drawing.run, device=drawing.device))


def draw_traversal(drawing: Drawing) -> list[Figure]:
    """The central capsule of one class, each component swept over [0.5 − 2m/√n, 0.5 + 2m/√n]."""
    names = drawing.run.class_names
    name = names[min(TRAVERSED_CLASS, len(names) - 1)]
    return plots.traversal_figures(synthesis.traverse(drawing.run, name, device=drawing.device))


def draw_augmentation(drawing: Drawing) -> list[Figure]:
    """Two images, each with 23 modifications."""
    images = open_data(drawing.run.config.data["source"]).load("train").select(range(AUGMENTED_EXAMPLES))
    examples = synthesis.hybrid_examples(drawing.run, images, strength=AUGMENTATION_STRENGTH, device=drawing.device)
    return plots.hybrid_figures(examples)


def draw_reconstructions(drawing: Drawing) -> list[Figure]:
    """The first test images of each class in a row, and below it what the decoder makes of their capsules."""
    images = open_data(drawing.run.config.data["source"]).load("test")
    rows = []
    for place in range(REBUILT_PER_CLASS):
        chosen = [int((images.labels == label).nonzero()[place, 0]) for label in range(images.num_classes)]
        examples = synthesis.hybrid_examples(drawing.run, images.select(chosen), count=1, device=drawing.device)
        rows += [[example.original for example in examples], [example.reconstruction for example in examples]]
    return plots.tile_figures(torch.stack([image for row in rows for image in row]), images.num_classes)


def draw_components(drawing: Drawing) -> list[Figure]:
    """The distributions of the components of one class's capsules, on the test images of that class."""
    names = drawing.run.class_names
    name = names[min(TRAVERSED_CLASS, len(names) - 1)]
    return plots.distribution_figures(
        synthesis.capsule_distributions(drawing.run, split="test", classes=[name], device=drawing.device)
    )


def measure_components(drawing: Drawing) -> dict[str, Any]:
    """Mean, spread and the share within 2m/√n of the centre, by class, over all components: of training and of test."""
    measured: dict[str, Any] = {}
    for split, name in (("train", "by_class"), ("test", "by_class_test")):
        features = synthesis.capsule_distributions(drawing.run, split=split, device=drawing.device)
        rows = features.by_class()
        columns = (rows[column].round(5).tolist() for column in ("class", "images", "mean", "spread", "within"))
        measured |= {"centre": features.centre, "spread": round(features.spread, 6)}
        measured[name] = [list(row) for row in zip(*columns, strict=True)]
    return measured


def components_section(page: Page) -> str:
    """How far the components of true-class capsules are from what the paper expects of them."""
    entry = page.result.picture(page.ledger)
    if entry is None:
        return picture_section(page)
    facts = entry.facts["measured"]
    tables = []
    for title, name in (("training images", "by_class"), ("test images", "by_class_test")):
        rows = [
            [label, f"{images:,}", f"{mean:.3f}", f"{spread:.4f}", f"{100 * within:.1f}"]
            for label, images, mean, spread, within in facts.get(name, ())
        ]
        header = ("class", title, "mean", "standard deviation", "% within ± 2m/√n of 0.5")
        tables.append(table(header, rows) if rows else f"Not measured on {title} yet.\n")
    note = (
        f"The paper expects components around {facts['centre']} with the standard deviation m/√n = "
        f"{facts['spread']:.4f}, so that {EXPECTED_WITHIN} % lie within ± 2m/√n. Over all components of the true "
        "class's capsules:\n\n"
    )
    shown = "The picture shows the test images of one class.\n"
    return note + "\n".join(tables) + "\n" + picture_section(page) + "\n" + shown


def draw_picture(result: Result, drawing: Drawing, ledger: Ledger, folder: Path, report: Callable[[str], None]) -> None:
    """Draw a result's picture, and record in the ledger which run it shows."""
    if result.draw is None:
        return
    name = result.experiments[0]
    files = plots.save(result.draw(drawing), folder / FOLDER / f"{name}-{result.name}.png")
    facts: dict[str, Any] = {"files": [file.relative_to(folder).as_posix() for file in files]}
    facts["weights"] = drawing.weights
    if result.measure is not None:
        facts["measured"] = result.measure(drawing)
    ledger.add_if_new(Entry(PICTURE, name, (result.seed,), facts, result.name))
    for file in files:
        report(f"written: {file}")


def image_line(page: Page, title: str, file: str, *, drawn_by: str | None = None) -> str:
    """An image in Markdown, or a sentence if its file is missing.

    Args:
        drawn_by: The experiment whose recorded analysis the image can be drawn from, if any.
    """
    if (page.folder / file).is_file():
        return f"![{title}]({file})"
    hint = "" if drawn_by is None else f"; `python -m reproduction {drawn_by}` draws it"
    return f"The file {file} is missing from this copy{hint}."


def picture_section(page: Page) -> str:
    """The picture with the run that it shows, or the command that draws it."""
    result, name = page.result, page.result.experiments[0]
    entry = result.picture(page.ledger)
    if entry is None:
        return (
            f"Not drawn yet: it needs the weights of one run of {name} ({page.cost(name, 1)}): "
            f"`python -m reproduction {result.name}`\n"
        )
    images = [image_line(page, result.title, file) for file in entry.facts["files"]]
    origin = f"Drawn from {name}, seed {result.seed}, weights {entry.facts['weights']}."
    counted = full_runs(page.ledger, page.experiment(name)).get(result.seed)
    if counted is not None and counted.weights != entry.facts["weights"]:
        origin += f" The run with this seed in the tables is another training (weights {counted.weights})."
    return "\n\n".join([*images, origin]) + "\n"
