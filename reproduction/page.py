"""The page of results (results.md), written from the ledger: an appendix with a section per table or figure.

The discussion of a result is written by hand, in discussion/RESULT.md beside the page, and copied into its section.
"""

from __future__ import annotations

import os
from pathlib import Path

from hitnet import HitNetError
from hitnet.runtime import write_text
from reproduction.book import Book, Page, Result, completion
from reproduction.cells import NONE, table
from reproduction.cost import H200, Costs, duration_text
from reproduction.ledger import RUN, Ledger
from reproduction.provenance import source_root
from reproduction.records import all_records, diverged_runs, short_runs
from reproduction.verdicts import DIFFERS

PAGE, DISCUSSION = "results.md", "discussion"
HEAD = """# The paper's results, in detail

The [summary](README.md) says what was reproduced. `python -m reproduction --render` writes both pages from the ledger
of runs (`{ledger}`). To change them, make runs: `python -m reproduction NAME`.

- An error is the percentage of wrong test images at the end of training; no epoch is chosen by its test error.
- "std" is the standard deviation between runs (n − 1). "Irregularity" is the standard deviation of the last 100
  epochs' errors, averaged over the runs. Both are in percentage points, which is how we read the paper's "× 10⁻²".
- [a, b] is the 95 % confidence interval of the mean (Student's t). The word after it is the verdict by the
  [summary's rule](README.md#the-rule).
- The paper's figures are means of 20 runs unless stated otherwise. "Runs here" counts ours, of those planned.
- The name of an experiment says which batch-norm its networks have: "shared" (n statistics, which all classes share;
  the paper's, as we read it), "each" (K·n statistics) or "class" (K statistics). See [readings](#readings).
- "s per model" is the mean time of a run on an H200, tests included. Networks trained side by side share the time
  equally; their number is in brackets. Few networks do not fill a GPU, so compare only times with the same number.
- Times of missing runs are estimates for one NVIDIA H200, from measured speeds; `python -m reproduction --list` shows
  those of your machine.
{precision}"""


def write_page(book: Book, ledger: Ledger, folder: str | Path) -> Path:
    """Write the page and its figures into a folder; gives the page's path."""
    place = Path(folder)
    head = HEAD.format(ledger=shown_path(ledger.path), precision=precision_line(book, ledger))
    parts = [head, overview_table(book, ledger)]
    parts += [part for part in (comparisons_section(book, ledger),) if part]
    parts += [section(Page(book, ledger, place, result)) for result in book.results.values()]
    parts += [part for part in (diverged_section(book, ledger), short_section(book, ledger)) if part]
    write_text(place / PAGE, "\n".join(parts))
    return place / PAGE


def shown_path(path: Path) -> str:
    """A file of the repository by its place there, another by its name."""
    root = source_root()
    resolved = Path(os.path.realpath(path))  # also of a link to itself
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
        now = completion(book, name, ledger, costs)
        left = duration_text(now.seconds) if now.seconds else "nothing"
        runs_here = f"{now.done} of {now.wanted}" if result.experiments else NONE
        rows.append([f"[{name}](#{name})", result.title, result.where, result.paper_runs or NONE, runs_here, left])
    runs = sum(len(ledger.select(RUN, name)) for name in book.experiments)
    note = "" if runs else "**The ledger is empty: no run has been made yet.**\n\n"
    columns = ("result", "what it is", "in the paper", "runs in the paper", "runs here, of plan", "left of plan, H200")
    return note + table(columns, rows)


def comparisons_section(book: Book, ledger: Ledger) -> str:
    """What the summary says of A against B, by the last epoch and by the last ten; empty without such statements."""
    found = [finding for row in book.findings(book, ledger) for finding in row if finding.direction]
    if not found:
        return ""
    rows = [[each.result, each.paper, each.ours, each.last_ten, each.verdict, each.direction] for each in found]
    header = ("A is better than B", "paper", "last epoch", "mean of the last ten epochs", "size", "direction")
    return (
        "## comparisons\nThe [summary](README.md)'s differences between networks, in percentage points, with 95 % "
        "intervals. Runs that learned nothing count; round brackets give the figure without them. Size and direction "
        "must follow from the last epoch and from the last ten; else they are undecided and open. Against a published "
        "CapsNet, the size differs as much as HitNet's error does, because CapsNet's figure is the same for us and for "
        "the paper.\n\n" + table(header, rows)
    )


def section(page: Page) -> str:
    """A result's section: heading, tables and figures, discussion."""
    result = page.result
    body, words = result.section(page), discussion(page.folder, result)
    if words is None and f", {DIFFERS} |" in body:
        place = f"`{DISCUSSION}/{result.name}.md` beside this page"
        words = f"*This difference is not discussed yet; write the discussion in {place}.*\n"
    heading = f"## {result.name}\n{result.title} ({result.where}).\n\n"
    return heading + body + (f"\n{words}" if words else "")


def discussion(folder: Path, result: Result) -> str | None:
    """The text that was written by hand about a result, if there is one."""
    path = folder / DISCUSSION / f"{result.name}.md"
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
