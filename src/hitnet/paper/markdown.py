"""What the rendered results share: tables in Markdown, and cells that say how sure they are."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from hitnet.losses import MISS_WEIGHT
from hitnet.paper.book import Page
from hitnet.paper.claims import Claim
from hitnet.paper.cost import H200
from hitnet.paper.experiments import Experiment
from hitnet.paper.records import RunRecord
from hitnet.paper.statistics import Summary, differs, summarise

NONE = "–"
MARK = "**≠**"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def number(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def beside(ours: float | None, claimed: float | None, digits: int) -> str:
    """Our figure, and the paper's in brackets."""
    return f"{number(ours, digits)} ({number(claimed, digits)})"


def mean_cell(summary: Summary, claim: Claim | None) -> str:
    """Our mean with its interval, marked where the paper's lies outside of it."""
    digits = 3 if summary.mean < 1 else 2
    if summary.interval is None:
        return f"{summary.mean:.{digits}f}, no interval from one run"
    low, high = summary.interval
    text = f"{summary.mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
    if claim and claim.mean is not None and differs(summary, claim.mean, half_unit=claim.half_unit):
        text += f" {MARK}"
    return text


def runs_cell(page: Page, name: str, summary: Summary | None) -> str:
    failed = f", {len(page.diverged(name))} diverged" if page.diverged(name) else ""
    return made_of(summary.runs if summary else 0, page.experiment(name).wanted) + failed


def made_of(made: int, wanted: int) -> str:
    return f"{made} of {wanted}" if made <= wanted and wanted else f"{made}, {wanted or 'not'} planned"


def seconds_cell(records: Sequence[RunRecord]) -> str:
    """The mean time of a run and how many were trained side by side; devices that are not an H200 with their names."""
    found: dict[str, list[RunRecord]] = {}
    for record in records:
        found.setdefault(record.device, []).append(record)
    cells = []
    for device, runs in sorted(found.items()):
        mean = statistics.mean(run.seconds for run in runs)
        words = f"{mean:.{0 if mean >= 10 else 1}f} ({side_by_side(runs)})"
        cells.append(words + ("" if device == H200 else f" on {device}"))
    return "; ".join(cells) or NONE


def side_by_side(runs: Sequence[RunRecord]) -> str:
    """How many networks were trained side by side: "8", or "5 to 8"."""
    counts = sorted({run.beside for run in runs})
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))


ERROR_HEADER = (
    "",
    "paper, error %",
    "here, error % [95 %]",
    "std",
    "best",
    "runs here",
    "s a model",
    "missing",
)


def error_row(page: Page, title: str, name: str, compared: str | None = None) -> list[str]:
    """A row of ERROR_HEADER for one experiment; `compared` names the one whose error in the paper stands beside it,
    where it is not the same."""
    claim, records = page.book.claims.get(compared or name), page.records(name)
    summary = summarise(records)
    said = number(claim.mean if claim else None, 1 if claim and claim.half_unit > 0.01 else 2)
    if claim and claim.best is not None:
        said += f" (best {claim.best:.2f})"
    if claim and claim.runs is None:
        said += " (runs not given)"
    runs = runs_cell(page, name, summary)
    if summary is None:
        return [title, said, NONE, NONE, NONE, runs, NONE, page.missing(name)]
    mean = mean_cell(summary, claim if compared is None else None)
    figures = [mean, number(summary.std, 3), number(summary.best)]
    return [title, said, *figures, runs, seconds_cell(records), page.missing(name)]


def error_table(page: Page, rows: Sequence[tuple[str, str] | tuple[str, str, str]]) -> str:
    """Errors of several experiments: (title, experiment), or (title, experiment, the one of the paper beside it)."""
    return table(ERROR_HEADER, [error_row(page, *row) for row in rows])


def recipe_words(one: Experiment) -> list[str]:
    """How an experiment is trained; of the network itself only the size of its capsules is told."""
    made = one.full_recipe()
    words = [f"{made.epochs} epochs", f"{made.optimizer} at {made.learning_rate:g}", made.schedule]
    words.append(f"batches of {made.batch_size}")
    for name in ("weight_decay", "shift", "flip", "cutout", "warp", "invert", "average", "label_smoothing"):
        value = getattr(made, name)
        if value:
            words.append(name.replace("_", " ") + ("" if value is True else f" {value:g}"))
    if made.miss_weight != MISS_WEIGHT:
        words.append(f"misses weigh {made.miss_weight:g}")
    if "capsule_dim" in one.model_options:
        words.append(f"capsules of {one.model_options['capsule_dim']}")
    if one.teacher:
        share, strength = made.augment_share, made.augment_strength
        words.append(f"{100 * share:g} % of each batch modified by {one.teacher} (strength {strength:g})")
    return words


def tested_on(page: Page, name: str) -> str:
    """Which test images the runs were tested on: affNIST's own, or rebuilt ones."""
    found = sorted({record.tested_on for record in page.records(name)})
    return f"\n{page.experiment(name).title}: tested on {', '.join(found)}.\n" if found else ""
