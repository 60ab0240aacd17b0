"""Who may talk to the review server: a page of its own, on this machine, that knows the token.

Every request must name this server as its `Host`, so that no other site's name leads here. It must come from the
server's own page if it changes anything (`Origin`), and carry the token. Answers tell the browser to run only the
server's own script, to load nothing from elsewhere, and to guess no types.
"""

from __future__ import annotations

import hmac
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class Access:
    """Middleware that refuses requests from elsewhere and adds the headers of safety to every answer.

    The token is what the opened address carries; the browser keeps it in a cookie afterwards.
    """

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self.app, self.token = app, token
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

        answer = self._refusal(scope) or self._entrance(scope) or self.app
        await answer(scope, receive, send_safely)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return PlainTextResponse("This server answers only to its own name.", 421)
        own = origin == f"http://{host}"
        if (origin is not None and not own) or (scope["method"] not in READING and not own):
            return PlainTextResponse("This server answers only to its own page.", 403)
        if not self._knows_token(scope, headers):
            return PlainTextResponse("Open the address that `hitnet review` printed.", 403)
        return None

    def _knows_token(self, scope: Scope, headers: Headers) -> bool:
        return any(
            hmac.compare_digest(given.encode(), self.token.encode())
            for given in (self._from_cookie(headers), self._from_address(scope))
        )

    def _from_cookie(self, headers: Headers) -> str:
        """The token in our cookie. Cookies know no ports: those of other local servers, however odd, come along."""
        cookies = (cookie.partition("=") for cookie in headers.get("cookie", "").split(";"))
        return next((value.strip() for name, _, value in cookies if name.strip() == self.cookie), "")

    def _from_address(self, scope: Scope) -> str:
        """The token in the address, which only the first page may carry: it must not stay in the history."""
        if scope["path"] != "/" or scope["method"] not in READING:
            return ""
        return parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]

    def _entrance(self, scope: Scope) -> Response | None:
        """The first request carries the token in its address: give the browser a cookie, and the address without it."""
        if not self._from_address(scope):
            return None
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
        return response
