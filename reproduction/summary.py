"""The page "Was the paper reproduced?" (README.md of this folder), written from the ledger."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hitnet.runtime import write_text
from reproduction.book import EVERYTHING, Book, Finding
from reproduction.cells import table
from reproduction.cost import H200, Costs, duration_text
from reproduction.experiments import AFFNIST, CIFAR10, FASHION, MNIST, SVHN
from reproduction.ledger import ANALYSIS, Ledger
from reproduction.verdicts import (
    AGREES,
    DIFFERS,
    DOUBTFUL_MARGIN,
    GHOST_SHARE_MARGIN,
    MARGINS,
    SPEED_MARGIN,
    UNDECIDED,
)

SUMMARY = "README.md"
COMMANDS = ("table1-constant", "table1-decay", "table2", "table3", "ghosts-mnist", EVERYTHING)
READINGS = """## How we read what the paper leaves open

- **Batch-norm** over a K×n matrix: n means and variances, which all classes share, as Keras computes them by default.
  Our first reading, one of each class and component, is kept as an arm; so is a third, one of each class.
- **α** is the paper's 0.392 on all data sets, although it stands for 0.0005 per pixel of an image of 28×28.
- **Shifts** are up to 2 pixels with zeros at the edge, as the paper says, on every data set, without mirroring.
- **Hybrid images**: all images are modified, one component of each capsule within ±2m/√n, by a network of the same kind
  that was trained without them.
- **Ghosts**: one per image, from the first step on; read without shifts at the end of 60 or 250 epochs.
"""
PUZZLES = """## What we cannot explain

- N1, N2 and N2b have lower errors here than in the paper.
- CIFAR-10 reaches the paper's error only with longer shifts than it names, SVHN only if their edges are also filled
  with the nearest pixel ([readings](results.md#readings)). By the paper's words, HitNet does not beat Guo's CapsNet
  (27.21 %) on CIFAR-10.
- affNIST: a lower error than in the paper without shifts, a higher one with them; but our test images are rebuilt.
"""


def write_summary(book: Book, ledger: Ledger, folder: str | Path) -> Path:
    """Write the summary into a folder, beside the page of results; gives its path."""
    place = Path(folder)
    found = book.findings(book, ledger)
    rows = [[row.result, row.paper, row.ours, row.runs, row.verdict] for row in found]
    parts = [
        f"# Was the paper reproduced?\n\n{verdict_words(found)}",
        table(("result", "paper", "ours", "runs", "verdict"), rows),
        READINGS,
        PUZZLES,
        commands(book),
        pictures(book, ledger, place),
    ]
    write_text(place / SUMMARY, "\n".join(parts))
    return place / SUMMARY


def verdict_words(found: list[Finding]) -> str:
    """The first paragraph: how many results agree, and by which rule."""
    counts = Counter(row.verdict for row in found)
    titles = {facts.data: facts.title for facts in (MNIST, FASHION, SVHN, CIFAR10, AFFNIST)}
    margins = ", ".join(f"{margin:g} ({titles[data]})" for data, margin in MARGINS.items())
    return (
        f"Of {len(found)} results of *HitNet* (Deliège, Cioppa and Van Droogenbroeck, 2018), **{counts[AGREES]} agree, "
        f"{counts[DIFFERS]} differ, {counts[UNDECIDED]} are undecided.** A result agrees if the 95 % interval of its "
        f"difference from the paper lies within a margin, in percentage points: {margins}; for ghosts "
        f"{GHOST_SHARE_MARGIN:g} points and {DOUBTFUL_MARGIN:g} images, for speed {SPEED_MARGIN:g} times. It differs "
        "if the interval excludes 0. Else, and without enough runs for an interval, it is undecided. Errors are those "
        "of the last epoch. [All figures](results.md), like this page, are written from the ledger of runs.\n"
    )


def commands(book: Book) -> str:
    """The commands that repeat the runs, and how long all runs of each take."""
    costs = Costs(H200)
    lines = []
    for name in (name for name in COMMANDS if name in (*book.results, EVERYTHING)):
        _, experiments = book.look_up(name)
        seconds = sum(costs.seconds_for_runs(experiment, experiment.wanted) for experiment in experiments)
        lines.append(f"    python -m reproduction {name:<18}# {duration_text(seconds)}")
    return (
        "## Make the runs yourself\n\n"
        "The times are of all planned runs on one NVIDIA H200, networks side by side. A command makes only the runs "
        "that the ledger lacks (`--ledger mine.jsonl` starts an empty one), and resumes after an interruption.\n\n"
        "    make reproduce                            # list results, progress and the time left on this machine\n"
        + "\n".join(lines)
        + "\n    python -m reproduction --render           # write this page and results.md\n"
    )


def pictures(book: Book, ledger: Ledger, folder: Path) -> str:
    """Three pictures, where they are drawn, each with the networks that it shows."""
    ghosts = "mnist-ghosts-shared"
    drawn = [("Mean test error on MNIST over the epochs, constant rate", ["images/curves.png"])]
    drawn += [
        (
            f"The doubtful images that {len(entry.seeds)} networks with ghosts find in MNIST ({ghosts})",
            entry.facts["files"],
        )
        for entry in ledger.select(ANALYSIS, ghosts)
    ]
    prototypes = book.results["prototypes"].picture(ledger) if "prototypes" in book.results else None
    if prototypes is not None:
        drawn.append((f"Prototypes of the digits ({prototypes.experiment})", prototypes.facts["files"]))
    shown = [
        f"![{title}]({files[0]})\n\n*{title}.*" for title, files in drawn if files and (folder / files[0]).is_file()
    ]
    return "\n\n".join(["## Three pictures", *shown]) + "\n" if shown else ""
