"""The review server: serves an audit's page on this machine, to this machine only."""

import asyncio
import getpass
import secrets
import socket
import threading
import warnings
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from hitnet.audit.audit_folder import DUPLICATES, own_file, read_kept
from hitnet.audit.report import finite_json, page_head, render_page
from hitnet.audit.results import Audit, open_audit
from hitnet.audit.rows import Rows
from hitnet.data import Source
from hitnet.errors import HitNetError, log
from hitnet.review.app import ReviewApp
from hitnet.review.board import Board
from hitnet.review.evidence import Evidence, Pictures
from hitnet.runtime import files

HOST = "127.0.0.1"
SILENCE = 10.0  # seconds after which it is looked whether a connection is used
LARGEST_DUPLICATES = 4 << 30  # bytes


def open_review(audit: Audit, *, reviewer: str, data: Source | None = None, count: int | None = None) -> ReviewApp:
    """Everything that a review of an audit needs, ready to answer requests; decisions are logged in its folder."""
    if audit.folder is None:
        raise HitNetError("This audit has no folder to keep decisions in. Audit again with `out`.")
    data = audit.audited_data(data).reopen(limit=audit.summary.limit)
    kept = read_kept(audit.folder, len(audit.table), len(audit.class_names))
    rows = Rows(audit.table, audit.distances, audit.class_names, audit.classes)
    board = Board(rows, audit.folder, reviewer)
    if count is not None:
        board.draw(count)
    evidence = Evidence(rows, kept, _duplicates(audit.folder), data)
    # The page asks for its rows. Everything from the dataset enters it as JSON and is shown only as text.
    title = f"Label review: {audit.summary.data}"
    head = page_head(rows, title, audit.summary) | rows.overview(np.arange(len(rows)))
    head["summary"]["prototypes"] = "typical"
    head |= {"server": True, "reviewer": reviewer, "counting": count is not None}
    html = render_page(title, finite_json(head), server=True)
    return ReviewApp(board, Pictures(data, rows, audit.summary.split), evidence, html)


def _duplicates(folder: Path) -> pd.DataFrame | None:
    """The audit's pairs of near-duplicates; None if it has none, or if the file is damaged."""
    columns = {"id_a": "int64", "id_b": "int64", "similarity": "float64"}
    if not (folder / DUPLICATES).exists():
        return None
    try:
        path = own_file(folder, DUPLICATES, largest=LARGEST_DUPLICATES)
        return pd.read_csv(path, usecols=list(columns), dtype=columns)
    except (OSError, ValueError, OverflowError) as error:
        log.warning("%s is damaged, and near-duplicates are not shown: %s", folder / DUPLICATES, error)
        return None


def serve_review(
    audit: Audit | str | Path,
    *,
    port: int = 0,
    reviewer: str | None = None,
    data: Source | None = None,
    count: int | None = None,
    open_browser: bool = True,
    ready: Callable[[str], None] | None = None,
) -> int:
    """Review an audit in the browser, until interrupted. Only this machine can reach the server.

    Args:
        audit: An audit, or its folder.
        port: Where to listen; 0: any free port.
        reviewer: Who decides (default: the name of the user).
        data: Where the audited data is now, if it has moved.
        count: Draw this many images for a certified count, and show them first.
        open_browser: Open the page.
        ready: Called with the page's address once the server listens.

    Returns:
        The number of images that have a decision, by whomever.
    """
    warnings.filterwarnings("ignore", module=r"PIL\..*")  # odd files are shown as well as they can be
    review = open_review(open_audit(audit), reviewer=reviewer_name(reviewer), data=data, count=count)
    listening = listen(port)
    port = listening.getsockname()[1]
    token, once = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    address = f"http://{HOST}:{port}/?token="
    try:
        # What a first request would otherwise wait for, e.g. loading images that are not in files.
        _in_background(lambda: review.typical(0), lambda: review.pictures.thumbnail(0), review.board.rows.warm)
        if ready is not None:
            ready(address + token)
        if open_browser:
            _in_background(lambda: webbrowser.open(address + once))
        uvicorn.Server(server_config(review.build(port=port, token=token, once=once))).run(sockets=[listening])
    except KeyboardInterrupt:  # the way to stop it
        pass
    counted = review.board.state()["counted"]
    if counted is not None and counted["sentence"] is not None:
        log.info(counted["sentence"])
    return int((review.board.states.decision > 0).sum())


class Impatient(H11Protocol):
    """Closes a connection on which no request is under way twice in a row: half a header is not waited for."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(SILENCE, self._look, False)

    def _look(self, was_idle: bool) -> None:
        idle = self.cycle is None or self.cycle.response_complete
        if idle and was_idle:
            self.transport.close()
        elif not self.transport.is_closing():
            self.loop.call_later(SILENCE, self._look, idle)


def server_config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(app, http=Impatient, log_level="warning", access_log=False, timeout_graceful_shutdown=2)


def listen(port: int) -> socket.socket:
    """A socket on the loopback address."""
    try:
        return socket.create_server((HOST, port), backlog=128)
    except (OSError, OverflowError) as error:
        raise HitNetError(f"Cannot listen on `port` = {port}: {error}. Choose another, or 0 for any.") from error


def reviewer_name(given: str | None) -> str:
    """Who decides, as it is logged: the given name, or that of the user; in a container, the user may have none."""
    try:
        name = " ".join((getpass.getuser() if given is None else given).split())
    except (KeyError, OSError) as error:
        raise HitNetError("This machine has no name for the user. Set `reviewer` to say who decides.") from error
    if not name or len(name) > 80 or not files.is_unicode(name):
        raise HitNetError(f"`reviewer` must be a name of at most 80 characters; got {name[:100]!r}.")
    return name


def _in_background(*tasks: Callable[[], object]) -> None:
    def work() -> None:
        for task in tasks:
            with suppress(HitNetError):  # told when it is asked for
                task()

    threading.Thread(target=work, daemon=True).start()
