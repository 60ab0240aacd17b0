"""Which rows a query asks for, and in which order: pure functions of rows, decisions and a ranking."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hitnet.audit.correction_files import DECISIONS
from hitnet.review.queries import Query
from hitnet.review.rows import Ints, Mask, Ranking, Rows

CODES = {decision: code for code, decision in enumerate(DECISIONS, start=1)}  # 0: undecided


@dataclass(frozen=True)
class States:
    """What was decided on each of N rows.

    Attributes:
        decision: (N,) a code of CODES, or 0: the reviewer's own decision, else that of others.
        own: (N,) whether it is the reviewer's own.
        disputed: (N,) whether reviewers disagree.
    """

    decision: npt.NDArray[np.int8]
    own: Mask
    disputed: Mask

    @classmethod
    def undecided(cls, rows: int) -> States:
        return cls(np.zeros(rows, np.int8), np.zeros(rows, np.bool_), np.zeros(rows, np.bool_))

    def which(self, state: str) -> Mask:
        """The rows in a state: undecided, decided, disputed, by others, or a decision."""
        masks: dict[str, Callable[[], Mask]] = {
            "undecided": lambda: self.decision == 0,
            "decided": lambda: self.decision > 0,
            "disputed": lambda: self.disputed.copy(),
            "by others": lambda: (self.decision > 0) & ~self.own,
        }
        return masks[state]() if state in masks else self.decision == CODES[state]


@dataclass(frozen=True)
class Group:
    """Images of one given and one suggested class, which stand together from `start` on."""

    given: int
    suggested: int
    start: int
    count: int
    undecided: int


@dataclass(frozen=True)
class Selection:
    """Rows that a query asks for, in its order."""

    order: Ints
    groups: tuple[Group, ...] = ()


def select_rows(rows: Rows, states: States, query: Query, ranking: Ranking) -> Selection:
    """The rows that a query asks for."""
    sorts: dict[str, Callable[[], Ints]] = {
        "doubt": lambda: ranking.order,
        "audit": lambda: rows.own_ranking.order,
        "file": lambda: rows.by_path,
        "strange": lambda: rows.by_strangeness,
    }
    order = sorts[query.sort]()
    mask = _mask(rows, states, query, ranking)
    order = order if mask is None else order[mask[order]]
    return _grouped(rows, states, order, ranking) if query.grouped else Selection(order)


def _mask(rows: Rows, states: States, query: Query, ranking: Ranking) -> Mask | None:
    masks = list[Mask]()
    if query.given is not None:
        masks.append(rows.given == query.given)
    if query.suggested is not None:
        masks.append(ranking.suggested == query.suggested)
    if query.either is not None:
        masks.append((rows.given == query.either) | (ranking.suggested == query.either))
    if query.flags:
        masks.append(np.isin(rows.flag, query.flags))
    if query.lowest is not None:
        masks.append(ranking.score >= query.lowest)
    if query.highest is not None:
        masks.append(ranking.score <= query.highest)
    if query.state is not None:
        masks.append(states.which(query.state))
    if query.text:
        masks.append(rows.matching(query.text))
    return np.logical_and.reduce(masks) if masks else None


def _grouped(rows: Rows, states: States, order: Ints, ranking: Ranking) -> Selection:
    """Pairs of different classes first, the most frequent first; within a pair, the order stays."""
    classes = len(rows.class_names)
    pairs = rows.given[order] * classes + ranking.suggested[order]
    values, inverse, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    same = values // classes == values % classes
    ranks = np.lexsort((values, -counts, same))
    place = np.empty(len(ranks), np.uint16 if len(ranks) < 2**16 else np.int64)
    place[ranks] = np.arange(len(ranks))
    arranged = order[np.argsort(place[inverse], kind="stable")]
    undecided = np.bincount(inverse, weights=states.decision[order] == 0, minlength=len(values)).astype(int)
    starts = np.cumsum(counts[ranks]) - counts[ranks]
    groups = tuple(
        Group(int(values[g] // classes), int(values[g] % classes), int(start), int(counts[g]), int(undecided[g]))
        for g, start in zip(ranks, starts, strict=True)
    )
    return Selection(arranged, groups)
