"""A review server under attack: hostile requests, honest decisions beside them, and kills at any moment.

Each round starts a server of an audit in a process of its own. Clients decide and note what the server acknowledged,
others send requests that are none. Then the server is killed, or stopped at the end, and its folder is looked at: every
acknowledged step is in `decisions.jsonl`, no other file has changed, and the server printed no traceback.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import select
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import attack_fuzz
from attack_kills import tree
from attack_mutations import HOSTILE, NUMBERS, change_json
from attack_samples import COUNT, PHOTOS
from attack_strangers import strange_address

import hitnet
from hitnet.decisions.steps import NAME, read_steps

WAITING = 60.0  # seconds for an answer, however busy the machine is
MOMENT = 0.5
LABELS = ("a", "b", "c")
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "PATCH", "G\0T", "get", "CONNECT", "A" * 9000)


@dataclass
class Tally:
    """What came of the requests and kills."""

    requests: int = 0
    decisions: int = 0
    kills: int = 0
    rounds: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, status: str, *, hostile: bool) -> None:
        with self.lock:
            self.requests += hostile
            self.statuses[status] += 1

    def find(self, what: str) -> None:
        print(what, flush=True)
        with self.lock:
            self.findings.append(what)


class Server:
    """A server of an audit folder, in a forked process."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root / "server.log"
        reading, writing = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            self._serve(writing)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            address = pipe.readline().strip()
        if not address:
            raise RuntimeError(f"the server did not start: {self.log.read_text()[-2000:]}")
        self.port, self.token = int(address.split(":")[2].split("/")[0]), address.partition("=")[2]

    def _serve(self, writing: int) -> None:
        output = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(output, stream)
        options = {"open_browser": False, "reviewer": "anna", "data": self.root / PHOTOS}
        try:
            hitnet.serve_review(self.root / "reviewed", ready=lambda a: os.write(writing, f"{a}\n".encode()), **options)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(0)

    def end(self, how: int) -> None:
        os.kill(self.pid, how)
        os.waitpid(self.pid, 0)

    def headers(self) -> dict[str, str]:
        own = f"127.0.0.1:{self.port}"
        cookie = f"hitnet-review-{self.port}={self.token}"
        return {"host": own, "origin": f"http://{own}", "cookie": cookie, "content-type": "application/json"}

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """A request of the server's own page; raises OSError or HTTPException where there is no answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAITING)
        try:
            connection.request(method, path, body, self.headers())
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def status(self) -> tuple[int, int]:
        """Bytes of memory, and open files."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        memory = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
        return memory, len(os.listdir(f"/proc/{self.pid}/fd"))


def hostile_request(server: Server, root: Path, rng: random.Random) -> bytes:
    """The bytes of a request: an address, a body, a header or a line that is none; often with the right token."""
    headers = {name: value.encode("latin-1") for name, value in server.headers().items()}
    body, method, path = b"", "GET", strange_address(root, rng).decode()
    how = rng.randrange(8)
    if how < 2:
        method, path = "POST", "/api/" + rng.choice(("decide", "decide-group", "undo", "import", "count", "x"))
        sample = (root / "requests" / f"{rng.choice(('decide', 'group', 'undo', 'import'))}.json").read_bytes()
        body = change_json(sample, rng)
        headers["content-length"] = str(len(body)).encode()
    elif how == 2:
        method = rng.choice(METHODS)
    elif how == 3:
        name = rng.choice(("host", "origin", "cookie", "content-type", "content-length", "transfer-encoding", "expect"))
        odd = rng.choice((*HOSTILE, *NUMBERS, "chunked", "chunked, gzip", "evil.example", "null", "-1", "100-continue"))
        headers[name] = str(odd).encode("utf-8", "surrogatepass").replace(b"\n", b"" if rng.random() < 0.5 else b"\n")
    elif how == 4:
        del headers[rng.choice(list(headers))]
    elif how == 5:
        method, path, headers["transfer-encoding"] = "POST", "/api/decide", b"chunked"
        headers["content-length"] = b"5"
        body = rng.choice(
            (b"5\r\n{}   \r\n0\r\n\r\n", b"FFFFFFFFFFFF\r\nx", b"-1\r\n", b"0\r\n\r\n", b"zz\r\n", b"1" * 40_000)
        )
    lines = b"".join(name.encode() + b": " + value + b"\r\n" for name, value in headers.items())
    raw = f"{method} {path} HTTP/1.1\r\n".encode("utf-8", "surrogatepass") + lines + b"\r\n" + body
    if how == 6:
        raw = raw[: rng.randrange(len(raw))]
    if how == 7:
        place = rng.randrange(len(raw))
        raw = raw[:place] + rng.randbytes(rng.choice((1, 4, 400))) + raw[place:]
    return raw


def send_hostile(server: Server, raw: bytes, tally: Tally) -> None:
    """Send bytes and read the first line of an answer; half a request is left after a moment."""
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=WAITING) as connection:
            connection.sendall(raw)
            if not select.select([connection], [], [], MOMENT)[0]:
                connection.shutdown(socket.SHUT_WR)  # what is only half a request is not waited for
            line = connection.makefile("rb").readline(100)
    except TimeoutError:
        tally.find(f"no answer after {WAITING:.0f} s to {raw[:300]!r}")
        return
    except OSError:  # closed before all was sent, or the server was killed
        line = b""
    status = line.split()[1].decode("latin-1") if line.startswith(b"HTTP/") else "closed"
    tally.add(status, hostile=True)
    if status.startswith("5") and status != "503":
        tally.find(f"answered {status} to {raw[:300]!r}")


