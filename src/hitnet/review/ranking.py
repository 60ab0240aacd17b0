"""Rank again as people decide: heads are fitted again on the kept features, with every decision as truth.

A thread of its own waits for enough new decisions, fits the heads, and puts the new ranking on the board. Pages take it
when their reader asks for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from hitnet.audit.rows import Ints, Mask, Ranking, Rows
from hitnet.audit.scoring import capsule_opinions
from hitnet.capsules import MISS_RADIUS
from hitnet.features.opinions import Opinion, all_distances, judge_features
from hitnet.review.board import Board
from hitnet.review.estimate import Left, errors_left, fit_outcomes, logistic, model_inputs

log = logging.getLogger("hitnet")
EVERY = 50  # decisions between two fits
FEWEST_LABELLED = 2  # images with a label that judges need


def fit_judges(
    features: Tensor, labels: Ints, known: Ints, truth: Ints, num_classes: int, *, seed: int
) -> tuple[Opinion, ...]:
    """The opinions of judges that learn from labels in which decisions have replaced what was given.

    Args:
        features: (N, D).
        labels: (N,), as given.
        known: Rows that people decided on.
        truth: Their true classes; −1 for those that belong to none: judges do not learn from them.
        num_classes: K.
        seed: Of folds and heads.
    """
    decided = labels.astype(np.int64).copy()
    decided[known] = truth
    used = torch.from_numpy(np.flatnonzero(decided >= 0))
    opinions = []
    for opinion in judge_features(features[used], torch.from_numpy(decided)[used], num_classes, seed=seed):
        distances = np.full((len(labels), num_classes), MISS_RADIUS, np.float32)
        distances[used.numpy()] = opinion.distances
        opinions.append(replace(opinion, distances=distances))
    return tuple(opinions)


def rank_again(
    opinions: Sequence[Opinion], labels: Ints, known: Ints, truth: Ints, *, version: int = 1
) -> tuple[Ranking, Left | None]:
    """The ranking that judges and decisions give together: by how probably each given label is wrong.

    Args:
        opinions: From `fit_judges`.
        labels: (N,), as given.
        known: Rows that people decided on.
        truth: Their true classes, −1 for none.
        version: Of the ranking.
    """
    distances = all_distances(opinions)
    labels, decided, wrong = _outcomes(labels, known, truth)
    inputs = model_inputs(distances, labels)
    model = fit_outcomes(inputs, decided, wrong)
    odds = model.log_odds(inputs)
    suggested = np.where(inputs.margin > 0, inputs.rival, labels)
    ranking = Ranking(
        version=version,
        order=np.lexsort((np.arange(len(labels)), -odds)),
        score=(1 - logistic(odds)).astype(np.float32),
        suggested=suggested,
        votes=(distances.argmin(axis=2) == suggested).sum(axis=0),
        distances=all_distances(capsule_opinions(opinions)).mean(axis=0),
        opinions=tuple(replace(opinion, distances=opinion.distances.astype(np.float16)) for opinion in opinions),
        decisions=len(known),
    )
    return ranking, errors_left(model, inputs, decided)


def _outcomes(labels: Ints, known: Ints, truth: Ints) -> tuple[Ints, Mask, Mask]:
    """The labels, which of them people decided on, and which of those were wrong."""
    decided, wrong = np.zeros((2, len(labels)), np.bool_)
    decided[known] = True
    wrong[known] = truth != labels[known]
    return labels.astype(np.int64), decided, wrong


def estimate_left(rows: Rows, known: Ints, truth: Ints) -> Left | None:
    """How many wrong labels are left, from the audit's own distances: for audits that kept no features."""
    labels, decided, wrong = _outcomes(rows.given, known, truth)
    inputs = model_inputs(np.asarray(rows.distances)[None], labels)
    # The audit's score already says what its distances come to, pairs included.
    score = np.clip(rows.own_ranking.score.astype(np.float64), 1e-9, 1 - 1e-9)
    inputs = replace(inputs, margin=np.log(1 - score) - np.log(score), prior=np.zeros(len(score)))
    return errors_left(fit_outcomes(inputs, decided, wrong), inputs, decided)


class Ranker:
    """Ranks again in the background.

    Args:
        board: Where decisions come from and rankings go.
        features: (N, D) in the table's order; None: the order stays that of the audit.
        every: New decisions that it waits for.
    """

    def __init__(self, board: Board, features: Tensor | None, *, every: int = EVERY) -> None:
        self.board, self.features, self.every = board, features, every
        self.left: Left | None = None
        self.busy = False
        self.fitted = 0  # decisions that the last fit knew
        self._wake, self._closed = threading.Event(), False
        self._thread = threading.Thread(target=self._run, name="ranker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def wake(self) -> None:
        """Look whether there are enough new decisions."""
        self._wake.set()

    def _run(self) -> None:
        while not self._closed:
            try:
                self.work()
            except Exception:  # a reviewer goes on deciding in the old order
                log.exception("The images could not be ranked again; the order stays as it is.")
            self._wake.wait()
            self._wake.clear()

    def work(self) -> None:
        """Rank again if there are enough new decisions."""
        known, truth = self.board.truths()
        if abs(len(known) - self.fitted) < self.every:  # undoing counts too
            return
        self.fitted = len(known)  # also if it fails: it is not tried again at every poll
        rows = self.board.rows
        labelled = len(rows) - int((truth < 0).sum())
        if self.features is None or labelled < FEWEST_LABELLED:
            self.left = estimate_left(rows, known, truth)
            return
        self.busy = True
        try:
            version = self.board.ranking().version + 1
            judged = fit_judges(self.features, rows.given, known, truth, len(rows.class_names), seed=version)
            ranking, self.left = rank_again(judged, rows.given, known, truth, version=version)
            self.board.add_ranking(ranking)
        finally:
            self.busy = False
