"""The paper's analysis of ghost capsules for several runs, written as tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hitnet import data as datasets
from hitnet import files, plots
from hitnet.audit.audit import collect, default_split
from hitnet.audit.ghosts import Ghosts, find_ghosts
from hitnet.data.images import Images
from hitnet.data.load import Source
from hitnet.training import load
from hitnet.training.device import pick_device
from hitnet.training.evaluation import match_classes


def ghosts_of_runs(
    runs: Sequence[str | Path],
    data: Source,
    *,
    split: str | None = None,
    device: str = "auto",
    data_dir: str | Path | None = None,
) -> tuple[Ghosts, Images]:
    """Find the ghosts of a data set's images in the networks of several runs.

    Args:
        runs: Run folders.
        data: The data set.
        split: The part of the data to use. None: the default of an audit.
        device: "auto", "cpu" or "cuda".
        data_dir: The folder of downloaded data sets.

    Returns:
        The ghosts, and the images in the same order.
    """
    trained = [load(run) for run in runs]
    size = trained[0].config.model.in_shape[1:]
    images = datasets.load(data, split or default_split(data), data_dir=data_dir, image_size=size)
    images = match_classes(images, trained[0].class_names)
    distances = collect(trained, images, pick_device(device), plain=True)  # as in the paper, one view per image
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