def decide(server: Server, rng: random.Random, acknowledged: list[str], tally: Tally) -> None:
    """An honest decision; what the server acknowledges is noted."""
    change = [rng.randrange(COUNT), *rng.choice((("keep", ""), ("drop", ""), ("unsure", ""), ("relabel", LABELS[0])))]
    status, content = server.ask("POST", "/api/decide", json.dumps({"changes": [change]}).encode())
    tally.add(str(status), hostile=False)
    if status == 200:
        acknowledged.append(json.loads(content)["step"])
        with tally.lock:
            tally.decisions += 1
    elif status != 400:  # e.g. a relabelling to the label that it has
        tally.find(f"a decision was answered with {status}: {content[:300]!r}")


def work_on(
    server: Server, root: Path, seed: str, stop: threading.Event, acknowledged: list[str], tally: Tally
) -> None:
    """A client that decides, looks and sends hostile requests until the server is gone."""
    rng = random.Random(seed)
    while not stop.is_set():
        try:
            how = rng.random()
            if how < 0.6:
                send_hostile(server, hostile_request(server, root, rng), tally)
            elif how < 0.85:
                decide(server, rng, acknowledged, tally)
            else:
                path = rng.choice(("/api/state", "/api/rows?limit=20", "/thumb/3", "/image/3", "/api/evidence/3", "/"))
                status, _ = server.ask("GET", path)
                tally.add(str(status), hostile=False)
                if status not in (200, 503):
                    tally.find(f"{path} was answered with {status}")
        except (OSError, http.client.HTTPException) as error:
            if not stop.is_set() and _alive(server):
                tally.find(f"a request got no answer: {error!r}")
            return


def _alive(server: Server) -> bool:
    time.sleep(0.2)  # a killed process is one for a moment more
    with contextlib.suppress(OSError):
        return Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def play_round(
    root: Path, samples: Path, seed: str, seconds: float, tally: Tally, *, kill: bool
) -> list[tuple[int, int]]:
    """A server's life, with three clients; returns its memory and open files, ten times."""
    server, stop, acknowledged = Server(root), threading.Event(), []
    arguments = [(server, samples, f"{seed}/{i}", stop, acknowledged, tally) for i in range(3)]
    clients = [threading.Thread(target=work_on, args=each) for each in arguments]
    for client in clients:
        client.start()
    measured = []
    for _ in range(10 if not kill else 1):
        time.sleep(seconds / (10 if not kill else 1))
        measured.append(server.status())
    if kill:
        server.end(signal.SIGKILL)
        tally.kills += 1
    stop.set()
    for client in clients:
        client.join()
    if not kill:
        server.end(signal.SIGINT)
    tally.rounds += 1
    lost = set(acknowledged) - {step.name for step in read_steps(root / "reviewed")}
    if lost:
        tally.find(f"{len(lost)} acknowledged decisions are lost")
    if "Traceback" in server.log.read_text(errors="replace"):
        tally.find(f"the server printed {server.log.read_text(errors='replace')[-300:]}")
        server.log.unlink()
    return measured


def attack(
    seed: int, *, kills: int, seconds: float, soak: float = 0.0, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Kill servers `kills` times or until the time is over, then let one live for `soak` seconds."""
    tally, rng, end = Tally(), random.Random(f"{seed}/server"), time.monotonic() + seconds
    with attack_fuzz.samples() as samples, tempfile.TemporaryDirectory(prefix="hitnet-server-") as folder:
        root = Path(folder) / "set"
        root.mkdir()
        for name in ("reviewed", PHOTOS):
            shutil.copytree(samples / name, root / name)
        before = {**tree(root / PHOTOS), **tree(root / "reviewed")}
        while tally.kills < kills and time.monotonic() < end:
            play_round(root, samples, f"{seed}/{tally.kills}", rng.uniform(0.02, 1.0), tally, kill=True)
            if tally.kills % 20 == 0:
                say(f"{tally.kills} kills, {tally.requests} hostile requests, {len(tally.findings)} findings")
        killed = dict(tally.statuses), tally.requests
        measured = play_round(root, samples, f"{seed}/soak", soak, tally, kill=False) if soak else []
        after = {**tree(root / PHOTOS), **tree(root / "reviewed")}
        for name in (NAME, "count.json"):
            before.pop(name, None), after.pop(name, None)
        if after != before:
            tally.find(f"files have changed: {sorted(set(after.items()) ^ set(before.items()))[:5]}")
    return {
        "kills": tally.kills,
        "hostile_requests": tally.requests,
        "of_these_in_the_soak": tally.requests - killed[1],
        "acknowledged_decisions": tally.decisions,
        "statuses": dict(sorted(tally.statuses.items())),
        "soak_seconds": soak,
        "soak_megabytes": [round(memory / 2**20, 1) for memory, _ in measured],
        "soak_open_files": [files for _, files in measured],
        "findings": tally.findings,
    }
