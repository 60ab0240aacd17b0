"""Which rows a page asks for, and in which order: read from a request, and computed from rows and decisions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from hitnet.audit.rows import Rows
from hitnet.audit.scoring import Mask
from hitnet.decisions.rules import DECISIONS
from hitnet.errors import HitNetError, check_choice
from hitnet.features.opinions import Ints
from hitnet.runtime.files import is_unicode

SORTS = ("doubt", "file", "outliers")
STATES = ("undecided", "decided", "by others", "disputed", "drawn", *DECISIONS)
CODES = {decision: code for code, decision in enumerate(DECISIONS, start=1)}  # 0: undecided
MOST_ROWS = 400  # in one answer


@dataclass(frozen=True)
class Query:
    """Filters, all of which must hold, and the order. Classes and flags are indices."""

    given: int | None = None
    suggested: int | None = None
    either: int | None = None  # a class that is given or suggested
    flags: tuple[int, ...] = ()  # any of which may hold
    state: str | None = None  # one of STATES
    lowest: float | None = None  # score
    highest: float | None = None
    text: str = ""  # part of a path, in small letters, or an image's number
    sort: str = "doubt"  # one of SORTS
    grouped: bool = False  # images of the same given and more probable class stand together

    def __post_init__(self) -> None:
        check_choice("review", "sort", self.sort, SORTS)
        if self.state is not None:
            check_choice("review", "state", self.state, STATES)
        if not is_unicode(self.text):
            raise HitNetError("review: text must be Unicode.")


def read_query(values: Mapping[str, str]) -> Query:
    """The query in the parameters of a request; raises HitNetError for values that are none."""
    try:
        lowest, highest = (float(values[name]) if values.get(name) else None for name in ("lowest", "highest"))
    except ValueError:
        raise HitNetError("review: lowest and highest must be numbers.") from None
    return Query(
        **{name: read_whole(values.get(name), name) for name in ("given", "suggested", "either")},
        lowest=lowest,
        highest=highest,
        flags=tuple(read_whole(flag, "flags") or 0 for flag in values.get("flags", "").split(",") if flag),
        state=values.get("state") or None,
        text=values.get("text", "").lower(),
        sort=values.get("sort") or "doubt",
        grouped=values.get("grouped") == "1",
    )


def read_whole(value: str | None, name: str) -> int | None:
    """A whole number from 0 on in a request; None if it is not there."""
    if not value:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise HitNetError(f"review: {name} must be a whole number; got {value[:40]!r}.")
    return int(value)


class Verdict:
    """What the decisions of all reviewers say of a label."""

    NONE, RIGHT, UNSURE, NEITHER, CORRECTED = range(5)  # corrected: relabelled or dropped
    WRONG, OPEN = (NEITHER, CORRECTED), (NONE, UNSURE)


Verdicts = npt.NDArray[np.int8]
VERDICT = {"keep": Verdict.RIGHT, "neither": Verdict.NEITHER, "unsure": Verdict.UNSURE}
VERDICT |= dict.fromkeys(("relabel", "drop"), Verdict.CORRECTED)


@dataclass(frozen=True)
class States:
    """What was decided on each of N rows."""

    decision: npt.NDArray[np.int8]  # (N,), a code of CODES, or 0: the reviewer's own decision, else that of others
    own: Mask  # (N,), whether it is the reviewer's own
    disputed: Mask  # (N,), whether reviewers disagree
    verdict: Verdicts  # (N,), one of Verdict; unsure where reviewers disagree

    @classmethod
    def undecided(cls, rows: int) -> Self:
        decision, verdict = np.zeros((2, rows), np.int8)
        own, disputed = np.zeros((2, rows), np.bool_)
        return cls(decision, own, disputed, verdict)

    def which(self, state: str) -> Mask:
        """The rows in one of STATES."""
        if state == "disputed":
            return self.disputed.copy()
        if state in CODES:
            return self.decision == CODES[state]
        decided = self.decision > 0
        return {"undecided": ~decided, "decided": decided, "by others": decided & ~self.own}[state]


@dataclass(frozen=True)
class Group:
    """Images of one given class that more probably belong to `suggested`, together from `start` on.

    Images that are more probably right than wrong form the group whose suggested class is the given one.
    """

    given: int
    suggested: int
    start: int
    count: int
    undecided: int
    wrong: float  # expected number of wrong labels among the undecided


class Selection(NamedTuple):
    """Rows that a query asks for, in its order."""

    order: Ints
    groups: tuple[Group, ...] = ()


def select_rows(rows: Rows, states: States, query: Query, drawn: Ints) -> Selection:
    """The rows that a query asks for; `drawn` are those drawn for a count, in this order."""
    if query.state == "drawn":
        return Selection(drawn[states.decision[drawn] == 0])
    sorts = {"file": lambda: rows.by_path, "outliers": lambda: rows.outliers_first}
    order = sorts.get(query.sort, lambda: np.arange(len(rows)))()
    mask = _mask(rows, states, query)
    order = order if mask is None else order[mask[order]]
    return _grouped(rows, states, order) if query.grouped else Selection(order)


def _mask(rows: Rows, states: States, query: Query) -> Mask | None:
    filters: dict[str, Callable[[Any], Mask]] = {
        "given": lambda k: rows.given == k,
        "suggested": lambda k: rows.suggested == k,
        "either": lambda k: (rows.given == k) | (rows.suggested == k),
        "flags": lambda flags: np.isin(rows.flag, flags),
        "lowest": lambda score: rows.score >= score,
        "highest": lambda score: rows.score <= score,
        "state": states.which,
        "text": rows.matching,
    }
    asked = {name: value for name in filters if (value := getattr(query, name)) not in (None, (), "")}
    masks = [filters[name](value) for name, value in asked.items()]
    return np.logical_and.reduce(masks) if masks else None


def _grouped(rows: Rows, states: States, order: Ints) -> Selection:
    """Pairs of different classes first, those with the most expected errors first; within a pair, the order stays."""
    classes = len(rows.class_names)
    pairs = rows.given[order] * classes + rows.probable[order]
    values, inverse, counts = np.unique(pairs, return_inverse=True, return_counts=True)
    same = values // classes == values % classes
    errors, open_ = 1 - rows.score[order], states.decision[order] == 0
    # By the errors of all its images: a group keeps its place while one decides.
    ranks = np.lexsort((values, -np.bincount(inverse, errors, len(values)), same))
    place = np.empty(len(ranks), np.uint16 if len(ranks) < 2**16 else np.int64)
    place[ranks] = np.arange(len(ranks))
    arranged = order[np.argsort(place[inverse], kind="stable")]
    undecided = np.bincount(inverse, open_, len(values)).astype(int)
    wrong = np.bincount(inverse, errors * open_, len(values))
    starts = np.cumsum(counts[ranks]) - counts[ranks]
    columns = (*np.divmod(values, classes), counts, undecided, wrong)
    given, suggested, count, undecided, wrong = (column[ranks].tolist() for column in columns)
    groups = map(Group, given, suggested, starts.tolist(), count, undecided, wrong)
    return Selection(arranged, tuple(groups))
