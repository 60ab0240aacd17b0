"""The review server's answers: the page, its rows and pictures, and what is decided. `access.py` stands before it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio.to_thread
import numpy as np
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hitnet.audit.report import finite_json, script_text, style_text
from hitnet.data.reading.pictures import NotReadyError
from hitnet.decisions.correction_files import corrections_text, parse_corrections
from hitnet.decisions.corrections import check_corrections
from hitnet.decisions.steps import Step
from hitnet.errors import HitNetError
from hitnet.review.access import Access
from hitnet.review.board import Board, StaleError
from hitnet.review.evidence import Evidence
from hitnet.review.pictures import Picture, Pictures
from hitnet.review.ranking import Ranker
from hitnet.review.selection import MOST_ROWS, read_query, read_whole

LONGEST = 32 * 2**20  # bytes of a request


class ReviewApp:
    """Everything that answers requests."""

    def __init__(self, board: Board, pictures: Pictures, evidence: Evidence, ranker: Ranker, html: str) -> None:
        self.board, self.pictures, self.evidence, self.ranker, self.html = board, pictures, evidence, ranker, html

    def build(self, *, port: int, token: str) -> Starlette:
        """The application behind its guard."""
        need_row, small, original = self.board.rows.need_row, self.pictures.thumbnail, self.pictures.original
        routes = [
            Route("/", answer(lambda _: _text(self.html, "text/html"))),
            Route("/page.js", answer(lambda _: _text(script_text(), "text/javascript"))),
            Route("/page.css", answer(lambda _: _text(style_text(), "text/css"))),
            Route("/api/rows", answer(lambda request: _json(self.rows(request.query_params)))),
            Route("/api/state", answer(lambda _: _json(self.state()))),
            Route("/api/steps", answer(lambda _: _json({"steps": self.board.history()}))),
            Route("/api/evidence/{number}", answer(lambda request: _json(self.why(request)))),
            Route("/api/export", answer(lambda _: _text(corrections_text(self.board.settled()), "text/csv"))),
            Route("/api/decide", self.changing(self.decide), methods=["POST"]),
            Route("/api/decide-group", self.changing(self.decide_group), methods=["POST"]),
            Route("/api/undo", self.changing(self.undo), methods=["POST"]),
            Route("/api/import", self.changing(self.import_file), methods=["POST"]),
            Route("/thumb/{number}", answer(lambda request: _picture(small(need_row(_number(request)))), 404)),
            Route("/image/{number}", answer(lambda request: _picture(original(need_row(_number(request)))), 404)),
            Route("/typical/{number}", answer(lambda request: _picture(small(self.typical(_number(request)))), 404)),
        ]
        return Starlette(routes=routes, middleware=[Middleware(Access, port=port, token=token)])

    # What is asked

    def rows(self, values: Mapping[str, str]) -> dict[str, Any]:
        version, offset, limit, near = (read_whole(values.get(n), n) for n in ("version", "offset", "limit", "near"))
        limit = 100 if limit is None else limit
        return self.board.window(read_query(values), version=version, offset=offset or 0, limit=limit, near=near)

    def state(self) -> dict[str, Any]:
        """What a page asks every few seconds."""
        self.board.catch_up()
        self.ranker.wake()
        left, ranking = self.ranker.left, self.board.ranking()
        return {
            "changed": self.board.changed,
            "counts": self.board.counts(),
            "version": ranking.version,
            "ranked_with": ranking.decisions,
            "ranking": self.ranker.busy,
            "left": None if left is None else [left.expected, left.low, left.high, left.unseen],
            "agreement": self.board.agreement(),
        }

    def why(self, request: Request) -> dict[str, Any]:
        row = self.board.rows.need_row(_number(request))
        ranking = self.board.ranking(read_whole(request.query_params.get("version"), "version"))
        known, truth = self.board.truths()
        labels = self.board.rows.given.copy()
        labels[known] = np.where(truth >= 0, truth, labels[known])
        return self.evidence.of(row, ranking, labels)

    def typical(self, k: int) -> int:
        """The row of the most typical image of a class."""
        rows = self.evidence.typical(k)
        if not rows:
            raise HitNetError("This class has no image.")
        return rows[0]

    # What is changed

    def changing(self, change: Callable[[dict[str, Any]], Step]) -> Callable[[Request], Awaitable[Response]]:
        """A request that changes something; the answer shows what has changed."""

        async def respond(request: Request) -> Response:
            if request.headers.get("content-type", "").partition(";")[0] != "application/json":
                return _text("Send JSON.", status=415)
            content = b""
            async for part in request.stream():  # the header may promise less than comes
                content += part
                if len(content) > LONGEST:
                    return _text("Too much at once.", status=413)
            return await answer(lambda _: _json(self.changed(change(_object(content)))))(request)

        return respond

    def changed(self, step: Step) -> dict[str, Any]:
        rows = self.board.concerned(step)
        records = [[int(self.board.rows.ids[row]), self.board.record(row)] for row in rows[:MOST_ROWS]]
        return {"step": step.name, "images": len(rows), "records": records, **self.state()}

    def decide(self, body: dict[str, Any]) -> Step:
        try:
            changes = [(whole_number(number), str(decision), str(label)) for number, decision, label in body["changes"]]
        except (KeyError, TypeError, ValueError):
            raise HitNetError("review: `changes` must be a list of [id, decision, label].") from None
        return self.board.decide(changes)

    def decide_group(self, body: dict[str, Any]) -> Step:
        asked = body.get("query") or {}
        if not isinstance(asked, dict):
            raise HitNetError("review: `query` must be an object.")
        texts = {name: ",".join(map(str, v)) if isinstance(v, list) else str(v) for name, v in asked.items()}
        try:
            version, expected = whole_number(body["version"]), whole_number(body["expected"])
        except (KeyError, TypeError):
            raise HitNetError("review: `version` and `expected` must be whole numbers.") from None
        decision = str(body.get("decision"))
        return self.board.decide_group(read_query(texts), decision, version=version, expected=expected)

    def undo(self, body: dict[str, Any]) -> Step:
        name = body.get("step")
        return self.board.undo(None if name is None else str(name))

    def import_file(self, body: dict[str, Any]) -> Step:
        """Decisions from a file of steps or corrections, as one step."""
        board = self.board
        read = parse_corrections(str(body.get("text", "")), "the file")
        rows = (board.rows.row_of(correction.change.id) for correction in read.corrections)
        audited = {int(board.rows.ids[row]): board.image(row) for row in rows if row is not None}
        decided = check_corrections(audited, read.corrections, board.rows.class_names, name="the file").values()
        return board.decide([(each.change.id, each.change.decision, each.change.label) for each in decided])


def answer(work: Callable[[Request], Response], refused: int = 400) -> Callable[[Request], Awaitable[Response]]:
    """What the work gives, or its message if it refuses. It is done in a thread: a slow request holds up no other."""

    async def respond(request: Request) -> Response:
        try:
            return await anyio.to_thread.run_sync(work, request)
        except HitNetError as error:
            status = 409 if isinstance(error, StaleError) else 503 if isinstance(error, NotReadyError) else refused
            return _text(str(error), status=status)

    return respond


def _text(content: str, kind: str = "text/plain", *, status: int = 200) -> Response:
    return Response(content.encode("utf-8", "replace"), status, media_type=f"{kind}; charset=utf-8")


def _json(content: Any) -> Response:
    return Response(finite_json(content).encode("utf-8", "surrogatepass"), media_type="application/json")


def _picture(picture: Picture) -> Response:
    return Response(picture.content, media_type=picture.kind, headers={"cache-control": "private, max-age=600"})


def _number(request: Request) -> int:
    """The number in the address of a request."""
    number = read_whole(request.path_params["number"], "number")
    if number is None:
        raise HitNetError("review: the address must name an image.")
    return number


def _object(content: bytes) -> dict[str, Any]:
    """The JSON object of a request."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise HitNetError("This is not JSON.") from None
    if not isinstance(body, dict):
        raise HitNetError("Send an object.")
    return body


def whole_number(value: Any) -> int:
    """A whole number of JSON; raises TypeError for anything else, fractions and booleans included."""
    if type(value) is not int:
        raise TypeError
    return value
