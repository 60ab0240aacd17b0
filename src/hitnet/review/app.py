"""The review server's answers: the page, its rows and pictures, and what is decided. `guard.py` stands before it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import anyio.to_thread
import numpy as np
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hitnet.audit.correction_files import corrections_text, parse_corrections
from hitnet.audit.corrections import check_corrections
from hitnet.audit.page import finite_json
from hitnet.data.reading.pictures import NotReadyError
from hitnet.errors import HitNetError
from hitnet.review.agreement import agreement
from hitnet.review.board import Board, StaleError
from hitnet.review.evidence import Evidence
from hitnet.review.guard import Guard
from hitnet.review.page import PageFiles
from hitnet.review.pictures import Picture, Pictures
from hitnet.review.queries import MOST_ROWS, read_query, read_whole
from hitnet.review.ranking import Ranker

LONGEST = 32 * 2**20  # bytes of a request
Answer = Callable[[Request], Awaitable[Response]]


class ReviewApp:
    """Everything that answers requests."""

    def __init__(self, board: Board, pictures: Pictures, evidence: Evidence, ranker: Ranker, page: PageFiles) -> None:
        self.board, self.pictures, self.evidence, self.ranker, self.page = board, pictures, evidence, ranker, page

    def build(self, *, port: int, token: str) -> Starlette:
        """The application behind its guard."""
        routes = [
            Route("/", self.plain(lambda: self.page.html, "text/html")),
            Route("/page.js", self.plain(lambda: self.page.script, "text/javascript")),
            Route("/page.css", self.plain(lambda: self.page.style, "text/css")),
            Route("/api/rows", self.get(self.rows)),
            Route("/api/state", self.get(self.state)),
            Route("/api/steps", self.get(lambda _: {"steps": self.board.history()})),
            Route("/api/evidence/{number:int}", self.get(self.why)),
            Route("/api/corrections.csv", self.corrections),
            Route("/api/decide", self.post(self.decide), methods=["POST"]),
            Route("/api/decide-group", self.post(self.decide_group), methods=["POST"]),
            Route("/api/undo", self.post(self.undo), methods=["POST"]),
            Route("/api/import", self.post(self.take_in), methods=["POST"]),
            Route("/thumb/{number:int}", self.picture(self.pictures.thumbnail)),
            Route("/image/{number:int}", self.picture(self.pictures.original)),
            Route("/typical/{number:int}", self.typical),
        ]
        return Starlette(routes=routes, middleware=[Middleware(Guard, port=port, token=token)])

    # Kinds of answers. Work is done in threads: a slow request does not hold up the others.

    def plain(self, text: Callable[[], str], kind: str) -> Answer:
        async def answer(request: Request) -> Response:
            return Response(text(), media_type=f"{kind}; charset=utf-8")

        return answer

    def get(self, work: Callable[[Request], Any]) -> Answer:
        async def answer(request: Request) -> Response:
            return await _answered(lambda: work(request))

        return answer

    def post(self, work: Callable[[dict[str, Any]], Any]) -> Answer:
        async def answer(request: Request) -> Response:
            if request.headers.get("content-type", "").partition(";")[0] != "application/json":
                return PlainTextResponse("Send JSON.", 415)
            if int(request.headers.get("content-length") or LONGEST + 1) > LONGEST:
                return PlainTextResponse("Too much at once.", 413)
            try:
                body = json.loads(await request.body())
            except (ValueError, RecursionError):
                return PlainTextResponse("This is not JSON.", 400)
            if not isinstance(body, dict):
                return PlainTextResponse("Send an object.", 400)
            return await _answered(lambda: work(body))

        return answer

    def picture(self, make: Callable[[int], Picture]) -> Answer:
        async def answer(request: Request) -> Response:
            try:
                picture = await anyio.to_thread.run_sync(
                    lambda: make(self.board.rows.need_row(request.path_params["number"]))
                )
            except NotReadyError as error:
                return PlainTextResponse(str(error), 503)
            except HitNetError as error:
                return PlainTextResponse(str(error), 404)
            return Response(picture.content, media_type=picture.kind, headers={"cache-control": "private, max-age=600"})

        return answer

    async def typical(self, request: Request) -> Response:
        """The most typical image of a class."""
        rows = await anyio.to_thread.run_sync(lambda: self.evidence.typical(request.path_params["number"]))
        if not rows:
            return PlainTextResponse("This class has no image.", 404)
        request.scope["path_params"]["number"] = int(self.board.rows.ids[rows[0]])
        return await self.picture(self.pictures.thumbnail)(request)

    async def corrections(self, request: Request) -> Response:
        """The settled decisions as a file that `hitnet audit apply` takes."""
        text = await anyio.to_thread.run_sync(self.to_csv)
        headers = {"content-disposition": 'attachment; filename="corrections.csv"'}
        return Response(text.encode("utf-8", "replace"), media_type="text/csv; charset=utf-8", headers=headers)

    # What is asked

    def rows(self, request: Request) -> dict[str, Any]:
        values = request.query_params
        limit = read_whole(values, "limit", 100)
        return self.board.window(
            read_query(values),
            version=read_whole(values, "version"),
            offset=read_whole(values, "offset", 0) or 0,
            limit=min(limit or 0, MOST_ROWS),
            near=read_whole(values, "near"),
        )

    def state(self, request: Request) -> dict[str, Any]:
        """What a page asks every few seconds."""
        self.board.catch_up()
        self.ranker.wake()
        return self._state()

    def _state(self) -> dict[str, Any]:
        left, ranking = self.ranker.left, self.board.ranking()
        return {
            "changed": self.board.changed,
            "counts": self.board.counts(),
            "version": ranking.version,
            "ranked_with": ranking.decisions,
            "ranking": self.ranker.busy,
            "left": None if left is None else [left.expected, left.low, left.high, left.unseen],
            "agreement": agreement(self.board),
        }

    def why(self, request: Request) -> dict[str, Any]:
        row = self.board.rows.need_row(request.path_params["number"])
        ranking = self.board.ranking(read_whole(request.query_params, "version"))
        known, truth = self.board.truths()
        labels = self.board.rows.given.copy()
        labels[known] = np.where(truth >= 0, truth, labels[known])
        return {**self.evidence.of(row, ranking, labels), "record": self.board.record(row)}

    def decide(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            changes = [(whole_number(number), str(decision), str(label)) for number, decision, label in body["changes"]]
        except (KeyError, TypeError, ValueError):
            raise HitNetError("review: `changes` must be a list of [id, decision, label].") from None
        return self._changed(self.board.decide(changes).name)

    def decide_group(self, body: dict[str, Any]) -> dict[str, Any]:
        asked = body.get("query") or {}
        if not isinstance(asked, dict):
            raise HitNetError("review: `query` must be an object.")
        query = read_query({name: str(value) for name, value in asked.items()})
        try:
            version, expected = whole_number(body["version"]), whole_number(body["expected"])
        except (KeyError, TypeError):
            raise HitNetError("review: `version` and `expected` must be whole numbers.") from None
        step = self.board.decide_group(
            replace(query, grouped=False), str(body.get("decision")), version=version, expected=expected
        )
        return self._changed(step.name)

    def undo(self, body: dict[str, Any]) -> dict[str, Any]:
        name = body.get("step")
        return self._changed(self.board.undo(None if name is None else str(name)).name)

    def take_in(self, body: dict[str, Any]) -> dict[str, Any]:
        """Decisions from a file of corrections, as one step."""
        rows = self.board.rows
        corrections = parse_corrections(str(body.get("text", "")), "the file")
        decided = check_corrections(rows.table, corrections, rows.class_names, name="the file")
        outcomes = [(number, *correction.outcome) for number, correction in decided.items()]
        return self._changed(self.board.decide(outcomes).name)

    def to_csv(self) -> str:
        self.board.catch_up()
        return corrections_text(self.board.settled())

    def _changed(self, name: str) -> dict[str, Any]:
        self.ranker.wake()
        ids = self.board.concerned(self.board.decisions.steps[name])
        rows = [self.board.rows.need_row(number) for number in ids[:MOST_ROWS]]
        records = [[int(self.board.rows.ids[row]), self.board.record(row)] for row in rows]
        return {"step": name, "images": len(ids), "records": records, **self._state()}


def whole_number(value: Any) -> int:
    """A whole number of JSON; raises TypeError for anything else, fractions and booleans included."""
    if type(value) is not int:
        raise TypeError
    return value


async def _answered(work: Callable[[], Any]) -> Response:
    """What the work gives, as JSON; a mistake in the request as its message."""
    try:
        content = await anyio.to_thread.run_sync(lambda: finite_json(work()))
    except StaleError as error:
        return PlainTextResponse(str(error), 409)
    except HitNetError as error:
        return PlainTextResponse(str(error), 400)
    return Response(content.encode("utf-8", "surrogatepass"), media_type="application/json")
