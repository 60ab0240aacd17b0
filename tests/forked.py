"""Processes that start at once: forked from a server that has PyTorch and hitnet imported already.

A `Forked` is like a `subprocess.Popen`: a process of its own, with its own environment, memory and signals. Only the
imports are shared, which take longer than what most tests do. Tests of how a program starts use `subprocess`.
"""

import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any

from filelock import FileLock

LARGEST = 1 << 20  # bytes of a request
# All workers of pytest-xdist share a server.
ADDRESS = Path(gettempdir()) / f"hitnet-tests-{os.getuid()}-{os.environ.get('PYTEST_XDIST_TESTRUNUID', os.getpid())}"


class Forked:
    """A process that runs `-c CODE`, `-m MODULE` or a script, with the arguments that follow.

    `out` and `err` are what it has printed so far; several processes may print into the same `files`.
    """

    def __init__(self, *words: Any, files: tuple[IO[str], IO[str]] | None = None, **environment: str) -> None:
        self.files = files or (TemporaryFile("w+"), TemporaryFile("w+"))  # noqa: SIM115
        self.returncode: int | None = None
        request = {"words": list(map(str, words)), "env": {**os.environ, **environment}, "cwd": os.getcwd()}
        self.connection = connected()
        socket.send_fds(self.connection, [json.dumps(request).encode()], [file.fileno() for file in self.files])
        self.pid = int(self.connection.recv(LARGEST))

    @property
    def out(self) -> str:
        return self._text(self.files[0])

    @property
    def err(self) -> str:
        return self._text(self.files[1])

    def _text(self, file: IO[str]) -> str:
        handle = file.fileno()
        return os.pread(handle, os.fstat(handle).st_size, 0).decode()  # the process writes where this handle stands

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; the exit status, or minus the signal that ended it."""
        if self.returncode is None:
            self.connection.settimeout(timeout)
            self.returncode = int(self.connection.recv(LARGEST))
            self.connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it, whether it runs or not."""
        with suppress(ProcessLookupError):
            self.send_signal(signal.SIGKILL)
        self.wait()


def connected() -> socket.socket:
    """A connection to the server, which is started where it does not run."""
    with FileLock(f"{ADDRESS}.lock"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with suppress(OSError):
            connection.connect(str(ADDRESS))
            return connection
        ADDRESS.unlink(missing_ok=True)
        command = [sys.executable, __file__, str(ADDRESS), str(os.getpid())]
        path = os.pathsep.join(filter(None, sys.path))
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True}
        server = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **quiet)
        while not ADDRESS.exists():
            assert server.poll() is None, "the server of forked processes has ended"
            time.sleep(0.05)
        connection.connect(str(ADDRESS))
        return connection


def serve(address: str, owner: int) -> None:
    """Fork a process for each request, and tell its number and, once it has ended, how; ends with its owner."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"{address}.new")
    listener.listen()
    os.rename(f"{address}.new", address)
    chosen = selectors.DefaultSelector()
    chosen.register(listener, selectors.EVENT_READ)
    chosen.register(os.pidfd_open(owner), selectors.EVENT_READ, "owner")
    while True:
        for key, _ in chosen.select():
            if key.data == "owner":
                for left in (address, f"{address}.lock"):
                    Path(left).unlink(missing_ok=True)
                return
            if key.data is None:
                connection = listener.accept()[0]
                content, handles, _, _ = socket.recv_fds(connection, LARGEST, 2)
                if not (pid := os.fork()):
                    run(json.loads(content), handles)
                for handle in handles:
                    os.close(handle)
                connection.send(str(pid).encode())
                chosen.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, connection))
            else:
                pid, connection = key.data
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with suppress(OSError):  # nobody waits any more
                    connection.send(str(status).encode())
                connection.close()
                chosen.unregister(key.fd)
                os.close(key.fd)


def run(request: dict[str, Any], handles: list[int]) -> None:
    """What a forked process does: become the program that was asked for, and end."""
    import atexit

    for target, handle in enumerate(handles, start=1):
        os.dup2(handle, target)
        os.close(handle)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    first, *sys.argv = request["words"]
    code: Any = 0
    try:
        if first == "-c":
            exec(sys.argv[0], {"__name__": "__main__"})
        elif first == "-m":
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [first, *sys.argv]
            runpy.run_path(first, run_name="__main__")
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    import torch._dynamo  # noqa: F401  what the first optimizer of a process would import

    import hitnet.cli.audit
    import hitnet.cli.review
    import hitnet.cli.runs
    import hitnet.cli.train  # noqa: F401

    serve(sys.argv[1], int(sys.argv[2]))
