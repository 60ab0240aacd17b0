"""The state of a review: rows and decisions, and the answers to what a page asks of them.

All threads of the server share one board. Changes happen under its lock; the log on disk is written first.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from hitnet.audit.rows import Rows
from hitnet.decisions.rules import DECISIONS, UNDECIDED, Decision, Decisions, agreement, problem, settle, settled
from hitnet.decisions.steps import NAME, Change, Key, Step, StepLog
from hitnet.errors import HitNetError, log
from hitnet.review.certified import Count
from hitnet.review.selection import CODES, MOST_ROWS, VERDICT, Query, Selection, States, Verdict, select_rows

KEPT_ORDERS = 16
HISTORY = 200  # steps that a page shows


class StaleError(HitNetError):
    """What a page asks to change is no longer what it shows."""


class Board:
    """The state of a review by one reviewer; others may review the same audit in other processes."""

    def __init__(self, rows: Rows, folder: Path, reviewer: str) -> None:
        self.rows, self.reviewer = rows, reviewer
        self.lock = threading.RLock()
        self.log = StepLog(folder / NAME)
        self.decisions = Decisions()
        self.states = States.undecided(len(rows))
        self.labels = rows.given.copy()  # (N,), as given or relabelled
        self.changed = 0  # counts changes of decisions
        self._answers: dict[str, dict[int, str]] = {}  # by reviewer and row
        keys = zip(rows.paths, rows.ids.tolist(), range(len(rows)), strict=True)
        # By what identifies an image in the log; made at once, because the first decision would wait for it.
        self._row_of_key: dict[Key, int] = {path or number: row for path, number, row in keys}
        self._class = {name: k for k, name in enumerate(rows.class_names)}
        self.count = Count(rows, folder)
        self._state = lru_cache(1)(self._state_of)
        self._select = lru_cache(KEPT_ORDERS)(
            lambda query, changed: select_rows(rows, self.states, query, self.count.drawn)
        )
        self.catch_up()

    # Decisions

    def catch_up(self) -> None:
        """Read what this or another process has logged since the last time."""
        with self.lock:
            concerned: set[Key] = set()
            if self.log.is_replaced():
                log.warning("%s is no longer the file that was read: what it holds now counts.", self.log.path)
                concerned.update(self.decisions.images())
                self.log, self.decisions = StepLog(self.log.path), Decisions()
            for step in self.log.read():
                concerned |= self.decisions.add(step)
            for key in concerned:
                self._update(key)
            if self.count.catch_up() or concerned:
                self.changed += 1

    def _update(self, key: Key) -> None:
        row = self._row_of_key.get(key)
        if row is None:
            return
        current = self.current(row)
        shown, decided, given = self._shown(current), settle(current), self.rows.given[row]
        self.states.decision[row] = 0 if shown is None else CODES.get(shown.change.decision, 0)
        self.states.own[row] = self.reviewer in current
        self.states.disputed[row] = bool(current) and decided is None
        unsettled = Verdict.UNSURE if current else Verdict.NONE
        self.states.verdict[row] = unsettled if decided is None else VERDICT.get(decided.change.decision, unsettled)
        # As given, or what all who are sure relabelled to.
        label = decided.change.label if decided is not None and decided.change.decision == "relabel" else None
        self.labels[row] = given if label is None else self._class.get(label, given)
        for reviewer in (*self._answers, *current):
            answers = self._answers.setdefault(reviewer, {})
            answers.pop(row, None)
            if reviewer in current:
                answers[row] = current[reviewer].answer

    def _shown(self, current: dict[str, Decision]) -> Decision | None:
        """The decision that the page shows: the reviewer's own, else the last of others."""
        return current.get(self.reviewer) or next(reversed(current.values()), None)

    def image(self, row: int) -> tuple[str, str]:
        """Path and label of an image."""
        return self.rows.paths[row], self.rows.class_names[self.rows.given[row]]

    def current(self, row: int) -> dict[str, Decision]:
        """The decisions on an image; those on a label that it no longer has do not count."""
        path, given = self.image(row)
        return self.decisions.of(path or int(self.rows.ids[row]), given)

    def decide(self, changes: Sequence[tuple[int, str, str]]) -> Step:
        """Log decisions (id, decision, label) on one image or many as one step; on disk when this returns."""
        if not changes:
            raise HitNetError("There is nothing to decide.")
        if len({number for number, _, _ in changes}) < len(changes):
            raise HitNetError("Decide on each image once at a time.")
        step = Step(self.reviewer, tuple(self._change(*change) for change in changes))
        self._log(step)
        return step

    def _change(self, number: int, decision: str, label: str) -> Change:
        image = self.image(self.rows.need_row(number))
        change = Change(number, *image, decision, label)
        wrong = problem(change, {number: image}, self.rows.class_names, allowed=(*DECISIONS, UNDECIDED))
        if wrong is not None:
            raise HitNetError(f"Image {number}: {wrong}.")
        return change

    def decide_group(self, query: Query, pair: tuple[int, int], decision: str, *, expected: int) -> Step:
        """Decide on all undecided images of the group of a `pair`, given and suggested: keep, or relabel them.

        If there are not as many as the page shows, it raises StaleError, and nothing is decided.
        """
        with self.lock:
            self.catch_up()
            order, groups = self.select(replace(query, grouped=True))
            group = next((each for each in groups if (each.given, each.suggested) == pair), None)
            undecided = 0 if group is None else group.undecided
            if group is None or undecided != expected:
                raise StaleError(f"{undecided} images are undecided here now, not {expected}. Nothing was decided.")
            rows = order[group.start : group.start + group.count]
            label = self.rows.class_names[group.suggested] if decision == "relabel" else ""
            ids = self.rows.ids[rows[self.states.decision[rows] == 0]].tolist()
            return self.decide([(number, decision, label) for number in ids])

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
            self.catch_up()  # also notices that the file was replaced
            self.log.append(step)
            self.catch_up()

    def concerned(self, step: Step) -> list[int]:
        """The rows that a step, or what it undoes, is about."""
        rows = (self._row_of_key.get(key) for key in self.decisions.concerned(step))
        return [row for row in rows if row is not None]

    def settled(self) -> list[Change]:
        """The decisions on which all reviewers agree."""
        with self.lock:
            self.catch_up()
            touched = (self._row_of_key.get(key) for key in self.decisions.images())
            audited = {int(self.rows.ids[row]): self.image(row) for row in touched if row is not None}
            return [change for _, change in settled(self.decisions, audited).corrections]

    def draw(self, images: int) -> None:
        with self.lock:
            self.catch_up()
            self.count.draw(images, self.states.verdict)
            self.changed += 1

    def state(self) -> dict[str, Any]:
        """What a page asks every few seconds; computed again when decisions change."""
        with self.lock:
            self.catch_up()
            return self._state(self.changed)

    def _state_of(self, changed: int) -> dict[str, Any]:
        decision, disputed = self.states.decision, int(self.states.disputed.sum())
        numbers = np.bincount(decision, minlength=len(DECISIONS) + 1).tolist()
        undecided = self.rows.score[decision == 0]
        return {
            "changed": changed,
            "counts": {**dict(zip(DECISIONS, numbers[1:], strict=True)), "disputed": disputed},
            "left": (float((1 - undecided).sum()), len(undecided)),  # wrong labels that are expected, and images
            "agreement": agreement(self._answers),
            "counted": self.count.state(self.states.verdict),
        }

    # What pages ask for

    def select(self, query: Query) -> Selection:
        """The rows that a query asks for, kept until decisions change them."""
        with self.lock:
            return self._select(query, self.changed if query.state or query.grouped else None)

    def window(self, query: Query, *, offset: int | None, limit: int, near: int | None) -> dict[str, Any]:
        """Some rows of a query, from `offset` or around `position`, and how many there are.

        The position is that of the image `near` or, if it is not among them, of the first that the reviewer has not
        decided on.
        """
        with self.lock:
            self.catch_up()
            selection = self.select(query)
        order = selection.order
        row = None if near is None else self.rows.row_of(near)
        places = np.flatnonzero(order == row) if row is not None else order[:0]
        if not len(places):
            places = np.flatnonzero(~self.states.own[order])
        position = int(places[0]) if len(places) else 0
        start = max(0, position - limit // 2) if offset is None else offset
        rows = order[start : start + min(limit, MOST_ROWS)]
        return {
            "total": len(order),
            "position": position,
            "offset": start,
            "rows": rows.tolist(),
            "columns": self.rows.columns(rows),
            "records": [self.record(row) for row in rows.tolist()],
            "groups": [vars(group) for group in selection.groups],
        }

    def record(self, row: int) -> dict[str, Any] | None:
        """What the page shows of the decisions on an image; None if there are none."""
        with self.lock:  # an undo under way has changed decisions, but not yet the states
            current = self.current(row)
        shown = self._shown(current)
        if shown is None:
            return None
        others = [[d.reviewer, *d.outcome] for d in current.values() if d is not shown]
        about = {"decision": shown.change.decision, "label": shown.change.label, "reviewer": shown.reviewer}
        return about | {"others": others, "disputed": bool(self.states.disputed[row])}

    def history(self) -> list[dict[str, Any]]:
        """The last steps, newest first."""
        with self.lock:
            self.catch_up()
            return [self._history_line(step) for step in islice(reversed(self.decisions.steps.values()), HISTORY)]

    def _history_line(self, step: Step) -> dict[str, Any]:
        labels = {change.label for change in step.changes if change.label}
        about = {"step": step.name, "time": step.time, "reviewer": step.reviewer, "undoes": step.undoes}
        return about | {
            "stands": self.decisions.stands(step.name),
            "images": len(step.changes),
            "ids": [change.id for change in step.changes[:3]],
            "kinds": dict(Counter(change.decision for change in step.changes)),
            "label": labels.pop() if len(labels) == 1 else "",
        }
