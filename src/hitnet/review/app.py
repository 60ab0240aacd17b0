"""The review server's answers: the page, its rows and pictures, what is decided, and who may ask."""

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request, cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hitnet.audit.report import SCRIPTS, STYLES, asset_text, finite_json
from hitnet.data.reading.pictures import NotReadyError
from hitnet.decisions.correction_files import corrections_text, parse_corrections
from hitnet.decisions.corrections import check_corrections
from hitnet.decisions.steps import Step
from hitnet.errors import HitNetError
from hitnet.review.board import Board, StaleError
from hitnet.review.evidence import Evidence, Picture, Pictures
from hitnet.review.selection import MOST_ROWS, read_query, read_whole
from hitnet.runtime.schemas import ANYTHING, find_problem

LONGEST = 32 * 2**20  # bytes of a request
PATIENCE = 60.0  # seconds until a request must be here
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
READING = ("GET", "HEAD")
# What requests that change something hold; see hitnet.runtime.schemas.
DECIDE = {"changes": [[(int, str)]]}
GROUP = {"given": int, "suggested": int, "expected": int, "decision": str, "query?": {str: ANYTHING}}
UNDO, COUNT, IMPORT = {"step?": (str, None)}, {"images": int}, {"text": str}


class ReviewApp:
    """Everything that answers requests."""

    def __init__(self, board: Board, pictures: Pictures, evidence: Evidence, html: str) -> None:
        self.board, self.pictures, self.evidence, self.html = board, pictures, evidence, html

    def build(self, *, port: int, token: str, once: str = "") -> Starlette:
        """The application behind its guard; `once` is a token that opens the first page a single time."""
        need_row, small, original = self.board.rows.need_row, self.pictures.thumbnail, self.pictures.original
        routes = [
            Route("/", answer(lambda _: _text(self.html, "text/html"))),
            Route("/page.js", answer(lambda _: _text(asset_text(SCRIPTS), "text/javascript"))),
            Route("/page.css", answer(lambda _: _text(asset_text(STYLES), "text/css"))),
            Route("/api/rows", answer(lambda request: _json(self.rows(request.query_params)))),
            Route("/api/state", answer(lambda _: _json(self.board.state()))),
            Route("/api/steps", answer(lambda _: _json({"steps": self.board.history()}))),
            Route("/api/evidence/{number}", answer(lambda request: _json(self.why(request)))),
            Route("/api/export", answer(lambda _: _text(corrections_text(self.board.settled()), "text/csv"))),
            Route("/api/decide", self.changing(self.decide, DECIDE), methods=["POST"]),
            Route("/api/decide-group", self.changing(self.decide_group, GROUP), methods=["POST"]),
            Route("/api/undo", self.changing(lambda body: self.board.undo(body.get("step")), UNDO), methods=["POST"]),
            Route("/api/import", self.changing(self.import_file, IMPORT), methods=["POST"]),
            Route("/api/count", self.changing(lambda body: self.board.draw(body["images"]), COUNT), methods=["POST"]),
            Route("/thumb/{number}", answer(lambda request: _picture(small(need_row(_number(request)))), 404)),
            Route("/image/{number}", answer(lambda request: _picture(original(need_row(_number(request)))), 404)),
            Route("/typical/{number}", answer(lambda request: _picture(small(self.typical(_number(request)))), 404)),
        ]
        return Starlette(routes=routes, middleware=[Middleware(Access, port=port, token=token, once=once)])

    # What is asked

    def rows(self, values: Mapping[str, str]) -> dict[str, Any]:
        offset, limit, near = (read_whole(values.get(name), name) for name in ("offset", "limit", "near"))
        limit = 100 if limit is None else limit
        return self.board.window(read_query(values), offset=offset, limit=limit, near=near)

    def why(self, request: Request) -> dict[str, Any]:
        return self.evidence.of(self.board.rows.need_row(_number(request)), self.board.labels.copy())

    def typical(self, k: int) -> int:
        """The row of the most typical image of a class."""
        rows = self.evidence.typical(k)
        if not rows:
            raise HitNetError("This class has no image.")
        return rows[0]

    # What is changed

    def changing(
        self, change: Callable[[dict[str, Any]], Step | None], schema: Mapping[str, Any]
    ) -> Callable[[Request], Awaitable[Response]]:
        """A request that changes something, with what it must hold; the answer shows what has changed."""

        async def respond(request: Request) -> Response:
            if request.headers.get("content-type", "").partition(";")[0] != "application/json":
                return _text("Send JSON.", status=415)
            content = bytearray()
            try:
                with anyio.fail_after(PATIENCE):
                    async for part in request.stream():  # the header may promise less than comes
                        content += part
                        if len(content) > LONGEST:
                            return _text("Too much at once.", status=413)
            except (TimeoutError, ClientDisconnect):
                return _text("Too slow.", status=408)
            return await answer(lambda _: _json(self.changed(change(_object(content, schema)))))(request)

        return respond

    def changed(self, step: Step | None) -> dict[str, Any]:
        rows = [] if step is None else self.board.concerned(step)
        records = [[int(self.board.rows.ids[row]), self.board.record(row)] for row in rows[:MOST_ROWS]]
        return {"step": step and step.name, "images": len(rows), "records": records, **self.board.state()}

    def decide(self, body: dict[str, Any]) -> Step:
        if any([type(part) for part in change] != [int, str, str] for change in body["changes"]):
            raise HitNetError("review: `changes` must be a list of [id, decision, label].")
        return self.board.decide([tuple(change) for change in body["changes"]])

    def decide_group(self, body: dict[str, Any]) -> Step:
        asked = body.get("query", {}).items()
        texts = {name: ",".join(map(str, v)) if isinstance(v, list) else str(v) for name, v in asked}
        pair = body["given"], body["suggested"]
        return self.board.decide_group(read_query(texts), pair, body["decision"], expected=body["expected"])

    def import_file(self, body: dict[str, Any]) -> Step:
        """Decisions from a file of steps or corrections, as one step."""
        board = self.board
        read = parse_corrections(body["text"], "the file")
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
    return read_whole(request.path_params["number"], "number") or 0  # it is never empty


