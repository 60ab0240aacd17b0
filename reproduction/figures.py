"""The paper's figures: curves from the ledger, and pictures that need a network's weights.

A picture is drawn once from a run folder, kept as a file, and named in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hitnet import plots, synthesis
from hitnet.synthesis.distributions import run_images
from reproduction.book import PICTURE_SEED, Drawing, Page, Result
from reproduction.experiments import TITLES
from reproduction.ledger import PICTURE, Entry, Ledger
from reproduction.page import table
from reproduction.records import full_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path("images") / "paper"
CURVES_FILE = FOLDER / "curves.png"
LOSS_FILE = FOLDER / "loss.png"
TABLE1_NETWORKS = {network: TITLES[network] for network in ("n1", "n2", "n2b", "hitnet")}
TABLE1_CONSTANT = tuple(f"mnist-{network}-constant" for network in TABLE1_NETWORKS)
TRAVERSED_CLASS = 3  # any would do: the paper speaks of all
# The paper does not say how far it modifies capsules: a noise of m/√n is our reading, from its section on generation.
AUGMENTED_EXAMPLES, AUGMENTATION_STRENGTH = 2, 1.0


def curves_section(page: Page) -> str:
    """The figure beside table 1: mean test error over the epochs of the four networks, constant rate."""
    histories, lines = {}, []
    for title, name in zip(TABLE1_NETWORKS.values(), TABLE1_CONSTANT, strict=True):
        records = page.records(name)
        if not records:
            lines.append(f"- {title}: {page.missing(name)}")
            continue
        mean = np.mean([record.errors for record in records], axis=0)
        label = f"{title}, mean of {len(records)} run{'s' if len(records) > 1 else ''}"
        histories[label] = [{"epoch": i, "test_error": float(error) / 100} for i, error in enumerate(mean, start=1)]
        lines.append(f"- {label}")
    if not histories:
        return "\n".join(["There are no runs to draw yet.", "", *lines, ""])
    draw_curves(histories, page.docs / CURVES_FILE)
    return "\n".join([f"![Mean test error over the epochs]({CURVES_FILE.as_posix()})", "", *lines, ""])


def draw_curves(histories: dict[str, list[dict[str, float]]], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(plots.sheet.WIDTH, 3.4), facecolor="white", layout="constrained")
    axes = plots.draw_error(figure.subplots(), histories)
    axes.set_title("mean test error on MNIST, %, constant learning rate", fontsize=8, loc="left")
    axes.legend(fontsize=7, frameon=False)
    plots.save([figure], file)


def loss_section(page: Page) -> str:
    """The figure of the centripetal loss, drawn from the code of the loss."""
    plots.save([plots.loss_figure()], page.docs / LOSS_FILE)
    return (
        f"![The centripetal loss]({LOSS_FILE.as_posix()})\n\n"
        "The loss of the capsule of the true class (left) and of another capsule (right), λ included: over the "
        "distance from the centre, and on the plane of capsules with two components. Within the left circle (radius "
        "m) and outside the right one (radius m') there is no loss. The figure needs no runs.\n"
    )


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
    images = run_images(drawing.run).select(range(AUGMENTED_EXAMPLES))
    examples = synthesis.hybrid_examples(drawing.run, images, strength=AUGMENTATION_STRENGTH, device=drawing.device)
    return plots.hybrid_figures(examples)


def draw_components(drawing: Drawing) -> list[Figure]:
    """The distributions of the components of one class's capsules, on the training images of that class."""
    names = drawing.run.class_names
    name = names[min(TRAVERSED_CLASS, len(names) - 1)]
    return plots.distribution_figures(
        synthesis.capsule_distributions(drawing.run, classes=[name], device=drawing.device)
    )


def measure_components(drawing: Drawing) -> dict[str, Any]:
    """Mean, spread and the share within 2m/√n of the centre, by class, over all components and training images."""
    features = synthesis.capsule_distributions(drawing.run, device=drawing.device)
    rows = features.by_class()
    columns = (rows[name].round(5).tolist() for name in ("class", "images", "mean", "spread", "within"))
    by_class = [list(row) for row in zip(*columns, strict=True)]
    return {"centre": features.centre, "spread": round(features.spread, 6), "by_class": by_class}


