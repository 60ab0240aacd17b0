"""The rows of an audit as pages show them: a million can be filtered and sorted in a fraction of a second."""

from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from hitnet.audit.audit_table import class_codes
from hitnet.audit.scoring import FLAGS, Mask
from hitnet.errors import HitNetError
from hitnet.features.opinions import Ints, column_of

BARS = 10  # classes in an image's chart of distances
FLAG_NAMES = list(FLAGS)
FREQUENT_PAIRS = 20 * 19  # of different classes: as many as the matrix of the page shows at most
LARGEST_ID = 2**63


class Rows:
    """The audit's table as columns, classes and flags as numbers; distances and classes (N, k) are in its order."""

    def __init__(
        self, table: pd.DataFrame, distances: np.ndarray, class_names: tuple[str, ...], classes: Ints | None = None
    ) -> None:
        self.table, self.distances, self.class_names, self.classes = table, distances, class_names, classes
        self.ids: Ints = table["id"].to_numpy(np.int64)
        self.paths: list[str] = table["path"].fillna("").to_numpy(object).tolist()
        self.given, self.suggested = (class_codes(table[column], class_names) for column in ("given", "suggested"))
        self.flag = class_codes(table["flag"], FLAG_NAMES).astype(np.int8)  # -1: of another version
        self.score = table["score"].to_numpy(np.float64)  # 0 = surely wrong, 1 = surely right
        # The more probable of the two labels: a suggestion may also be only the second label of an ambiguous image.
        self.probable = np.where(self.score < 0.5, self.suggested, self.given)

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def _searchable(self) -> pa.Array:
        return pc.utf8_lower(pa.array(self.paths, pa.large_string()))

    @cached_property
    def _by_id(self) -> Ints:
        return np.argsort(self.ids, kind="stable")

    @cached_property
    def by_path(self) -> Ints:
        return pc.sort_indices(self._searchable).to_numpy().astype(np.int64)

    @cached_property
    def outliers_first(self) -> Ints:
        """Rows, those first that are unlike all other images; the audit's order where it has not looked for that."""
        if "unlike" not in self.table:
            return np.arange(len(self))
        return np.argsort(-self.table["unlike"].to_numpy(np.float64), kind="stable")

    def row_of(self, number: int) -> int | None:
        """The row of an image's id."""
        if not -LARGEST_ID <= number < LARGEST_ID:
            return None
        place = int(np.searchsorted(self.ids, number, sorter=self._by_id))
        if place == len(self) or self.ids[self._by_id[place]] != number:
            return None
        return int(self._by_id[place])

    def need_row(self, number: int) -> int:
        row = self.row_of(number)
        if row is None:
            raise HitNetError(f"The audit has no image {str(number)[:20]}.")
        return row

    def matching(self, text: str) -> Mask:
        """Which rows have this in their path, or as their number."""
        matches = np.asarray(pc.match_substring(self._searchable, text).to_numpy(zero_copy_only=False), np.bool_)
        number = text.removeprefix("#")
        row = self.row_of(int(number)) if number.isascii() and number.isdigit() and len(number) <= 18 else None
        if row is not None:
            matches[row] = True
        return matches

    def warm(self) -> None:
        """Compute what a first request would otherwise wait for."""
        self._by_id, self.by_path, self.outliers_first  # noqa: B018

    @cached_property
    def given_distances(self) -> np.ndarray:
        return self.distances[np.arange(len(self)), column_of(self.given, self.classes)]

    def near(self, rows: Ints) -> tuple[np.ndarray, np.ndarray]:
        """The classes that charts of rows show (n, at most BARS), and their distances."""
        distances, classes = self.distances[rows], None
        if self.classes is not None:  # the last column is no class
            distances, classes = distances[:, :-1], self.classes[rows, :-1]
        first = distances.astype(float)
        for labels in (self.given, self.suggested):  # which are always shown
            first[np.arange(len(rows)), column_of(labels[rows], classes)] = -1.0
        bars = min(BARS, distances.shape[1])
        near = np.argpartition(first, bars - 1, axis=1)[:, :bars]
        order = np.argsort(np.take_along_axis(distances, near, 1), axis=1, kind="stable")
        near = np.take_along_axis(near, order, 1)
        return near if classes is None else np.take_along_axis(classes, near, 1), np.take_along_axis(distances, near, 1)

    def columns(self, rows: Ints) -> dict[str, Any]:
        """What the page shows of these rows, by column; classes and flags as indices."""
        part = self.table.iloc[rows]
        given, suggested = self.given[rows], self.suggested[rows]
        near, near_distance = self.near(rows)
        columns: dict[str, Any] = {
            "id": self.ids[rows].tolist(),
            "path": [self.paths[row] for row in rows],
            "given": given.tolist(),
            "suggested": suggested.tolist(),
            "score": self.score[rows].round(6).tolist(),
            "votes": part["votes"].tolist(),
            "flag": self.flag[rows].tolist(),
            "rule": [str(rule) for rule in part["rule"]],
            "ghost": class_codes(part["ghost"], self.class_names).tolist(),
            "near": near.tolist(),
            "near_distance": near_distance.astype(np.float64).round(3).tolist(),
        }
        for column in ("margin_mean", "margin_std", "ghost_distance"):
            columns[column] = part[column].astype(float).round(4).tolist()
        for column in ("hits", "models", "like_given", "like_suggested"):
            if column in part:
                columns[column] = part[column].tolist()
        return columns

    def overview(self, rows: Ints) -> dict[str, Any]:
        """What the page counts of these rows: images per flag, and per frequent pair of given and suggested class."""
        given, suggested = self.given[rows], self.suggested[rows]
        values, counts = np.unique((given * len(self.class_names) + suggested)[given != suggested], return_counts=True)
        most = np.argsort(-counts, kind="stable")[:FREQUENT_PAIRS]
        columns = (*divmod(values[most], len(self.class_names)), counts[most])
        return {
            "flags": FLAG_NAMES,
            "flag_counts": np.bincount(self.flag[rows][self.flag[rows] >= 0], minlength=len(FLAG_NAMES)).tolist(),
            "pairs": np.stack(columns, axis=1).tolist(),
            "all_pairs": len(values),
            "images": len(rows),
            "with_neighbours": "like_given" in self.table,
        }
