"""The result of an audit, in memory and as a folder: the hinge between judging and everything after it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from torch import Tensor

from hitnet.audit import export
from hitnet.audit.audit_folder import (
    CHECKSUMS,
    CLASSES,
    DISTANCES,
    DUPLICATES,
    PAGE,
    SUMMARY,
    TABLE,
    Kept,
    are_classes,
    own_file,
    write_kept,
)
from hitnet.audit.audit_table import Summary, check_table, class_codes
from hitnet.audit.report import write_page
from hitnet.data import Data, ImageSet, Source, open_data
from hitnet.data.known.catalogue import recorded_folder
from hitnet.data.reading.array_files import read_npy, read_parquet
from hitnet.data.reading.copying import check_outside
from hitnet.decisions.corrections import ALONE, Applied, Corrections, audited_images, correct, corrected_labels
from hitnet.decisions.rules import Correction, Decisions, Settled, settled
from hitnet.decisions.steps import Change, read_steps
from hitnet.errors import HitNetError, MissingFileError, check_choice, share
from hitnet.features.opinions import on_all_classes
from hitnet.probabilities import Floats, class_probabilities, fit_temperature
from hitnet.runtime import files, schemas, spreadsheets

MOST_FITTED = 2**25  # distances that a temperature is fitted to
PULL, TEMPERATURE = 0.25, 0.02  # of probabilities by judges that were trained on the labels
ExportFormat = Literal["label-studio", "pred-probs"]


@dataclass(frozen=True)
class Audit:
    """The result of an audit.

    Attributes:
        table: One row per image, worst first.
        distances: (N, K), in the table's order; (N, k + 1) where they are kept on k of many classes.
        class_names: The K classes.
        summary: Figures, as in summary.json.
        classes: (N, k + 1), of which classes these are: ascending numbers, the last is K, for all others. None: all K.
        images: The images in the table's order, on disk where judges needed only features; None for an audit that was
            opened from its folder.
        prototypes: The decoded centre of each class, or its most typical image, uint8 (K, C, H, W), where there is one.
        duplicates: Pairs of near-duplicates (see `duplicate_table`), where features were there to find them.
        kept: What judges saw and said, for the review.
        typical: The row of the most typical image of each class that has one, where prototypes are such images.
        folder: Where it is kept, if anywhere.
        data: The data that was audited, where it is still open.
    """

    table: pd.DataFrame
    distances: np.ndarray
    class_names: tuple[str, ...]
    summary: Summary
    classes: np.ndarray | None = None
    images: ImageSet | None = None
    prototypes: Tensor | None = None
    duplicates: pd.DataFrame | None = None
    kept: Kept | None = None
    typical: Sequence[Sequence[int]] = ()
    folder: Path | None = None
    data: Data | None = None

    def apply(
        self,
        corrections: str | Path | None = None,
        *,
        out: str | Path,
        data: Source | None = None,
        reviewer: str | None = None,
        trust: float | None = None,
    ) -> Applied:
        """Write the corrected dataset into the new folder `out`; the original stays as it is.

        Args:
            corrections: The file that a review page exported (.jsonl or .csv), or the JSON that Label Studio exported.
                None: what was decided with `hitnet review`.
            out: Folder for the corrected dataset; must be new or empty.
            data: Where the audited data is now, if it has moved.
            reviewer: Take only this reviewer's decisions. None: those on which all reviewers of an image agree.
            trust: Also give the suggested label to images that nobody decided on, if they are flagged as wrong with at
                least this probability, e.g. 0.95. None: only decisions count.
        """
        decided = self._decided(corrections, reviewer, trust)
        if self.folder is not None:
            check_outside(files.expand(out), self.folder, "the audit")
        names, split = self.class_names, self.summary.split
        return correct(self.audited_data(data), self.table, decided, out, class_names=names, split=split)

    def corrected_labels(
        self, corrections: str | Path | None = None, *, reviewer: str | None = None, trust: float | None = None
    ) -> pd.DataFrame:
        """The labels after a review, without a copy of the images; the arguments are those of `apply`.

        One row per image that was not dropped, by id: `id`, `path`, `label`, `given` and `decision`, which is empty if
        nobody decided.
        """
        return corrected_labels(self.table, self._decided(corrections, reviewer, trust), self.class_names)

    def _decided(self, corrections: str | Path | None, reviewer: str | None, trust: float | None) -> Corrections:
        """The file, or the decisions of the audit's own review, with its sure suggestions if `trust` is given."""
        for name, option in (("reviewer", reviewer), ("trust", trust)):
            if corrections is not None and option is not None:
                raise HitNetError(f"`{name}` adds to the decisions of the audit's own review. Leave out the file.")
        if corrections is not None:
            return corrections
        if self.folder is None and trust is None:
            raise HitNetError("This audit has no folder, and so no decisions. Give `corrections`.")
        decisions = Decisions(() if self.folder is None else read_steps(self.folder))
        decided = settled(decisions, audited_images(self.table), reviewer=reviewer)
        if trust is not None:
            return Settled([*decided.corrections, *self._sure(trust, decisions)], decided.disputed)
        if not decided.corrections and not decided.disputed:
            who = "" if reviewer is None else f" by {reviewer!r}"
            raise HitNetError(
                f"{self.folder} holds no decisions{who}. Decide with `hitnet review {self.folder}`, or give the file "
                "that a review page exported."
            )
        return decided

    def _sure(self, trust: float, decisions: Decisions) -> Iterator[Correction]:
        """The suggestions for flagged labels that are wrong with this probability, and that nobody decided on."""
        share("apply", "trust", trust)
        sure = self.table[(self.table["flag"] == "wrong") & (1 - self.table["score"] >= trust)].fillna({"path": ""})
        for number, path, given, suggested in sure[["id", "path", "given", "suggested"]].itertuples(index=False):
            change = Change(int(number), path, given, "relabel", suggested)
            if not decisions.of(change.key):
                yield Correction(ALONE, change)

    def probabilities(self, rows: slice = slice(None)) -> np.ndarray:
        """Probability of each class (n, K) for some rows of the table, or all (N, K); see `label_probabilities`."""
        given, rate = class_codes(self.table["given"].iloc[rows], self.class_names), self.summary.expected_errors
        how: dict[str, Any] = {"in_sample": self.summary.in_sample, "temperature": self._temperature}
        return label_probabilities(self._all_distances(rows), given, error_rate=rate / max(len(self.table), 1), **how)

    @cached_property
    def _temperature(self) -> float | None:
        if self.summary.in_sample:
            return None
        some = slice(None, None, -(-len(self.table) * len(self.class_names) // MOST_FITTED) or 1)
        return fit_temperature(self._all_distances(some), class_codes(self.table["given"].iloc[some], self.class_names))

    def _all_distances(self, rows: slice) -> np.ndarray:
        classes = None if self.classes is None else self.classes[rows]
        return on_all_classes(self.distances[rows], classes, len(self.class_names))

    def export(self, out: str | Path, *, format: str = "label-studio", image_root: str | None = None) -> list[Path]:
        """Write the audit for another tool.

        Args:
            out: File to write: .json for label-studio, .npy for pred-probs.
            format: "label-studio" (tasks) or "pred-probs" (class probabilities that cleanlab takes).
            image_root: Put before each path for Label Studio. None: where its local storage serves the audited folder.

        Returns:
            The files that were written.
        """
        check_choice("export", "format", format, get_args(ExportFormat))
        names, probabilities = self.class_names, self.probabilities
        if format == "label-studio":
            root = export.local_files(self.summary.source) if image_root is None else image_root
            return export.label_studio(self.table, probabilities, names, out, image_root=root)
        return export.write_pred_probs(self.table, probabilities, names, out)

    def write(self, folder: Path) -> None:
        """Write table, distances, page and, last, the summary: it shows that the audit is finished."""
        with files.replacing(folder / TABLE) as temporary:
            self.table.to_parquet(temporary, index=False)
        spreadsheets.write_csv(folder / "audit.csv", self.table)
        for name in (CLASSES, DUPLICATES):  # of an earlier audit, by other judges
            (folder / name).unlink(missing_ok=True)
        arrays = {DISTANCES: self.distances}
        if self.classes is not None:
            arrays[CLASSES] = self.classes.astype(np.int32)
        for name, values in arrays.items():
            with files.replacing(folder / name) as temporary, temporary.open("wb") as opened:
                np.save(opened, values, allow_pickle=False)
        if self.duplicates is not None:
            spreadsheets.write_csv(folder / DUPLICATES, self.duplicates)
        if self.kept is not None:
            write_kept(folder, self.kept)
        if self.images is not None:
            self._write_page(folder / PAGE, self.images)
        with files.replacing(folder / SUMMARY) as temporary:
            files.write_json(temporary, self.summary.to_json())
            checksums = {name: files.checksum(folder / name) for name in (TABLE, *arrays)}
            files.write_json(folder / CHECKSUMS, {**checksums, SUMMARY: files.checksum(temporary)})

    def _write_page(self, path: Path, images: ImageSet) -> None:
        write_page(
            path,
            self.table,
            self.distances,
            images.known_pixels,
            classes=self.classes,
            title=f"Label audit: {self.summary.data}",
            prototypes=self.prototypes,
            typical=self.typical,
            files=None if self.data is None else self.data.image_files(images),
            checksums=images.checksums,
            summary=self.summary,
        )

    def audited_data(self, data: Source | None = None) -> Data:
        """The data that was audited, opened again; `data` tells where it is now, if it has moved."""
        source = self.summary.source
        if data is not None:
            return open_data(data)
        if self.data is not None:
            return self.data.reopen()
        if self.summary.in_memory:
            raise HitNetError(f"{source} was in memory when it was audited. Set `data` to where it is now.")
        try:
            return open_data(source, data_dir=recorded_folder(self.summary.data_dir))
        except HitNetError as error:
            raise HitNetError(
                f"{source} was audited, but is not there any more. Set `data` to where it is now."
            ) from error


def open_audit(audit: str | Path | Audit) -> Audit:
    """Open the folder of a finished audit."""
    if isinstance(audit, Audit):
        return audit
    path = files.expand(audit)
    if not (path / SUMMARY).is_file():
        raise MissingFileError(f"{path} is not the folder of a finished audit: it has no summary.json.")
    sums = _check_sums(path)
    summary = Summary.from_json(files.read_json(path / SUMMARY), path / SUMMARY)
    names = tuple(summary.class_names)
    table = read_parquet(path / TABLE)
    check_table(table, names, path / TABLE)
    distances = read_npy(path / DISTANCES)
    classes = read_npy(path / CLASSES) if CLASSES in sums else None
    if classes is not None and not (are_classes(classes, distances.shape, len(names)) and len(classes) == len(table)):
        raise HitNetError(f"{path / CLASSES} does not fit {DISTANCES}. Run the audit again.")
    fits = classes is not None or distances.shape == (len(table), len(names))
    if not fits or distances.dtype.kind != "f":
        raise HitNetError(
            f"{path / DISTANCES} must hold fractions of shape {(len(table), len(names))}, images by classes; it holds "
            f"{distances.dtype} {distances.shape}. Run the audit again."
        )
    return Audit(table, distances, names, summary, classes, folder=path)


def _check_sums(folder: Path) -> Mapping[str, str]:
    """The checksum of each file; raise HitNetError if a file of an audit is not as it was written."""
    checksums = files.read_json(own_file(folder, CHECKSUMS))
    schema = {TABLE: str, DISTANCES: str, SUMMARY: str, f"{CLASSES}?": str}
    schemas.check_schema(checksums, schema, folder / CHECKSUMS)
    for name in (TABLE, DISTANCES, SUMMARY, *({CLASSES} & {*checksums})):
        if files.checksum(own_file(folder, name)) != checksums[name]:
            raise HitNetError(
                f"{folder / name} is damaged or of another audit: its checksum does not match. Restore it from a copy, "
                "or repeat the audit with `resume`."
            )
    return checksums


def label_probabilities(
    distances: np.ndarray, labels: np.ndarray, *, in_sample: float, error_rate: float, temperature: float | None = None
) -> Floats:
    """Probability of each class (N, K), from the mean distances (N, K) of judges and the given labels (N,).

    Judges that have not seen the labels are calibrated by the labels: a temperature is fitted, if none is given. The
    labels cannot calibrate networks that were trained on them, a share `in_sample` of the judges. Training has brought
    each image nearer to its label than a new image of the class would be, so the distance of the given class grows by
    PULL. The largest probability is 1 − `error_rate`, the share of labels that the audit expects to be wrong. And the
    temperature is lower than what fits images held out best: else cleanlab would find nothing (docs/audit-evidence.md).
    """
    if not in_sample:
        return class_probabilities(distances, temperature or fit_temperature(distances, labels))
    freed = distances.astype(np.float64)
    freed[np.arange(len(labels)), labels] += PULL * in_sample
    return class_probabilities(freed, TEMPERATURE, error_rate=error_rate)
