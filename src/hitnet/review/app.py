"""The review server's answers: the page, its rows and pictures, and what is decided. `access.py` stands before it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio.to_thread
import numpy as np
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hitnet.audit.report import finite_json, script_text, style_text
from hitnet.decisions.corrections import check_corrections
from hitnet.decisions.files import corrections_text, parse_corrections
from hitnet.decisions.steps import Step
from hitnet.errors import HitNetError
from hitnet.review.access import Access
from hitnet.review.board import Board, StaleError
from hitnet.review.evidence import Evidence
from hitnet.review.pictures import NotReadyError, Picture, Pictures
from hitnet.review.ranking import Ranker
from hitnet.review.selection import MOST_ROWS, read_query, read_whole

LONGEST = 32 * 2**20  # bytes of a request
Answer = Callable[[Request], Awaitable[Response]]


class ReviewApp:
    """Everything that answers requests."""

    def __init__(self, board: Board, pictures: Pictures, evidence: Evidence, ranker: Ranker, html: str) -> None:
        self.board, self.pictures, self.evidence, self.ranker, self.html = board, pictures, evidence, ranker, html

    def build(self, *, port: int, token: str) -> Starlette:
        """The application behind its guard."""
        routes = [
            Route("/", self.plain(lambda: self.html, "text/html")),
            Route("/page.js", self.plain(script_text, "text/javascript")),
            Route("/page.css", self.plain(style_text, "text/css")),
            Route("/api/rows", self.get(self.rows)),
            Route("/api/state", self.get(self.state)),
            Route("/api/steps", self.get(lambda _: {"steps": self.board.history()})),
            Route("/api/evidence/{number}", self.get(self.why)),
            Route("/api/export", self.plain(lambda: corrections_text(self.board.settled()), "text/csv")),
            Route("/api/decide", self.post(self.decide), methods=["POST"]),
            Route("/api/decide-group", self.post(self.decide_group), methods=["POST"]),
            Route("/api/undo", self.post(self.undo), methods=["POST"]),
            Route("/api/import", self.post(self.import_file), methods=["POST"]),
            Route("/thumb/{number}", self.picture(self.pictures.thumbnail)),
            Route("/image/{number}", self.picture(self.pictures.original)),
            Route("/typical/{number}", self.picture(self.pictures.thumbnail, self.typical)),
        ]
        return Starlette(routes=routes, middleware=[Middleware(Access, port=port, token=token)])

    # Kinds of answers. Work is done in threads: a slow request does not hold up the others.

    def plain(self, text: Callable[[], str], kind: str) -> Answer:
        async def answer(request: Request) -> Response:
            try:
                content = await anyio.to_thread.run_sync(text)
            except HitNetError as error:
                return _refusal(str(error), 400)
            return Response(content.encode("utf-8", "replace"), media_type=f"{kind}; charset=utf-8")

        return answer

    def get(self, work: Callable[[Request], Any]) -> Answer:
        async def answer(request: Request) -> Response:
            return await _answered(lambda: work(request))

        return answer

    def post(self, work: Callable[[dict[str, Any]], Step]) -> Answer:
        """What a page changes; the answer shows what has changed."""

        async def answer(request: Request) -> Response:
            if request.headers.get("content-type", "").partition(";")[0] != "application/json":
                return _refusal("Send JSON.", 415)
            content = b""
            async for part in request.stream():  # the header may promise less than comes
                content += part
                if len(content) > LONGEST:
                    return _refusal("Too much at once.", 413)
            try:
                body = json.loads(content)
            except (ValueError, RecursionError):
                return _refusal("This is not JSON.", 400)
            if not isinstance(body, dict):
                return _refusal("Send an object.", 400)
            return await _answered(lambda: self._changed(work(body)))

        return answer

    def picture(self, make: Callable[[int], Picture], row_of: Callable[[int], int] | None = None) -> Answer:
        row_of = row_of or self.board.rows.need_row

        async def answer(request: Request) -> Response:
            try:
                number = _number(request)
                picture = await anyio.to_thread.run_sync(lambda: make(row_of(number)))
            except NotReadyError as error:
                return _refusal(str(error), 503)
            except HitNetError as error:
                return _refusal(str(error), 404)
            return Response(picture.content, media_type=picture.kind, headers={"cache-control": "private, max-age=600"})

        return answer

    def typical(self, k: int) -> int:
        """The row of the most typical image of a class."""
        rows = self.evidence.typical(k)
        if not rows:
            raise HitNetError("This class has no image.")
        return rows[0]

    # What is asked

    def rows(self, request: Request) -> dict[str, Any]:
        values = request.query_params
        limit = read_whole(values.get("limit"), "limit")
        return self.board.window(
            read_query(values),
            version=read_whole(values.get("version"), "version"),
            offset=read_whole(values.get("offset"), "offset") or 0,
            limit=100 if limit is None else limit,
            near=read_whole(values.get("near"), "near"),
        )

    def state(self, request: Request | None = None) -> dict[str, Any]:
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

    def _changed(self, step: Step) -> dict[str, Any]:
        rows = self.board.concerned(step)
        records = [[int(self.board.rows.ids[row]), self.board.record(row)] for row in rows[:MOST_ROWS]]
        return {"step": step.name, "images": len(rows), "records": records, **self.state()}


def whole_number(value: Any) -> int:
    """A whole number of JSON; raises TypeError for anything else, fractions and booleans included."""
    if type(value) is not int:
        raise TypeError
    return value


def _number(request: Request) -> int:
    """The number in the address of a request."""
    number = read_whole(request.path_params["number"], "number")
    if number is None:
        raise HitNetError("review: the address must name an image.")
    return number


def _refusal(text: str, status: int) -> Response:
    return Response(text.encode("utf-8", "replace"), status, media_type="text/plain; charset=utf-8")


async def _answered(work: Callable[[], Any]) -> Response:
    """What the work gives, as JSON; a mistake in the request as its message."""
    try:
        content = await anyio.to_thread.run_sync(lambda: finite_json(work()))
    except StaleError as error:
        return _refusal(str(error), 409)
    except HitNetError as error:
        return _refusal(str(error), 400)
    return Response(content.encode("utf-8", "surrogatepass"), media_type="application/json")
