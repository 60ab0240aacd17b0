"""Between which numbers that of the wrong labels lies, from decisions on images drawn with known probabilities.

Images are drawn one after the other, each from those that are left, with probabilities p proportional to weights. What
people decide on image i, 1 if its label is wrong, else 0, is w. With c, the probability that the audit gives to the
label being wrong, and C, the sum of c over all images left, the number (w − c) / p + C has the expected value μ, the
number of wrong labels among those left, whatever c is: good scores only make it vary less.

The bounds are those of a game. Who says that M labels are wrong also says what μ is before each draw. A gambler bets
that μ is too high: the capital is multiplied by 1 + b (μ − number) / (most − μ), where the share b < 1 of what could be
lost is staked. If M is true, the game is fair, and the capital ever reaches 1 / α with a probability of at most α
(Ville's inequality). So each M for which it does is ruled out; the other bound comes from betting that μ is too low.
This holds for every number of decisions, also if people stop when they like what they see, and for any scores and
errors (Shekhar et al., Risk-limiting financial audits via weighted sampling without replacement, 2023).

`count.json` in the audit folder holds the draw: which images, in which order, and the seed that they came from. The
decisions on them are decisions like all others.
"""

import math
import secrets
from bisect import bisect_left
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hitnet.audit.audit_folder import own_file
from hitnet.audit.margins import Floats
from hitnet.audit.report import audit_fingerprint
from hitnet.audit.rows import Rows
from hitnet.errors import HitNetError, log, whole
from hitnet.features.opinions import Ints
from hitnet.review.selection import Verdict, Verdicts
from hitnet.runtime import files, schemas

NAME = "count.json"
LARGEST = 1 << 30  # bytes
FEWEST = 10  # decisions, before which nothing is said
BY_DOUBT = 0.2  # share of the draws that follow the scores; the others fall on all images alike
BETS, SHARES = (0.3, 0.95), (0.2, 0.8)  # what is staked, and the share of the capital that bets so
CONFIDENCE = 0.95
TINY = 1e-12


@dataclass(frozen=True)
class Draws:
    """What is known before each of n draws; images (n,) in the order in which they were drawn."""

    probability: Floats  # p, of this image among those left
    expected: Floats  # c, of this image
    sum_expected: Floats  # C, of all images left
    most: Floats  # the largest number that could have been drawn
    least: Floats  # the smallest
    left: Ints  # how many images were left


def draw_weights(expected: Floats) -> Floats:
    """Weights (N,) from the probabilities (N,) that labels are wrong: a share by their square roots, the rest alike.

    Square roots vary the sum of w / p least. The bound from above mostly depends on how many draws fall on the many
    labels that look right, so most draws do.
    """
    roots = np.sqrt(expected.clip(0, 1))
    by_doubt = roots / roots.sum() if roots.any() else np.full(len(roots), 1 / len(roots))
    weights: Floats = BY_DOUBT * by_doubt + (1 - BY_DOUBT) / len(roots)
    return weights


def draw_images(weights: Floats, seed: int) -> Ints:
    """All images (N,) in the order in which they are drawn: exponential times with these rates, the shortest first."""
    times = np.random.Generator(np.random.PCG64(seed)).standard_exponential(len(weights)) / weights
    return np.argsort(times, kind="stable")


def follow_draws(weights: Floats, expected: Floats, order: Ints) -> Draws:
    """What is known before each draw, for images drawn in an order (n,), of N images with weights and probabilities."""
    never = np.ones(len(weights), np.bool_)  # drawn
    never[order] = False

    def left(values: Floats, over: np.ufunc, first: float) -> Floats:
        """Their sum or maximum over the images left before each draw."""
        return over.accumulate(np.append(first, values[order[::-1]]))[:0:-1]

    weight, rest = (left(each, np.add, each[never].sum()) for each in (weights, expected))
    ratios = ((1 - expected) / weights, expected / weights)
    up, down = (left(each, np.maximum, each[never].max(initial=-np.inf)) for each in ratios)
    return Draws(
        probability=weights[order] / weight,
        expected=expected[order],
        sum_expected=rest,
        most=rest + up * weight,
        least=rest - down * weight,
        left=len(weights) - np.arange(len(order)),
    )


