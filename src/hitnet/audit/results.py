"""The result of an audit, in memory and as a folder: the hinge between judging and everything after it.

audit.parquet, audit.csv   the table, one row per image, worst first
distances.npy              mean distance of each image to each class, in the table's order
duplicates.csv             pairs of near-duplicates, where features were there to find them
summary.json               figures of the audit
report.html                the review page
settings.json              what was audited
models/                    the networks that judged, where they were trained for it
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from hitnet import files
from hitnet.audit import export
from hitnet.audit.corrections import Applied, correct
from hitnet.audit.page import write_page
from hitnet.data import Data, Images, Source, open_data
from hitnet.data.catalogue import recorded_folder
from hitnet.errors import HitNetError, check_choice

FORMATS = ("label-studio", "pred-probs")
IMAGE_ROOT = "/data/local-files/?d="


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    Attributes:
        table: One row per image, worst first.
        distances: (N, K), in the table's order.
        class_names: The K classes.
        summary: Figures, as in summary.json.
        images: The images in the table's order; None for an audit that was opened from its folder.
        prototypes: The decoded centre of each class, or its most typical image, uint8 (K, C, H, W), where there is one.
        duplicates: Pairs of near-duplicates (see `likeness.duplicate_table`), where features were there to find them.
        folder: Where it is kept, if anywhere.
        data: The data that was audited, where it is still open.
    """

    table: pd.DataFrame
    distances: np.ndarray
    class_names: tuple[str, ...]
    summary: dict[str, Any]
    images: Images | None = None
    prototypes: Tensor | None = None
    duplicates: pd.DataFrame | None = None
    folder: Path | None = None
    data: Data | None = None

    def apply(self, corrections: str | Path, *, out: str | Path, data: Source | None = None) -> Applied:
        """Write the corrected data set into the new folder `out`; the original stays as it is.

        Args:
            corrections: The CSV that the review page exported.
            out: Folder for the corrected data set; must be new or empty.
            data: Where the audited data is now, if it has moved.
        """
        audited = self._audited_data() if data is None else open_data(data)
        split = self.summary.get("split", "all")
        return correct(audited, self.table, corrections, out, class_names=self.class_names, split=split)

    def export(self, out: str | Path, *, format: str = "label-studio", image_root: str = IMAGE_ROOT) -> list[Path]:
        """Write the audit for another tool.

        Args:
            out: File to write: .json for label-studio, .npy for pred-probs.
            format: "label-studio" (tasks) or "pred-probs" (class probabilities that cleanlab takes).
            image_root: Put before each path for Label Studio.

        Returns:
            The files that were written.
        """
        check_choice("export", "format", format, FORMATS)
        if format == "label-studio":
            return export.label_studio(self.table, self.distances, self.class_names, Path(out), image_root=image_root)
        return export.write_pred_probs(self.table, self.distances, self.class_names, out)

    def write(self, folder: Path) -> None:
        """Write table, distances, summary and page."""
        with files.replacing(folder / "audit.parquet") as temporary:
            self.table.to_parquet(temporary, index=False)
        with files.replacing(folder / "audit.csv") as temporary:
            self.table.to_csv(temporary, index=False)
        with files.replacing(folder / "distances.npy") as temporary, temporary.open("wb") as opened:
            np.save(opened, self.distances, allow_pickle=False)
        if self.duplicates is not None:
            with files.replacing(folder / "duplicates.csv") as temporary:
                self.duplicates.to_csv(temporary, index=False)
        files.write_json(folder / "summary.json", self.summary)
        if self.images is not None:
            write_page(
                folder / "report.html",
                self.table,
                self.distances,
                self.images.pixels,
                class_names=self.class_names,
                title=f"Label audit: {self.summary['data']}",
                prototypes=self.prototypes,
                summary=self.summary,
            )

    def _audited_data(self) -> Data:
        if self.data is not None:
            return self.data.reopen()
        try:
            return open_data(self.summary["source"], data_dir=recorded_folder(self.summary.get("data_dir")))
        except HitNetError as error:
            raise HitNetError(
                f"{self.summary['source']} was audited, but is not there any more. Set `data` to where it is now."
            ) from error


def open_audit(folder: str | Path) -> Audit:
    """Open the folder of a finished audit."""
    path = files.expand(folder)
    if not (path / "summary.json").is_file():
        raise HitNetError(f"{path} is not the folder of a finished audit: it has no summary.json.")
    summary = files.read_json(path / "summary.json")
    try:
        table = pd.read_parquet(path / "audit.parquet")
        distances = np.load(path / "distances.npy", allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise HitNetError(f"{path} is not a finished audit: {error}") from error
    return Audit(table, distances, tuple(summary["class_names"]), summary, folder=path)


def apply_corrections(
    audit: Audit | str | Path, corrections: str | Path, *, out: str | Path, data: Source | None = None
) -> Applied:
    """Write the corrected data set of an audit, given by its folder or itself (see `Audit.apply`)."""
    return _opened(audit).apply(corrections, out=out, data=data)


def export_audit(
    audit: Audit | str | Path, out: str | Path, *, format: str = "label-studio", image_root: str = IMAGE_ROOT
) -> list[Path]:
    """Write an audit, given by its folder or itself, for another tool (see `Audit.export`)."""
    return _opened(audit).export(out, format=format, image_root=image_root)


def _opened(audit: Audit | str | Path) -> Audit:
    return audit if isinstance(audit, Audit) else open_audit(audit)
