"""The paper's analysis of ghost capsules for several runs, written as tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hitnet import files, plots
from hitnet.audit.ghosts import Ghosts, find_ghosts
from hitnet.audit.judges import collect
from hitnet.data import Images, Source, open_data
from hitnet.training import Run, open_run
from hitnet.training.device import pick_device
from hitnet.training.evaluation import load_for


def analyse_ghosts(
    runs: Sequence[str | Path | Run], data: Source, *, split: str | None = None, device: str = "auto"
) -> tuple[Ghosts, Images]:
    """Find the ghosts of a data set's images in the networks of several runs.

    Args:
        runs: Runs, or their folders.
        data: Opened data, or what `open_data` takes.
        split: train, test or all. None: the default of an audit.
        device: auto, cpu or cuda.

    Returns:
        The ghosts, and the images in the same order.
    """
    trained = [run if isinstance(run, Run) else open_run(run) for run in runs]
    opened = open_data(data)
    images = load_for(trained[0], opened, split or opened.audit_split)
    distances = collect(trained, images, pick_device(device), plain=True)  # the paper looks at each image once
    return find_ghosts(distances, images.labels.numpy(), images.class_names), images


def write_ghosts(ghosts: Ghosts, images: Images, out: Path) -> list[Path]:
    """Write tables and figures of the analysis into a new folder; return the files."""
    files.check_vacant(out)
    doubtful = ghosts.doubtful()
    identity = {"id": images.ids.numpy()} | ({} if images.paths is None else {"path": list(images.paths)})
    table = ghosts.table.assign(**identity)
    tables = {
        "ghosts.csv": table,
        "agreement.csv": ghosts.agreement(),
        "pairs.csv": ghosts.pairs(ghosts.agreed()).reset_index(allow_duplicates=True),
        "doubtful_pairs.csv": ghosts.pairs(doubtful).reset_index(allow_duplicates=True),
        "doubtful.csv": table.loc[doubtful.index],
    }
    for name, frame in tables.items():
        with files.replacing(out / name) as temporary:
            frame.to_csv(temporary, index=False)
    pictures = plots.save([plots.analysis_figure(ghosts)], out / "analysis.png")
    if len(doubtful):
        pictures += plots.save(plots.doubtful_figures(ghosts, images), out / "doubtful.png")
    return [out / name for name in tables] + pictures