def log_capital(total: int, draws: Draws, wrong: Floats, *, too_high: bool) -> float:
    """The logarithm of the largest capital of bets that `total` wrong labels are too many, or too few.

    `wrong` (t,) are the first decisions. The capital is infinite where they contradict `total`.
    """
    t, number = len(wrong), _numbers(draws, wrong)
    before = total - (np.cumsum(wrong) - wrong)  # μ
    if too_high:
        impossible, won, stake = before > draws.left[:t], before - number, draws.most[:t] - before
    else:
        impossible, won, stake = before < 0, number - before, before - draws.least[:t]
    if impossible.any():
        return math.inf
    gain = np.maximum(won / np.maximum(stake, TINY), -1)
    logs = np.log1p(np.array(BETS)[:, None] * gain).cumsum(axis=1) + np.log(SHARES)[:, None]
    return float(np.logaddexp.reduce(logs, axis=0).max(initial=0.0))


def count_bounds(draws: Draws, low: Floats, high: Floats, *, images: int) -> tuple[int, int]:
    """Between which numbers that of the wrong labels of N `images` lies; both bounds hold with CONFIDENCE.

    `low` (t,) are the first decisions: 1 if the label is wrong, else 0; 0 also where it is unsure. `high` (t,) are the
    same, but 1 where it is unsure.
    """
    limit = math.log(2 / (1 - CONFIDENCE))
    fewest, most = int(low.sum()), images - len(high) + int(high.sum())
    # The larger the total, the more wins who calls it too high: halving finds the first that is ruled out.
    first = int(high.sum())
    won = bisect_left(range(first, most + 1), True, key=lambda m: log_capital(m, draws, high, too_high=True) >= limit)
    lost = bisect_left(range(fewest, most), True, key=lambda m: log_capital(m, draws, low, too_high=False) < limit)
    above, below = first + won, fewest + lost
    return min(below, above - 1), above - 1


def count_estimate(draws: Draws, wrong: Floats) -> float:
    """An unbiased estimate of the number of wrong labels: the mean of what each of the first draws (t,) comes to."""
    return float((_numbers(draws, wrong) + np.cumsum(wrong) - wrong).mean())


def _numbers(draws: Draws, wrong: Floats) -> Floats:
    """(w − c) / p + C of the first draws (t,)."""
    t = len(wrong)
    return (wrong - draws.expected[:t]) / draws.probability[:t] + draws.sum_expected[:t]


@dataclass(frozen=True)
class Drawn:
    """The file: images by id. The count is about all images of the audit."""

    audit: str  # its fingerprint
    seed: int
    images: list[int]  # in the order in which they were drawn, from all but those of `known`
    known: list[int]  # on which people had decided before


