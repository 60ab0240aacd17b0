"""Read damaged files in worker processes, with limits of time and memory, and keep what broke.

A worker is forked from a process that has everything imported, so that thousands of inputs a minute are possible and a
crash or a hang ends only the worker. Each input is made from (seed, kind, number): any can be made again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import attack_kinds
from attack_kinds import Kind
from attack_mutations import mutate
from attack_samples import write_samples
from attack_strangers import STRANGERS

from hitnet.cli import REFUSALS
from hitnet.errors import HitNetError

SECONDS = 20.0  # of the processor: a reader that takes longer hangs
WAITING = 300.0  # seconds; a reader that waits longer hangs, however busy the machine is
MEMORY = 1 << 30  # bytes above what the process has: a reader that takes more is a finding
PER_WORKER = 1000  # inputs
ADDRESS_SPACE = 8 << 30  # bytes above what the process has: no finding may stop the machine
KINDS = (*attack_kinds.KINDS, *STRANGERS)
BY_NAME = {kind.name: kind for kind in KINDS}
EVENTS = {"socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"}
OUTSIDE = {"/etc/passwd", "/dev/zero", "/dev/urandom"}
READ, REFUSED, TRACEBACK, CRASH, HANG, TOO_MUCH = "read", "refused", "traceback", "crash", "hang", "memory"


@dataclass
class Tally:
    """What came of the inputs of one kind.

    Attributes:
        outcomes: How many inputs had which outcome.
        slowest: Seconds of the processor that the slowest input took.
        memory: Bytes that the hungriest input took above what the process had.
        findings: Inputs that broke something.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    memory: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def inputs(self) -> int:
        return self.outcomes.total()


def make_input(kind: Kind, root: Path, seed: int, number: int) -> bytes:
    """The content of an input; `root` is a folder of sound samples."""
    rng = random.Random(f"{seed}/{kind.name}/{number}")
    if kind.make is not None:
        return kind.make(root, rng)
    sample = (root / rng.choice(kind.samples)).read_bytes()
    return mutate(sample, kind.structured, rng, (root / rng.choice(kind.samples)).read_bytes())


FORBIDDEN: list[str] = []  # what the reader of the last input did, but must not


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: no file makes a reader contact a network, start a program, or read what is none of its data."""
    own = (
        event == "subprocess.Popen" and arguments[0] == sys.executable
    )  # Matlab files are read in a process of their own
    if (event in EVENTS and not own) or (event == "open" and str(arguments[0]) in OUTSIDE):
        FORBIDDEN.append(f"{event} {arguments!r:.500}")


def try_input(kind: Kind, work: Path, content: bytes) -> tuple[str, str]:
    """Read an input in a folder of samples; returns the outcome and, of what broke, the traceback."""
    target = work / kind.place
    target.write_bytes(content)
    FORBIDDEN.clear()
    outcome = _tried(kind, work)
    return (TRACEBACK, f"{FORBIDDEN}") if FORBIDDEN else outcome


def _tried(kind: Kind, work: Path) -> tuple[str, str]:
    try:
        kind.read(work)
    except HitNetError as error:
        return (REFUSED, "") if str(error).strip() else (TRACEBACK, "an error without a message")
    except OSError as error:
        return (REFUSED, "") if error.errno in REFUSALS else (TRACEBACK, traceback.format_exc())
    except BaseException:
        return TRACEBACK, traceback.format_exc()
    return READ, ""


@contextlib.contextmanager
def samples() -> Iterator[Path]:
    """A folder of sound samples, written by a process of its own: threads, which forks lose, stay there."""
    with tempfile.TemporaryDirectory(prefix="hitnet-attack-") as folder:
        child = os.fork()
        if not child:
            code = 1
            try:
                write_samples(Path(folder))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        if os.waitpid(child, 0)[1]:
            raise RuntimeError("The samples cannot be written.")
        yield Path(folder)


def attack_kind(kind: Kind, root: Path, seed: int, first: int, most: int, seconds: float, tally: Tally) -> int:
    """Try inputs of a kind from number `first` on, `most` or until the time is over; returns the next number."""
    end = time.monotonic() + seconds
    number = first
    while number < first + most and time.monotonic() < end:
        number = _worker(kind, root, seed, number, min(first + most, number + PER_WORKER), end, tally)
    return number


def _worker(
    kind: Kind, root: Path, seed: int, first: int, last: int, end: float, tally: Tally, given: bytes | None = None
) -> int:
    """Fork a worker for inputs `first` to `last`, or for a `given` one; returns the number of the next input to try."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            _work(kind, root, seed, range(first, last), end, writing, given)
        finally:
            os._exit(0)
    os.close(writing)
    number, begun, used, buffer = first, time.monotonic(), 0.0, b""
    outcome = None
    while True:
        ready, _, _ = select.select([reading], [], [], 1.0)
        if not ready and _processor(child) - used < SECONDS and time.monotonic() - begun < WAITING:
            continue
        block = os.read(reading, 1 << 16) if ready else b""
        if not block:
            outcome = HANG if not ready else None
            break
        *lines, buffer = (buffer + block).split(b"\n")
        for line in lines:
            _count(json.loads(line), kind, seed, tally)
            number, begun, used = number + 1, time.monotonic(), _processor(child)
    if outcome == HANG:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    if outcome is None and os.WIFSIGNALED(status):
        outcome = CRASH
    if outcome is not None:
        why = (
            f"no answer after {time.monotonic() - begun:.0f} s" if outcome == HANG else f"signal {os.WTERMSIG(status)}"
        )
        _count({"number": number, "outcome": outcome, "why": why, "seconds": 0.0, "memory": 0}, kind, seed, tally)
        number += 1
    return number


