"""The rules of decisions: which there are, which a label allows, who decided what, and where reviewers agree."""

import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from hitnet.decisions.steps import Change, Key, Step

# keep: the given label is right. drop: the image leaves the set. neither: no label that was shown fits.
DECISIONS = ("keep", "relabel", "drop", "neither", "unsure")
UNDECIDED = "none"  # takes a decision back
Audited = Mapping[int, tuple[str, str]]  # path and label of each image of an audit, by id


def problem(
    change: Change, audited: Audited, class_names: Sequence[str], *, allowed: Sequence[str] = DECISIONS
) -> str | None:
    """What is wrong with a decision on an image of an audit, or None."""
    if change.id not in audited:
        return f"the audit has no image {change.id}"
    path, given = audited[change.id]
    if change.path != path:
        return f"image {change.id} is {path!r} in the audit, not {change.path!r}"
    if change.given != given:
        return f"image {change.id} is labelled {given!r} in the audit, not {change.given!r}"
    if change.decision not in allowed:
        return f"unknown decision {change.decision!r}; use {', '.join(allowed)}"
    if change.decision != "relabel":
        return f"{change.decision} takes no label, got {change.label!r}" if change.label else None
    if not change.label:
        return "relabel without a label"
    if change.label not in class_names:
        return f"{change.label!r} is not a class of the set or of the audit; new classes cannot be made here"
    return "it relabels to the label it has; use keep" if change.label == given else None


class Decision(NamedTuple):
    """What counts now: a reviewer's last decision on an image."""

    change: Change
    reviewer: str
    time: str

    @property
    def outcome(self) -> tuple[str, str]:
        return self.change.decision, self.change.label

    @property
    def answer(self) -> str:
        """The label that the reviewer wants; what is no label stands in brackets."""
        decision, label = self.outcome
        return {"keep": self.change.given, "relabel": label}.get(decision, f"({decision})")


class Decisions:
    """What all steps of a log come to. Steps may be added at any time."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self.steps: dict[str, Step] = {}
        self._undone: Counter[str] = Counter()  # how many steps that stand undo each step
        self._touching: dict[Key, list[tuple[str, Change]]] = {}
        for step in steps:
            self.add(step)

    def add(self, step: Step) -> set[Key]:
        """Take a step into account; returns the images that it concerns."""
        if step.name in self.steps or (step.undoes is not None and step.undoes not in self.steps):
            return set()  # steps count once, and undo earlier ones only
        self.steps[step.name] = step
        for change in step.changes:
            self._touching.setdefault(change.key, []).append((step.name, change))
        undone, by = step.undoes, 1
        while undone is not None:  # an undoing that no longer stands brings back what it had undone, and so on
            stood = self.stands(undone)
            self._undone[undone] += by
            if self.stands(undone) == stood:
                break
            undone, by = self.steps[undone].undoes, -by
        return self.concerned(step)

    def concerned(self, step: Step) -> set[Key]:
        """The images that a step, or the step that it undoes, is about."""
        while step.undoes is not None and step.undoes in self.steps:
            step = self.steps[step.undoes]
        return {change.key for change in step.changes}

    def stands(self, name: str) -> bool:
        """Whether a step has not been undone, or its undoing has been undone."""
        return not self._undone[name]

    def of(self, key: Key, given: str | None = None) -> dict[str, Decision]:
        """The decision of each reviewer on an image, the latest last; if `given`, those on this label."""
        current: dict[str, Decision] = {}
        for name, change in self._touching.get(key, ()):
            if not self.stands(name):
                continue
            step = self.steps[name]
            current.pop(step.reviewer, None)  # so that the last decision stands last
            if change.decision != UNDECIDED:
                current[step.reviewer] = Decision(change, step.reviewer, step.time)
        return {who: each for who, each in current.items() if given is None or each.change.given == given}

    def images(self) -> Iterator[Key]:
        """All images that a step concerns, also those whose decisions were undone."""
        return iter(self._touching)

    def last_step(self, reviewer: str) -> Step | None:
        """The reviewer's last step that still stands and is no undoing."""
        own = (step for step in reversed(self.steps.values()) if step.reviewer == reviewer and step.undoes is None)
        return next((step for step in own if self.stands(step.name)), None)


def settle(decisions: Mapping[str, Decision]) -> Decision | None:
    """The decision on which all reviewers of an image agree; None if there is none. Who is unsure agrees with all."""
    every = list(decisions.values())
    sure = [decision for decision in every if decision.change.decision != "unsure"]
    if not sure:
        return every[-1] if every else None
    return sure[-1] if len({decision.outcome for decision in sure}) == 1 else None


class Correction(NamedTuple):
    """A decision that counts, and where it stands, e.g. "line 3" of a file."""

    place: str
    change: Change


class Settled(NamedTuple):
    """Decisions that count, and the number of images that reviewers disagree on."""

    corrections: list[Correction]
    disputed: int = 0


def settled(decisions: Decisions, audited: Audited | None = None, *, reviewer: str | None = None) -> Settled:
    """What the decisions come to: those of one reviewer, or those that all agree on.

    Decisions on images that an audit does not have, or has under another label, say nothing of it.
    """
    known = {path or number: (number, path, given) for number, (path, given) in (audited or {}).items()}
    corrections: list[Correction] = []
    disputed = 0
    for key in decisions.images():
        if audited is not None and key not in known:
            continue
        current = decisions.of(key, known[key][2] if audited is not None else None)
        decision = settle(current) if reviewer is None else current.get(reviewer)
        if decision is None:
            disputed += bool(current) and reviewer is None
        else:
            change = decision.change if audited is None else Change(*known[key], *decision.outcome)
            corrections.append(Correction(f"decision {len(corrections) + 1}", change))
    return Settled(corrections, disputed)


def kappa(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Cohen's kappa of two lists of answers: 1 = they always agree, 0 = as often as by chance; None if undefined."""
    count = len(first)
    if not count:
        return None
    observed = sum(a == b for a, b in zip(first, second, strict=True)) / count
    firsts, seconds = Counter(first), Counter(second)
    expected = sum(firsts[answer] * seconds[answer] for answer in firsts) / count**2
    return None if expected == 1 else (observed - expected) / (1 - expected)


def agreement(answers: Mapping[str, Mapping[int, str]]) -> list[dict[str, Any]]:
    """Per pair of reviewers: number of images that both decided on and that they agree on, and kappa.

    `answers` are those of `Decision.answer`, by reviewer and image.
    """
    pairs = []
    for names in combinations(sorted(answers), 2):
        both = sorted(answers[names[0]].keys() & answers[names[1]].keys())
        if both:
            first, second = ([answers[name][image] for image in both] for name in names)
            agree = sum(map(operator.eq, first, second))
            pairs.append({"reviewers": [*names], "images": len(both), "agree": agree, "kappa": kappa(first, second)})
    return pairs
