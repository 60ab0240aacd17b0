"""The rows of an audit, held so that a million of them can be filtered, sorted and searched in a fraction of a second.

Texts that repeat (classes, flags, rules) are numbers here. What a ranking says of the images (order, score, suggestion)
is kept apart from the rows, since it changes as people decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from hitnet.audit.kept import Kept
from hitnet.audit.page import nearest_classes
from hitnet.audit.scores import FLAGS
from hitnet.errors import HitNetError

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Ranking:
    """What judges say of N images, from the audit itself or from heads that were fitted anew.

    Attributes:
        version: 0 for the audit's own, counting up.
        order: (N,) rows, most doubtful first.
        score: (N,), 0 = surely wrong, 1 = surely right.
        suggested: (N,) class indices.
        votes: (N,) judges for the suggested class.
        distances: (N, K), those that the page draws.
        said: (M, N, K) distances of each judge, where they are kept.
        kinds: What to call each of the M judges.
        decisions: How many decisions were known.
    """

    version: int
    order: Ints
    score: npt.NDArray[np.float32]
    suggested: Ints
    votes: Ints
    distances: np.ndarray
    said: npt.NDArray[np.float16] | None = None
    kinds: tuple[str, ...] = ()
    decisions: int = 0


@dataclass(frozen=True)
class Rows:
    """The audit's table as columns.

    Attributes:
        table: As the audit wrote it.
        distances: (N, K), in the table's order.
        class_names: The K classes.
        kept: What the judges saw and said, where the audit kept it.
        flags: Names of flags, by number.
    """

    table: pd.DataFrame
    distances: np.ndarray
    class_names: tuple[str, ...]
    kept: Kept | None = None
    flags: list[str] = field(default_factory=lambda: list(FLAGS))

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def ids(self) -> Ints:
        return self.table["id"].to_numpy(np.int64)

    @cached_property
    def paths(self) -> list[str]:
        return self.table["path"].fillna("").astype(str).tolist()

    @cached_property
    def given(self) -> Ints:
        return class_codes(self.table["given"], self.class_names)

    @cached_property
    def flag(self) -> npt.NDArray[np.int8]:
        codes = pd.Categorical(self.table["flag"], categories=self.flags).codes
        return np.asarray(codes, np.int8)

    @cached_property
    def own_ranking(self) -> Ranking:
        """The audit's own order, scores and suggestions."""
        return Ranking(
            version=0,
            order=np.arange(len(self)),
            score=self.table["score"].to_numpy(np.float32),
            suggested=class_codes(self.table["suggested"], self.class_names),
            votes=self.table["votes"].to_numpy(np.int64),
            distances=self.distances,
            said=None if self.kept is None else self.kept.said.numpy(),
            kinds=() if self.kept is None else self.kept.kinds,
        )

    @cached_property
    def _searchable(self) -> pa.Array:
        return pc.utf8_lower(pa.array(self.paths, pa.large_string()))

    @cached_property
    def _by_id(self) -> Ints:
        return np.argsort(self.ids, kind="stable")

    @cached_property
    def by_path(self) -> Ints:
        """Rows in the order of their paths."""
        return pc.sort_indices(self._searchable).to_numpy().astype(np.int64)

    @cached_property
    def by_strangeness(self) -> Ints:
        """Rows, those first that are unlike all other images; the audit's order where it has not looked for that."""
        if "unlike" not in self.table:
            return np.arange(len(self))
        return np.argsort(-self.table["unlike"].to_numpy(np.float64), kind="stable")

    def row_of(self, number: int) -> int | None:
        """The row of an image's id."""
        place = int(np.searchsorted(self.ids, number, sorter=self._by_id))
        if place == len(self) or self.ids[self._by_id[place]] != number:
            return None
        return int(self._by_id[place])

    def need_row(self, number: int) -> int:
        row = self.row_of(number)
        if row is None:
            raise HitNetError(f"The audit has no image {number}.")
        return row

    @cached_property
    def row_of_key(self) -> dict[str | int, int]:
        """The row of each image, by what identifies it in the log of decisions."""
        pairs = zip(self.paths, self.ids.tolist(), range(len(self)), strict=True)
        return {path or number: row for path, number, row in pairs}

    def matching(self, text: str) -> Mask:
        """Which rows have this in their path, or as their number."""
        matches = np.asarray(pc.match_substring(self._searchable, text).to_numpy(zero_copy_only=False), np.bool_)
        number = text.removeprefix("#")
        if (
            number.isascii()
            and number.isdigit()
            and len(number) <= 18
            and (row := self.row_of(int(number))) is not None
        ):
            matches[row] = True
        return matches

    def warm(self) -> None:
        """Compute what a first request would otherwise wait for."""
        self.row_of_key, self.given, self.flag, self._by_id, self._searchable, self.by_path, self.by_strangeness  # noqa: B018

    def columns(self, rows: Ints, ranking: Ranking) -> dict[str, Any]:
        """What the page shows of these rows, by column; classes, flags and rules as indices."""
        part = self.table.iloc[rows]
        given, suggested = self.given[rows], ranking.suggested[rows]
        near = nearest_classes(ranking.distances[rows], given, suggested)
        index = {name: k for k, name in enumerate(self.class_names)}
        columns: dict[str, Any] = {
            "id": self.ids[rows].tolist(),
            "path": [self.paths[row] for row in rows],
            "given": given.tolist(),
            "suggested": suggested.tolist(),
            "score": _rounded(ranking.score[rows], 4),
            "votes": ranking.votes[rows].tolist(),
            "flag": self.flag[rows].tolist(),
            "rule": part["rule"].astype(str).tolist(),
            "ghost": [index[name] for name in part["ghost"]],
            "near": near.tolist(),
            "near_distance": [_rounded(line, 3) for line in np.take_along_axis(ranking.distances[rows], near, 1)],
        }
        for column in ("margin_mean", "margin_std", "ghost_distance"):
            columns[column] = _rounded(part[column].to_numpy(), 4)
        for column in ("hits", "models", "like_given", "like_suggested"):
            if column in part:
                columns[column] = part[column].tolist()
        return columns


def class_codes(names: pd.Series, class_names: Sequence[str]) -> Ints:
    """The index of each name among the classes."""
    codes = np.asarray(pd.Categorical(names, categories=list(class_names)).codes, np.int64)
    if len(codes) and codes.min() < 0:
        unknown = names[codes < 0].iloc[0]
        raise HitNetError(f"The audit table names a class that is not in summary.json: {unknown!r}.")
    return codes


def _rounded(values: np.ndarray, digits: int) -> list[float | None]:
    return [round(value, digits) if np.isfinite(value) else None for value in np.asarray(values, np.float64).tolist()]