def _count(report: dict[str, Any], kind: Kind, seed: int, tally: Tally) -> None:
    tally.outcomes[report["outcome"]] += 1
    tally.slowest = max(tally.slowest, report["seconds"])
    tally.memory = max(tally.memory, report["memory"])
    if report["outcome"] not in (READ, REFUSED):
        tally.findings.append({"kind": kind.name, "seed": seed, **report})
        print(f"{kind.name}, seed {seed}, number {report['number']}: {report['outcome']}\n{report['why']}", flush=True)


def _work(kind: Kind, root: Path, seed: int, numbers: range, end: float, writing: int, given: bytes | None) -> None:
    """Try inputs in a copy of the samples, and report each; runs in the worker."""
    sys.addaudithook(watch)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # libraries complain about damaged files
        os.dup2(null, stream)
    with tempfile.TemporaryDirectory(prefix="hitnet-attack-work-") as folder:
        work = Path(folder) / "work"
        large = () if kind.place.startswith("lite") else ("lite",)  # a run of 14 MB, which one kind reads
        shutil.copytree(root, work, ignore=shutil.ignore_patterns(*large))
        sound = (root / kind.place).read_bytes() if (root / kind.place).exists() else None
        limit = resource.getrlimit(resource.RLIMIT_AS)[1]
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESS_SPACE, limit))
        for number in numbers:
            if time.monotonic() > end:
                break
            content = make_input(kind, root, seed, number) if given is None else given
            before = _start_peak()
            began = time.process_time()
            outcome, why = try_input(kind, work, content)
            seconds, memory = time.process_time() - began, _peak() - before
            if outcome in (READ, REFUSED) and memory > MEMORY:
                outcome, why = TOO_MUCH, f"{memory:,} bytes"
            report = {"number": number, "outcome": outcome, "why": why, "seconds": seconds, "memory": memory}
            os.write(writing, json.dumps(report).encode() + b"\n")
            _restore(work, kind, sound)


def _restore(work: Path, kind: Kind, sound: bytes | None) -> None:
    if sound is not None:
        (work / kind.place).write_bytes(sound)
    shutil.rmtree(work / "out", ignore_errors=True)


def _start_peak() -> int:
    """Start to measure the peak of this process's memory; returns what it has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _processor(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status(name: str) -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def attack_all(
    seed: int, *, most: int, seconds: float, names: list[str] | None = None, say: Any = None
) -> dict[str, Tally]:
    """Try inputs of all kinds in turn, each at most `most` inputs, for so many seconds in all."""
    kinds = [BY_NAME[name] for name in names] if names else list(KINDS)
    tallies = {kind.name: Tally() for kind in kinds}
    numbers = dict.fromkeys(tallies, 0)
    end = time.monotonic() + seconds
    with samples() as root:
        while time.monotonic() < end:
            open_kinds = [kind for kind in kinds if numbers[kind.name] < most]
            if not open_kinds:
                break
            share = min(8.0, max(1.0, (end - time.monotonic()) / len(open_kinds)))
            for kind in open_kinds:
                tally, number = tallies[kind.name], numbers[kind.name]
                left = min(share, end - time.monotonic())
                if left > 0:
                    numbers[kind.name] = attack_kind(kind, root, seed, number, most - number, left, tally)
            if say is not None:
                total = sum(tally.inputs for tally in tallies.values())
                broke = sum(len(tally.findings) for tally in tallies.values())
                say(f"{total:,} inputs, {broke} findings")
    return tallies


def keep_findings(tallies: dict[str, Tally], folder: Path) -> list[Path]:
    """Write each finding: its input, what happened and how to repeat it."""
    kept = []
    findings = [finding for tally in tallies.values() for finding in tally.findings]
    if not findings:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    with samples() as root:
        for finding in findings:
            kind = BY_NAME[finding["kind"]]
            words = "-".join(re.findall(r"\w+", kind.name))
            name = f"{words}--{finding['seed']}-{finding['number']}"
            content = make_input(kind, root, finding["seed"], finding["number"])
            (folder / f"{name}{suffix_of(kind.name)}").write_bytes(content)
            path = folder / f"{name}.json"
            again = f"python tests/attack/attack.py repeat {path}"
            path.write_text(json.dumps({**finding, "repeat": again}, indent=2))
            kept.append(path)
    return kept


def suffix_of(kind_name: str) -> str:
    """The suffix of a kept input; that of a finding itself is .json."""
    suffix = Path(BY_NAME[kind_name].place).suffix
    return ".json-input" if suffix == ".json" else suffix


def repeat(kind_name: str, content: bytes, root: Path) -> tuple[str, str]:
    """Read one input in a worker, which may crash; `root` is a folder of samples."""
    tally = Tally()
    _worker(BY_NAME[kind_name], root, 0, 0, 1, time.monotonic() + WAITING, tally, content)
    (outcome,) = tally.outcomes
    return outcome, "".join(finding["why"] for finding in tally.findings)


if __name__ == "__main__":
    sys.exit("Call attack.py.")
