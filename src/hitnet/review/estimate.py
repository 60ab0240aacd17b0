"""How probably each label is wrong, learned from what people decided, and how many wrong labels are left unseen.

A logistic model of what the judges say of a label: the margin by which the best rival beats the given class, what the
audit expects of this pair of classes (`scores.pair_prior`), and what people found of the pair so far. It is fitted to
the decided images, and to the least doubtful half of all images, which count as right. With few decisions, it stays
near what the audit assumes. Pairs that nobody has decided on do not differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hitnet.audit import scores
from hitnet.audit.margins import margins
from hitnet.capsules import HIT_RADIUS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Constant, margin and prior of the pair: where they start, and how firmly they are held there. Chosen in simulations of
# reviews with wrong labels from other seeds than those that are reported.
START = (0.0, 1.0, 0.7)
HOLD = (1e-4, 10.0, 4.0)
PAIR_HOLD = 0.5  # how firmly each pair is held at no difference
MOST_PAIRS = 100
RIGHT = 0.5  # share of the images, the least doubtful undecided ones, that count as right
DRAWS = 400
FEWEST_DECIDED = 20  # decided images that an estimate needs
BLOCK = 8192


@dataclass(frozen=True)
class Left:
    """How many wrong labels are left among the images that nobody has decided on: expected, and a 90 % interval."""

    expected: float
    low: int
    high: int
    unseen: int


@dataclass(frozen=True)
class Inputs:
    """What the model looks at, of N images.

    Attributes:
        margin: (N,), by which the rival is nearer than the given class, in hit radii.
        prior: (N,), what the audit expects of this pair of classes.
        rival: (N,), the strongest other class.
        pair: (N,), number of the pair of given class and rival.
    """

    margin: Floats
    prior: Floats
    rival: Ints
    pair: Ints

    def design(self, pairs: Ints) -> Floats:
        """The columns of the model (N, 3 + P): constant, margin, prior, and one per pair."""
        known = np.stack([np.ones(len(self.margin)), self.margin, self.prior], axis=1)
        return np.concatenate([known, (self.pair[:, None] == pairs).astype(np.float64)], axis=1)

    def at(self, rows: Ints | Mask | slice) -> Inputs:
        return Inputs(self.margin[rows], self.prior[rows], self.rival[rows], self.pair[rows])


@dataclass(frozen=True)
class OutcomeModel:
    """The fitted model: pairs (P,) that have a column, coefficients (3 + P,) and their covariance."""

    pairs: Ints
    coefficients: Floats
    covariance: Floats

    def log_odds(self, inputs: Inputs) -> Floats:
        """Of each label being wrong (N,)."""
        return self._each(inputs, self.coefficients[:, None])[:, 0]

    def _each(self, inputs: Inputs, coefficients: Floats) -> Floats:
        """(N, S) for S sets of coefficients (3 + P, S), in bounded memory."""
        parts = [slice(i, i + BLOCK) for i in range(0, len(inputs.margin), BLOCK)]
        return np.concatenate([inputs.at(part).design(self.pairs) @ coefficients for part in parts])

    def draw_counts(self, inputs: Inputs, draw: np.random.Generator) -> Floats:
        """Numbers of wrong labels (DRAWS,): coefficients from their covariance, then labels from probabilities."""
        coefficients = draw.multivariate_normal(self.coefficients, self.covariance, DRAWS).T
        mean, variance = np.zeros(DRAWS), np.zeros(DRAWS)
        for start in range(0, len(inputs.margin), BLOCK):
            part = inputs.at(slice(start, start + BLOCK))
            probability = logistic(part.design(self.pairs) @ coefficients)
            mean += probability.sum(axis=0)
            variance += (probability * (1 - probability)).sum(axis=0)
        return mean + np.sqrt(variance) * draw.standard_normal(DRAWS)


def model_inputs(distances: npt.NDArray[np.floating], labels: Ints) -> Inputs:
    """What distances (M, N, K) of M judges say of labels (N,), as given."""
    evidence = margins(distances, labels)
    advantage = scores.advantages(evidence, labels)
    classes, rows = advantage.shape[1], np.arange(len(labels))
    prior = scores.pair_prior(scores.highest(advantage), labels, classes)
    rival = scores.highest(advantage + prior[labels]).rival
    margin = (evidence.given_distance - evidence.mean[rows, rival]) / HIT_RADIUS
    return Inputs(margin, prior[labels, rival] / HIT_RADIUS, rival, labels * classes + rival)


def fit_outcomes(inputs: Inputs, decided: Mask, wrong: Mask) -> OutcomeModel:
    """Fit the model by Newton's method.

    Args:
        inputs: From `model_inputs`.
        decided: (N,).
        wrong: (N,), which of the decided labels were wrong.
    """
    undecided = np.flatnonzero(~decided)
    clear = undecided[np.argsort(inputs.margin[undecided], kind="stable")[: round(RIGHT * len(decided))]]
    used = np.concatenate([np.flatnonzero(decided), clear])
    pairs, counts = np.unique(inputs.pair[decided], return_counts=True)
    pairs = pairs[np.argsort(-counts, kind="stable")[:MOST_PAIRS]]
    x, target = inputs.at(used).design(pairs), (wrong & decided)[used].astype(np.float64)
    start = np.concatenate([START, np.zeros(len(pairs))])
    hold = np.concatenate([HOLD, np.full(len(pairs), PAIR_HOLD)])
    coefficients = start
    for _ in range(100):
        probability = logistic(x @ coefficients)
        curvature = (x * (probability * (1 - probability))[:, None]).T @ x + np.diag(hold)
        step = np.linalg.solve(curvature, x.T @ (target - probability) - hold * (coefficients - start))
        coefficients = coefficients + step / max(1.0, np.abs(step).max() / 2)  # bounded: it cannot overshoot
        if np.abs(step).max() < 1e-8:
            break
    return OutcomeModel(pairs, coefficients, np.asarray(np.linalg.inv(curvature), np.float64))


def errors_left(model: OutcomeModel, inputs: Inputs, decided: Mask, *, seed: int = 0) -> Left | None:
    """How many labels of undecided images are wrong; None with too few decisions to say."""
    if decided.sum() < FEWEST_DECIDED:
        return None
    unseen = inputs.at(~decided)
    counts = model.draw_counts(unseen, np.random.default_rng(seed))
    low, high = np.quantile(counts, (0.05, 0.95)).clip(0, len(unseen.margin))
    expected = float(logistic(model.log_odds(unseen)).sum()) if len(unseen.margin) else 0.0
    return Left(expected, int(np.floor(low)), int(np.ceil(high)), len(unseen.margin))


def logistic(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))
