"""The page of results (docs/results.md), written from the ledger, and the table cells that its sections share.

The discussion of a result is written by hand, in docs/discussion/RESULT.md, and copied into its section.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from hitnet.errors import HitNetError
from hitnet.runtime import files
from reproduction.book import Book, Page, Result, standing
from reproduction.claims import Claim
from reproduction.cost import H200, Costs, in_words
from reproduction.ledger import RUN, Ledger, source_root
from reproduction.records import (
    Difference,
    RunRecord,
    Summary,
    all_records,
    differs,
    diverged_runs,
    short_runs,
    summarise,
)

NONE = "–"
MARK = "**≠**"
PAGE, DISCUSSION = "results.md", "discussion"
ERROR_HEADER = (
    "",
    "paper, error %",
    "here, error % [95 %]",
    "std",
    "best",
    "runs here",
    "s per model",
    "missing",
)
HEAD = f"""# The paper's results, reproduced

`python -m reproduction --render` writes this page from the ledger of runs (`{{ledger}}`). To change
it, make runs; do not edit it. `python -m reproduction NAME` makes the missing runs.

- An error is the percentage of wrong test images at the end of training; no epoch is chosen by its test error.
- "std" is the standard deviation between runs (n − 1). "Irregularity" is the standard deviation of the last 100
  epochs' errors, averaged over the runs. Both are in percentage points, which is how we read the paper's "× 10⁻²".
