"""The state of a review: rows, decisions and rankings, and the answers to what a page asks of them.

All threads of the server share one board. Changes happen under its lock; the log on disk is written first.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hitnet.audit.correction_files import DECISIONS, Correction
from hitnet.audit.decisions import (
    NAME,
    UNDECIDED,
    Change,
    Decision,
    DecisionLog,
    Decisions,
    Key,
    Step,
    settle,
    settled,
)
from hitnet.errors import HitNetError
from hitnet.review.queries import MOST_ROWS, Query
from hitnet.review.rows import Ints, Ranking, Rows
from hitnet.review.selection import CODES, Selection, States, select_rows

KEPT_RANKINGS = 4  # pages may still show an earlier one
KEPT_ORDERS = 16
UNSETTLED = -2  # in place of a true class; -1: no label is right, or none is known


class StaleError(HitNetError):
    """What a page asks to change is no longer what it shows."""


class Board:
    """The state of a review by one reviewer; others may review the same audit in other processes.

    Args:
        rows: The audit.
        folder: Where its decisions are logged.
        reviewer: Who decides here.
    """

    def __init__(self, rows: Rows, folder: Path, reviewer: str) -> None:
        self.rows, self.reviewer = rows, reviewer
        self.lock = threading.RLock()
        self.log = DecisionLog(folder / NAME)
        self.decisions = Decisions()
        self.rankings: OrderedDict[int, Ranking] = OrderedDict({0: rows.own_ranking})
        self.states = States.undecided(len(rows))
        self.changed = 0  # counts changes of decisions
        self.answers: dict[str, dict[int, str]] = {}  # by reviewer and row; what is no label stands in brackets
        self._truth = np.full(len(rows), UNSETTLED, np.int64)
        self._class = {name: k for k, name in enumerate(rows.class_names)}
        self.agreed: tuple[int, list[dict[str, Any]]] | None = None  # of reviewers, with the `changed` that it is of
        self._orders: OrderedDict[tuple[Any, ...], Selection] = OrderedDict()
        self.catch_up()

    # Decisions

    def catch_up(self) -> None:
        """Read what this or another process has logged since the last time."""
        with self.lock:
            concerned: set[Key] = set()
            for step in self.log.read():
                concerned |= self.decisions.add(step)
            for key in concerned:
                self._update(key)
            if concerned:
                self.changed += 1

    def _update(self, key: Key) -> None:
        row = self.rows.row_of_key.get(key)
        if row is None:
            return
        current = self.current(row)
        own = current.get(self.reviewer)
        shown = own or next(reversed(current.values()), None)
        self.states.decision[row] = 0 if shown is None else CODES.get(shown.decision, 0)
        self.states.own[row] = own is not None
        decided = settle(current)
        self.states.disputed[row] = bool(current) and decided is None
        self._truth[row] = self._true_class(row, decided)
        for reviewer in self.decisions.reviewers:
            if reviewer in current:
                self.answers.setdefault(reviewer, {})[row] = current[reviewer].answer
            else:
                self.answers.get(reviewer, {}).pop(row, None)

    def _true_class(self, row: int, decided: Decision | None) -> int:
        if decided is None or decided.decision == "unsure":
            return UNSETTLED
        known = {"keep": int(self.rows.given[row]), "relabel": self._class.get(decided.label, -1)}
        return known.get(decided.decision, -1)

    def key(self, row: int) -> Key:
        return self.rows.paths[row] or int(self.rows.ids[row])

    def current(self, row: int) -> dict[str, Decision]:
        """The decisions on an image; those on a label that it no longer has do not count."""
        given = self.rows.class_names[self.rows.given[row]]
        decided = self.decisions.of(self.key(row))
        return {reviewer: decision for reviewer, decision in decided.items() if decision.given == given}

    def decide(self, changes: Sequence[tuple[int, str, str]]) -> Step:
        """Log decisions (id, decision, label) on one image or many as one step; on disk when this returns."""
        if not changes:
            raise HitNetError("There is nothing to decide.")
        step = Step(self.reviewer, tuple(self._change(*change) for change in changes))
        self._log(step)
        return step

    def _change(self, number: int, decision: str, label: str) -> Change:
        row = self.rows.need_row(number)
        given = self.rows.class_names[self.rows.given[row]]
        if decision not in (*DECISIONS, UNDECIDED):
            raise HitNetError(f"Unknown decision {decision!r}; use {', '.join((*DECISIONS, UNDECIDED))}.")
        if decision == "relabel" and (label not in self.rows.class_names or label == given):
            raise HitNetError(f"Image {number} cannot be relabelled from {given!r} to {label!r}.")
        if decision != "relabel" and label:
            raise HitNetError(f"Only relabel takes a label, not {decision}.")
        return Change(number, self.rows.paths[row], given, decision, label)

    def decide_group(self, query: Query, decision: str, *, version: int, expected: int) -> Step:
        """Decide on all undecided images of a query: keep their labels, or give them the one suggested class.

        Raises:
            StaleError: There are not as many as the page shows; nothing is decided then.
        """
        with self.lock:
            self.catch_up()
            ranking = self.ranking(version)
            if ranking.version != version:
                raise StaleError("The images were ranked anew. Look at the new order first.")
            order = self.select(replace(query, grouped=False), ranking).order
            rows = order[self.states.decision[order] == 0]
            if len(rows) != expected:
                raise StaleError(f"{len(rows)} images are undecided here now, not {expected}. Nothing was decided.")
            label = ""
            if decision == "relabel":
                if query.suggested is None:
                    raise HitNetError("Choose one suggested class to relabel to.")
                label = self.rows.class_names[query.suggested]
            return self.decide([(number, decision, label) for number in self.rows.ids[rows].tolist()])

    def undo(self, name: str | None = None) -> Step:
        """Undo a step, or the reviewer's last one; an undone step can be undone too, which brings it back."""
        with self.lock:
            self.catch_up()
            step = self.decisions.last_step(self.reviewer) if name is None else self.decisions.steps.get(name)
            if step is None:
                raise HitNetError("Nothing to undo." if name is None else f"There is no step {name!r}.")
            undoing = Step(self.reviewer, undoes=step.name)
            self._log(undoing)
            return undoing

    def _log(self, step: Step) -> None:
        with self.lock:
            self.log.append(step)
            self.catch_up()

    def concerned(self, step: Step) -> list[int]:
        """The ids of the images that a step, or what it undoes, is about."""
        keys = self.decisions.concerned(step)
        return [int(self.rows.ids[row]) for key in keys if (row := self.rows.row_of_key.get(key)) is not None]

    def settled(self) -> list[Correction]:
        """The decisions on which all reviewers agree, as corrections."""
        with self.lock:
            return settled(self.decisions, self.rows.table).corrections

    def counts(self) -> dict[str, int]:
        """How many images there are of each decision, by whoever decided, and how many are disputed."""
        numbers = np.bincount(self.states.decision, minlength=len(DECISIONS) + 1).tolist()
        return {**dict(zip(DECISIONS, numbers[1:], strict=True)), "disputed": int(self.states.disputed.sum())}

    def truths(self) -> tuple[Ints, Ints]:
        """Rows on which the decision is settled, and their true class; −1 for those that no label is known of."""
        with self.lock:
            rows = np.flatnonzero(self._truth != UNSETTLED)
            return rows, self._truth[rows]

    # Rankings

    def ranking(self, version: int | None = None) -> Ranking:
        """The ranking of this version if it is still kept, else the newest."""
        with self.lock:
            return self.rankings.get(-1 if version is None else version) or next(reversed(self.rankings.values()))

    def add_ranking(self, ranking: Ranking) -> None:
        with self.lock:
            self.rankings[ranking.version] = ranking
            while len(self.rankings) > KEPT_RANKINGS:
                self.rankings.popitem(last=False)

    # What pages ask for

    def select(self, query: Query, ranking: Ranking) -> Selection:
        """The rows that a query asks for, kept until decisions change them."""
        with self.lock:
            key = (query, ranking.version, self.changed if query.state or query.grouped else None)
            if key not in self._orders:
                self._orders[key] = select_rows(self.rows, self.states, query, ranking)
                while len(self._orders) > KEPT_ORDERS:
                    self._orders.popitem(last=False)
            self._orders.move_to_end(key)
            return self._orders[key]

    def window(self, query: Query, *, version: int | None, offset: int, limit: int, near: int | None) -> dict[str, Any]:
        """Some rows of a query, how many there are, and where the image `near` stands among them."""
        with self.lock:
            self.catch_up()
            ranking = self.ranking(version)
            selection = self.select(query, ranking)
        order = selection.order
        position = self._position(order, near)
        start = offset if near is None else max(0, position - limit // 2)
        rows = order[start : start + min(limit, MOST_ROWS)]
        return {
            "total": len(order),
            "position": position,
            "offset": start,
            "version": ranking.version,
            "rows": rows.tolist(),
            "columns": self.rows.columns(rows, ranking),
            "records": [self.record(row) for row in rows.tolist()],
            "groups": [[g.given, g.suggested, g.start, g.count, g.undecided] for g in selection.groups],
        }

    def _position(self, order: Ints, number: int | None) -> int:
        row = None if number is None else self.rows.row_of(number)
        places = np.flatnonzero(order == row) if row is not None else order[:0]
        return int(places[0]) if len(places) else 0

    def record(self, row: int) -> dict[str, Any] | None:
        """What the page shows of the decisions on an image; None if there are none."""
        with self.lock:  # an undo under way has changed decisions, but not yet the states
            current = self.current(row)
        if not current:
            return None
        shown = current.get(self.reviewer) or next(reversed(current.values()))
        others = [[d.reviewer, d.decision, d.label, d.time] for d in current.values() if d is not shown]
        return {
            "decision": shown.decision,
            "label": shown.label,
            "reviewer": shown.reviewer,
            "time": shown.time,
            "others": others,
            "disputed": bool(self.states.disputed[row]),
        }

    def history(self, limit: int = 200) -> list[dict[str, Any]]:
        """The last steps, newest first."""
        with self.lock:
            self.catch_up()
            names = list(self.decisions.steps)[: -limit - 1 : -1]
            return [self._in_words(self.decisions.steps[name]) for name in names]

    def _in_words(self, step: Step) -> dict[str, Any]:
        kinds = Counter(change.decision for change in step.changes)
        labels = {change.label for change in step.changes if change.label}
        return {
            "step": step.name,
            "time": step.time,
            "reviewer": step.reviewer,
            "undoes": step.undoes,
            "stands": self.decisions.stands(step.name),
            "images": len(step.changes),
            "first": step.changes[0].id if step.changes else None,
            "kinds": dict(kinds),
            "label": labels.pop() if len(labels) == 1 else "",
        }