def _object(content: bytes | bytearray, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object of a request, if it holds what it must."""
    try:
        body: dict[str, Any] = json.loads(content)
    except (ValueError, RecursionError):
        raise HitNetError("This is not JSON.") from None
    problem = find_problem(body, schema, "")
    if problem is not None:
        raise HitNetError(f"review: {problem}.")
    return body


def _same(given: str, token: str) -> bool:
    return bool(token) and hmac.compare_digest(given.encode(), token.encode())


class Access:
    """Middleware: who may talk to the server is a page of its own, on this machine, that knows the token.

    Every request must name this server as its `Host`, so that no other site's name leads here. It must come from the
    server's own page if it changes anything (`Origin`), and carry the token: the opened address has it, and the browser
    keeps it in a cookie afterwards. The address that a program opens has a token of its own that counts once, because
    other users of the machine can read the arguments of programs. Answers tell the browser to run only the server's own
    script, to load nothing from elsewhere, and to guess no types.
    """

    def __init__(self, app: ASGIApp, *, port: int, token: str, once: str = "") -> None:
        self.app, self.token, self.once = app, token, once
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.cookie = f"hitnet-review-{port}"  # cookies do not know ports: each server has a name of its own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        address = self._from_address(scope)
        answer = self._refusal(scope, address) or (self._entrance() if address else self.app)
        await answer(scope, receive, send_safely)

    def _refusal(self, scope: Scope, address: str) -> Response | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return PlainTextResponse("This server answers only to its own name.", 421)
        own = origin == f"http://{host}"
        if (origin is not None and not own) or (scope["method"] not in READING and not own):
            return PlainTextResponse("This server answers only to its own page.", 403)
        # Cookies know no ports: those of other local servers, however odd, come along.
        cookie = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        if _same(address, self.once):
            self.once = ""
        elif not _same(cookie, self.token) and not _same(address, self.token):
            return PlainTextResponse("Open the address that `hitnet review` printed.", 403)
        return None

    def _from_address(self, scope: Scope) -> str:
        """The token in the address, which only the first page may carry: it must not stay in the history."""
        if scope["path"] != "/" or scope["method"] not in READING:
            return ""
        return parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]

    def _entrance(self) -> Response:
        """The first request carries the token in its address: give the browser a cookie, and the address without it."""
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
        return response