def components_section(page: Page) -> str:
    """How far the components of true-class capsules are from what the paper expects of them."""
    entry = page.result.picture(page.ledger)
    if entry is None:
        return picture_section(page)
    facts = entry.facts["measured"]
    rows = [
        [name, f"{images:,}", f"{mean:.3f}", f"{spread:.4f}", f"{100 * within:.1f}"]
        for name, images, mean, spread, within in facts["by_class"]
    ]
    header = ("class", "training images", "mean", "standard deviation", "% within ± 2m/√n of 0.5")
    note = (
        f"The paper expects components around {facts['centre']} with the standard deviation m/√n = "
        f"{facts['spread']:.4f}, so that 95.4 % lie within ± 2m/√n. Over all components of the true class's capsules:"
        "\n\n"
    )
    return note + table(header, rows) + "\n" + picture_section(page)


def draw_picture(result: Result, drawing: Drawing, ledger: Ledger, docs: Path, say: Callable[[str], None]) -> None:
    """Draw a result's picture, and record in the ledger which run it shows."""
    if result.draw is None:
        return
    files = plots.save(result.draw(drawing), docs / FOLDER / f"{result.name}.png")
    facts: dict[str, Any] = {"files": [file.relative_to(docs).as_posix() for file in files]}
    facts["weights"] = drawing.weights
    if result.measure is not None:
        facts["measured"] = result.measure(drawing)
    ledger.add_if_new(Entry(PICTURE, result.experiments[0], (PICTURE_SEED,), facts, result.name))
    for file in files:
        say(f"written: {file}")


def image_line(page: Page, title: str, file: str, *, drawn_by: str | None = None) -> str:
    """An image in Markdown, or a sentence if its file is missing.

    Args:
        drawn_by: The experiment whose recorded analysis the image can be drawn from, if any.
    """
    if (page.docs / file).is_file():
        return f"![{title}]({file})"
    hint = "" if drawn_by is None else f"; `python -m reproduction {drawn_by}` draws it"
    return f"The file {file} is missing from this copy{hint}."


def picture_section(page: Page) -> str:
    """The picture with the run that it shows, or the command that draws it."""
    result = page.result
    name = result.experiments[0]
    entry = result.picture(page.ledger)
    if entry is None:
        return f"Not drawn yet: it needs the weights of one run ({page.cost(name, 1)}): `python -m reproduction {result.name}`\n"
    images = [image_line(page, result.title, file) for file in entry.facts["files"]]
    origin = f"Drawn from {name}, seed {PICTURE_SEED}, weights {entry.facts['weights']}."
    counted = full_runs(page.ledger, page.experiment(name)).get(PICTURE_SEED)
    if counted is not None and counted.weights != entry.facts["weights"]:
        origin += f" The run with this seed in the tables is another training (weights {counted.weights})."
    return "\n\n".join([*images, origin]) + "\n"


LOSS = Result("loss", "The centripetal loss", "the figure of the loss, section 2", (), loss_section, paper_runs="")
CURVES = Result(
    "curves",
    "Error over the epochs",
    "the figure beside table 1",
    TABLE1_CONSTANT,
    curves_section,
    paper_runs="80",
)
PROTOTYPES = Result(
    "prototypes",
    "Prototypes of the digits",
    "the figure of prototypes, section 3.2",
    ("mnist-hitnet-constant",),
    picture_section,
    draw_prototypes,
    paper_runs="1",
)
TRAVERSAL = Result(
    "traversal",
    "What the components of a capsule draw",
    "section 3.2",
    ("mnist-hitnet-constant",),
    picture_section,
    draw_traversal,
)
COMPONENTS = Result(
    "components",
    "Distribution of the components of capsules",
    "section 3.2",
    ("mnist-hitnet-constant",),
    components_section,
    draw_components,
    paper_runs="not given",
    measure=measure_components,
)
AUGMENTATION = Result(
    "augmentation",
    "Examples of hybrid augmentation",
    "the figure of hybrid augmentation, section 3.2",
    ("fashion-hitnet",),
    picture_section,
    draw_augmentation,
)
