"""The paper's analysis of ghost capsules over several runs: read from the runs, written as tables and pictures."""

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
    """The ghosts of a data set's images in the networks of several runs, and the images."""
    trained = [run if isinstance(run, Run) else open_run(run) for run in runs]
    opened = open_data(data)
    images = load_for(trained[0], opened, split or opened.audit_split)
    distances = collect(trained, images, pick_device(device), plain=True)  # the paper looks at each image once
    return find_ghosts(distances, images.labels.numpy(), images.class_names), images


def write_ghosts(found: Ghosts, images: Images, out: Path) -> list[Path]:
    """Tables and pictures of the analysis in a new folder; gives what was written."""
    files.check_vacant(out)
    doubtful = found.doubtful()
    which = {"id": images.ids.numpy()} | ({} if images.paths is None else {"path": list(images.paths)})
    every = found.table.assign(**which)
    tables = {
        "ghosts.csv": every,
        "agreement.csv": found.agreement(),
        "pairs.csv": found.pairs(found.agreed()).reset_index(allow_duplicates=True),
        "doubtful_pairs.csv": found.pairs(doubtful).reset_index(allow_duplicates=True),
        "doubtful.csv": every.loc[doubtful.index],
    }
    for name, frame in tables.items():
        with files.replacing(out / name) as temporary:
            frame.to_csv(temporary, index=False)
    pictures = plots.save([plots.analysis_figure(found)], out / "analysis.png")
    if len(doubtful):
        pictures += plots.save(plots.doubtful_figures(found, images), out / "doubtful.png")
    return [out / name for name in tables] + pictures