class Count:
    """Images of an audit that were drawn for a count, if any were."""

    def __init__(self, rows: Rows, folder: Path) -> None:
        self.rows, self.path = rows, folder / NAME
        self.drawn: Ints = np.zeros(0, np.int64)  # rows, in the order in which they were drawn
        self._known = self.drawn
        self._draws: Draws | None = None
        self._file: Drawn | None = None
        self._written = 0  # when the file was that was read
        self.catch_up()

    @cached_property
    def _fingerprint(self) -> str:
        return audit_fingerprint(self.rows.table, list(self.rows.class_names))

    def catch_up(self) -> bool:
        """Read the file if this or another process has written it since the last time; whether it holds a draw."""
        try:
            written = self.path.lstat().st_mtime_ns
        except OSError:
            return False
        if written == self._written:
            return False
        self._written = written
        try:
            value = files.read_json(own_file(self.path.parent, NAME, largest=LARGEST))
            schemas.check_schema(value, schemas.schema_of(Drawn), self.path)
            self._take(Drawn(value["audit"], value["seed"], value["images"], value["known"]))
        except HitNetError as error:
            log.warning("%s. The count begins again.", str(error).rstrip("."))
            return False
        return True

    def _take(self, file: Drawn) -> None:
        if file.audit != self._fingerprint:
            raise HitNetError(f"{self.path} is of an earlier audit")
        known = np.array([self.rows.need_row(number) for number in file.known], np.int64)
        drawn, draws = self._follow(known, whole(NAME, "seed", file.seed, 0), len(file.images))
        if self.rows.ids[drawn].tolist() != file.images:
            raise HitNetError(f"{self.path} names other images than its seed draws")
        self.drawn, self._known, self._draws, self._file = drawn, known, draws, file

    def _follow(self, known: Ints, seed: int, images: int) -> tuple[Ints, Draws]:
        """The rows that a seed draws from all but the known ones, and what was known before each draw."""
        unknown = np.setdiff1d(np.arange(len(self.rows)), known)
        expected = (1 - self.rows.score[unknown]).clip(0, 1)
        weights = draw_weights(expected)
        order = draw_images(weights, seed)[:images]
        return unknown[order], follow_draws(weights, expected, order)

    def draw(self, images: int, verdicts: Verdicts) -> None:
        """Draw images from those without a decision, or more of them after an earlier draw; on disk when this returns.

        `images` are to be judged in all, `verdicts` (N,) are what people have decided.
        """
        whole("review", "count", images, 1)
        self.catch_up()
        if images <= len(self.drawn):
            return
        if self._file is not None:
            seed, known = self._file.seed, self._known
        else:
            seed, known = secrets.randbits(48), np.flatnonzero(verdicts != Verdict.NONE)
        if len(known) == len(self.rows):
            raise HitNetError("Every image has a decision: there is nothing left to draw for a count.")
        drawn, _ = self._follow(known, seed, images)
        ids = self.rows.ids
        files.write_json(self.path, asdict(Drawn(self._fingerprint, seed, ids[drawn].tolist(), ids[known].tolist())))
        self.catch_up()

    def state(self, verdicts: Verdicts) -> dict[str, Any] | None:
        """How many images were drawn, how many of them are left, and what the decisions come to; None before a draw."""
        if self._draws is None:
            return None
        left = np.flatnonzero(verdicts[self.drawn] == Verdict.NONE)
        judged = int(left[0]) if len(left) else len(self.drawn)  # one after the other, as they were drawn
        enough = judged >= min(FEWEST, len(self.drawn))
        sentence = self._sentence(self._draws, verdicts, judged) if enough else None
        return {"drawn": len(self.drawn), "left": len(left), "sentence": sentence}

    def _sentence(self, draws: Draws, verdicts: Verdicts, judged: int) -> str:
        """Which share of the labels was wrong, and which share still is at most."""
        images, before = len(self.rows), verdicts[self._known]
        drawn = verdicts[self.drawn[:judged]]
        wrong, unsure = (np.isin(drawn, kind).astype(float) for kind in (Verdict.WRONG, Verdict.OPEN))
        low, high = count_bounds(draws, wrong, wrong + unsure, images=images - len(before))
        known, unknown = (int(np.isin(before, kind).sum()) for kind in (Verdict.WRONG, Verdict.OPEN))
        found = int(np.isin(verdicts, Verdict.WRONG).sum())
        low, high = max(low + known, found), max(high + known + unknown, found)
        about = min(max(count_estimate(draws, wrong + unsure / 2) + known, low), high)
        share = [f"{100 * each / images:.1f}" for each in (about, low, high)]
        text = f"About {share[0]} % of the labels were wrong: {share[1]} to {share[2]} % (95 % sure)."
        corrected = int((verdicts == Verdict.CORRECTED).sum())
        left = f"{100 * (high - corrected) / images:.1f}"
        return f"{text} After your corrections, at most {left} % are." if corrected else text