- [a, b] is the 95 % confidence interval of the mean (Student's t). {MARK} marks a published mean outside this
  interval, after allowing for its rounding; the spread of the paper's runs is not taken into account.
- The paper's figures are means of 20 runs unless stated otherwise. "Runs here" counts ours, of those planned: most rows
  plan fewer than the paper has.
- "s per model" is the mean time of a run on an H200, tests included. Networks trained side by side share the time
  equally; their number is in brackets. Few networks do not fill a GPU, so compare only times with the same number.
- Rows called "ours" are not the paper's: other recipes for its network, and Hit-or-Miss on a residual network (see
  [ours](#ours)). The best run is shown beside the mean, never instead of it.
- Times of missing runs are estimates for one NVIDIA H200, from measured speeds; `python -m reproduction --list` shows those
  of your machine.
{{precision}}"""


def write_page(book: Book, ledger: Ledger, docs: str | Path) -> Path:
    """Write the page and its figures.

    Args:
        docs: The folder of the page.

    Returns:
        The page's path.
    """
    folder = Path(docs)
    head = HEAD.format(ledger=shown_path(ledger.path), precision=precision_line(book, ledger))
    parts = [head, overview_table(book, ledger)]
    parts += [section(Page(book, ledger, folder, result)) for result in book.results.values()]
    parts += [part for part in (diverged_section(book, ledger), short_section(book, ledger)) if part]
    files.write_text(folder / PAGE, "\n".join(parts))
    return folder / PAGE


def shown_path(path: Path) -> str:
    """A file of the repository by its place there, another by its name."""
    root = source_root()
    resolved = path.resolve()
    if root is not None and resolved.is_relative_to(root):
        return resolved.relative_to(root).as_posix()
    return path.name


def precision_line(book: Book, ledger: Ledger) -> str:
    """How many runs train and test in mixed precision on a GPU; empty without runs."""
    records = [record for name, record in all_records(ledger) if name in book.experiments]
    if not records:
        return ""
    mixed = sum(
        # The first records were made before there was another precision.
        record.recipe.get("precision", "mixed") == "mixed" and not record.device.startswith("cpu")
        for record in records
    )
    count = f"all {mixed}" if mixed == len(records) else f"{mixed} of {len(records)}"
    rest = "" if mixed == len(records) else " The others train in float32."
    return (
        f'- Precision: {count} runs here train and test with matrix products in bfloat16 on a GPU ("mixed");\n'
        f"  batch-norm, distances and losses are in float32.{rest} The paper does not give its precision.\n"
    )


def overview_table(book: Book, ledger: Ledger) -> str:
    """All results: runs in the paper, runs done here of those planned, and the time of the missing ones."""
    costs = Costs(H200)
    rows = []
    for name, result in book.results.items():
        now = standing(book, name, ledger, costs)
        left = in_words(now.seconds) if now.seconds else "nothing"
        runs_here = f"{now.done} of {now.wanted}" if result.experiments else NONE
        rows.append([f"[{name}](#{name})", result.title, result.where, result.paper_runs or NONE, runs_here, left])
    runs = sum(len(ledger.select(RUN, name)) for name in book.experiments)
    note = "" if runs else "**The ledger is empty: no run has been made yet.**\n\n"
    header = (
        "result",
        "what it is",
        "in the paper",
        "runs in the paper",
        "runs here, of plan",
        "left of plan, H200",
    )
    return note + table(header, rows)


def section(page: Page) -> str:
    """A result's section: heading, tables and figures, discussion."""
    result = page.result
    body, words = result.section(page), discussion(page.docs, result)
    if words is None and MARK in body:
        place = f"`{DISCUSSION}/{result.name}.md` beside this page"
        words = f"*This difference is not discussed yet; write the discussion in {place}.*\n"
    heading = f"## {result.name}\n{result.title} ({result.where}).\n\n"
    return heading + body + (f"\n{words}" if words else "")


def discussion(docs: Path, result: Result) -> str | None:
    """The text that was written by hand about a result, if there is one."""
    path = docs / DISCUSSION / f"{result.name}.md"
    try:
        return path.read_text(encoding="utf-8").strip() + "\n" if path.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise HitNetError(f"{path} cannot be read: {error}. A discussion must be plain text in UTF-8.") from error


def diverged_section(book: Book, ledger: Ledger) -> str:
    """The runs that diverged, which no mean contains; empty if there are none."""
    rows = [
        [name, str(seed), reason]
        for name, experiment in book.experiments.items()
        for seed, reason in sorted(diverged_runs(ledger, experiment).items())
    ]
    if not rows:
        return ""
    heading = '## Diverged runs\nThe means above do not include them; "runs here" gives their number.\n\n'
    return heading + table(("experiment", "seed", "why"), rows)


def short_section(book: Book, ledger: Ledger) -> str:
    """The shortened runs, which no table counts; empty if there are none."""
    rows = [
        [name, str(entry.seeds[0]), entry.label, f"{record.error:.2f}", record.device]
        for name, experiment in book.experiments.items()
        for entry, record in short_runs(ledger, experiment)
    ]
    if not rows:
        return ""
    heading = "## Short runs\nThese runs have fewer epochs or images; no table above includes them.\n\n"
    return heading + table(("experiment", "seed", "short", "error %", "device"), rows)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def number(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def beside_claim(ours: float | None, claimed: float | None, digits: int) -> str:
    """Our figure, and the paper's in brackets."""
    return f"{number(ours, digits)} ({number(claimed, digits)})"


def mean_cell(summary: Summary, claim: Claim | None, *, of: str = "run") -> str:
    """Our mean with its interval, marked if the paper's mean lies outside of it; `of` is what the mean is of."""
    digits = digits_of(summary.mean)
    if summary.interval is None:
        return f"{summary.mean:.{digits}f}, no interval from one {of}"
    low, high = summary.interval
    text = f"{summary.mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
    if claim and claim.mean is not None and differs(summary, claim.mean, half_unit=claim.half_unit):
        text += f" {MARK}"
    return text


def digits_of(error: float) -> int:
    """How many digits of an error in % are worth showing."""
    return 3 if error < 1 else 2


def change_cell(between: Difference | None) -> str:
    """The difference of two means with its interval."""
    if between is None:
        return NONE
    low, high = between.interval
    return f"{between.mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def runs_cell(page: Page, name: str, summary: Summary | None) -> str:
    """Runs made and wanted, and how many diverged."""
    diverged = f", {len(page.diverged(name))} diverged" if page.diverged(name) else ""
    return made_of(summary.runs if summary else 0, page.experiment(name).wanted) + diverged


def made_of(made: int, wanted: int) -> str:
    """Runs made and wanted: "3 of 5", or "4, 3 planned" where more were made than wanted."""
    return f"{made} of {wanted}" if made <= wanted and wanted else f"{made}, {wanted or 'not'} planned"


def seconds_cell(records: Sequence[RunRecord]) -> str:
    """The mean time of a run and how many were trained side by side; devices other than an H200 are named."""
    by_device: dict[str, list[RunRecord]] = {}
    for record in records:
        by_device.setdefault(record.device, []).append(record)
    cells = []
    for device, runs in sorted(by_device.items()):
        mean = statistics.mean(run.seconds for run in runs)
        cell = f"{mean:.{0 if mean >= 10 else 1}f} ({side_by_side(runs)})"
        cells.append(cell + ("" if device == H200 else f" on {device}"))
    return "; ".join(cells) or NONE


def side_by_side(runs: Sequence[RunRecord]) -> str:
    """How many networks were trained side by side: "8", or "5 to 8"."""
    counts = sorted({run.beside for run in runs})
    return " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))


def claim_cell(claim: Claim | None) -> str:
    """The paper's mean, with as many digits as it gives, its best run, and whether the number of runs is known."""
    if claim is None:
        return NONE
    best = "" if claim.best is None else f" (best {claim.best:.2f})"
    runs = " (runs not given)" if claim.runs is None else ""
    return number(claim.mean, 1 if claim.half_unit > 0.01 else 2) + best + runs


def error_row(page: Page, title: str, name: str, compared: str | None = None) -> list[str]:
    """A row under ERROR_HEADER for one experiment.

    Args:
        compared: The experiment whose error in the paper is shown beside it; None: its own.
    """
    claim, records = page.book.claims.get(compared or name), page.records(name)
    summary = summarise(records)
    claimed, runs = claim_cell(claim), runs_cell(page, name, summary)
    if summary is None:
        return [title, claimed, NONE, NONE, NONE, runs, NONE, page.missing(name)]
    mean = mean_cell(summary, claim if compared is None else None)
    figures = [mean, number(summary.std, 3), number(summary.best)]
    return [title, claimed, *figures, runs, seconds_cell(records), page.missing(name)]


def error_table(page: Page, rows: Sequence[tuple[str, str] | tuple[str, str, str]]) -> str:
    """Errors of several experiments: (title, experiment), or (title, experiment, the paper's experiment beside it)."""
    return table(ERROR_HEADER, [error_row(page, *row) for row in rows])


def tested_on_line(page: Page, name: str) -> str:
    """Which test images the runs were tested on: affNIST's own, or rebuilt ones; empty without runs."""
    names = sorted({record.tested_on for record in page.records(name)})
    return f"\n{page.experiment(name).title}: tested on {', '.join(names)}.\n" if names else ""
