"""Pictures that need a network's weights: drawn once from a run folder, kept as files, named in the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hitnet import plots
from hitnet.paper.book import PICTURE_SEED, Drawing, Page, Result
from hitnet.paper.ledger import PICTURE, Entry
from hitnet.paper.records import full_runs
from hitnet.training.run import load
from hitnet.training.train import weights_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable

    from hitnet.paper.running import Runner

FOLDER = Path("images") / "paper"


def draw(result: Result, runner: Runner, docs: Path, say: Callable[[str], None]) -> None:
    """Draw a result from the run with seed 0 and write down from which."""
    if result.draw is None:
        return
    one = runner.book.experiments[result.experiments[0]]
    run = load(runner.folder(one, PICTURE_SEED).path)
    figures = result.draw(Drawing(run, runner.data_dir, runner.device))
    written = plots.save(figures, docs / FOLDER / f"{result.name}.png")
    facts = {
        "files": [path.relative_to(docs).as_posix() for path in written],
        "weights": weights_fingerprint(run.model),
    }
    runner.ledger.add_if_new(Entry(PICTURE, one.name, (PICTURE_SEED,), facts, result.name))
    for path in written:
        say(f"written: {path}")


def image_line(page: Page, title: str, file: str) -> str:
    return f"![{title}]({file})" if (page.docs / file).is_file() else f"The file {file} is missing from this copy."


def render(page: Page) -> str:
    """The picture with the run that it is of, or how to get it."""
    result = page.result
    name = result.experiments[0]
    entry = result.picture(page.ledger)
    if entry is None:
        return (
            f"Not drawn yet: it needs the weights of one run ({page.cost(name, 1)}): `hitnet reproduce {result.name}`\n"
        )
    lines = [image_line(page, result.title, file) for file in entry.facts["files"]]
    run = f"Drawn from {name}, seed {PICTURE_SEED}, weights {entry.facts['weights']}."
    counted = full_runs(page.ledger, page.experiment(name)).get(PICTURE_SEED)
    if counted is not None and counted.weights != entry.facts["weights"]:
        run += f" The tables' run with this seed was trained apart from it (weights {counted.weights})."
    return "\n\n".join([*lines, run]) + "\n"
