"""The certified count of a review: the images drawn for it, kept in the audit folder, and what decisions on them show.

`count.json` holds the draw: which images, in which order, and the seed that they came from. The decisions on them are
decisions like all others.
"""

import logging
import secrets
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hitnet.audit.audit_folder import own_file
from hitnet.audit.report import audit_fingerprint
from hitnet.audit.rows import Rows
from hitnet.errors import HitNetError, whole
from hitnet.features.opinions import Ints
from hitnet.review.certified import Draws, count_bounds, count_estimate, draw_images, draw_weights, follow_draws
from hitnet.review.selection import Verdict, Verdicts
from hitnet.runtime import files, schemas

log = logging.getLogger("hitnet")
NAME = "count.json"
LARGEST = 1 << 30  # bytes
FEWEST = 10  # decisions, before which nothing is said


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
