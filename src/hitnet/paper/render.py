"""The page of results (docs/results.md) and its figures, from the ledger alone.

Words of discussion are written by hand, in docs/discussion/RESULT.md, and taken over as they are.
"""

from __future__ import annotations

from pathlib import Path

from hitnet import files
from hitnet.errors import HitNetError
from hitnet.paper.book import Book, Page, Result, standing
from hitnet.paper.cost import H200, Costs, in_words
from hitnet.paper.ledger import RUN, Ledger
from hitnet.paper.markdown import MARK, table
from hitnet.paper.origin import source_root
from hitnet.paper.records import diverged_runs, short_runs

PAGE, DISCUSSION = "results.md", "discussion"
HEAD = f"""# The paper's results, reproduced

This page is written by `hitnet reproduce --render` from the ledger of runs (`{{ledger}}`): change
the ledger, by making runs, not the page. `hitnet reproduce NAME` makes the runs that are missing.

- Errors are those at the end of training, in percent of the test images; none is chosen by the test set.
- std is the standard deviation between runs (n − 1). Irregularity is the mean, over the runs, of the standard deviation
  of the last 100 epochs' errors. Both are in percentage points, which is what the paper's "× 10⁻²" amounts to.
- [a, b] is the 95 % interval of the mean by Student's t. {MARK} marks a published mean that lies outside of it, its own
  rounding allowed for; the paper's own spread is not taken into account.
- The paper's figures are means of 20 runs unless said otherwise; "runs here" says how many ours are of.
- s a model is the mean time of a run on an H200, tests included: an equal share of it, where networks are trained
  side by side. How many were is in brackets; few do not fill a GPU, so only times with like brackets can be compared.
- Rows called ours are not the paper's: other recipes for its network, and Hit-or-Miss on a residual network (see
  [ours](#ours)). The best run stands beside the mean, never for it.
- Costs are estimates for one NVIDIA H200, from measured speeds; `hitnet reproduce --list` gives those of your machine.
"""


def render(book: Book, ledger: Ledger, docs: str | Path) -> Path:
    """Write the page and its figures into the folder of documents; gives the page's path."""
    folder = Path(docs)
    parts = [HEAD.format(ledger=path_in_words(ledger.path)), overview(book, ledger)]
    parts += [section(Page(book, ledger, folder, result)) for result in book.results.values()]
    parts += [more for more in (failures(book, ledger), shorts(book, ledger)) if more]
    files.write_text(folder / PAGE, "\n".join(parts))
    return folder / PAGE


def path_in_words(path: Path) -> str:
    """A file of the repository by its place there, another by its name."""
    root = source_root()
    whole = path.resolve()
    return whole.relative_to(root).as_posix() if root is not None and whole.is_relative_to(root) else path.name


def overview(book: Book, ledger: Ledger) -> str:
    costs = Costs(H200)
    rows = []
    for name, result in book.results.items():
        now = standing(book, name, ledger, costs)
        left = in_words(now.seconds) if now.seconds else "nothing"
        rows.append([f"[{name}](#{name})", result.title, result.where, f"{now.done} of {now.wanted}", left])
    done = sum(len(ledger.of(RUN, name)) for name in book.experiments)
    said = "**The ledger is empty: no run has been made yet.**\n\n" if not done else ""
    return said + table(("result", "what it is", "in the paper", "runs", "left to do, H200"), rows)


def section(page: Page) -> str:
    result = page.result
    body, words = result.render(page), discussion(page.docs, result)
    if words is None and MARK in body:
        place = f"`{DISCUSSION}/{result.name}.md` beside this page"
        words = f"*The difference is not discussed yet; words go to {place}.*\n"
    return head(result) + body + (f"\n{words}" if words else "")


def head(result: Result) -> str:
    return f"## {result.name}\n{result.title} ({result.where}).\n\n"


def discussion(docs: Path, result: Result) -> str | None:
    path = docs / DISCUSSION / f"{result.name}.md"
    try:
        return path.read_text(encoding="utf-8").strip() + "\n" if path.is_file() else None
    except (OSError, UnicodeDecodeError) as error:
        raise HitNetError(f"{path} cannot be read: {error}. Words on a result are plain text in UTF-8.") from error


def failures(book: Book, ledger: Ledger) -> str:
    """Runs that diverged, which the means above leave out."""
    rows = [
        [name, str(seed), why]
        for name, one in book.experiments.items()
        for seed, why in sorted(diverged_runs(ledger, one).items())
    ]
    if not rows:
        return ""
    said = '## Diverged runs\nNo mean above contains them; "runs here" says how many there are.\n\n'
    return said + table(("experiment", "seed", "why"), rows)


def shorts(book: Book, ledger: Ledger) -> str:
    """Runs that were shortened: shown, and counted nowhere."""
    rows = [
        [name, str(entry.seeds[0]), entry.label, f"{record.error:.2f}", record.device]
        for name, one in book.experiments.items()
        for entry, record in short_runs(ledger, one)
    ]
    if not rows:
        return ""
    said = "## Short runs\nTrained for fewer epochs or on fewer images; no table above counts them.\n\n"
    return said + table(("experiment", "seed", "short", "error %", "device"), rows)
