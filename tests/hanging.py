"""Hooks of pytest: a test that hangs fails after a minute and shows where; no test starts after a given time.

A test that needs longer says so: `@pytest.mark.slow(seconds=300)`. HITNET_PATIENCE=3 gives all tests three times as
long, for a machine that does much else.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SECONDS = 60.0
GPU_SECONDS = 300.0  # kernels are compiled first
GRACE = 15.0  # then a test that does not even return to Python ends its process, with all stacks on stderr
STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STDERR] = os.dup(2)  # pytest captures stderr while a test runs


def seconds_of(item: pytest.Item) -> float:
    """How long each of a test's setup, call and teardown may take."""
    slow = item.get_closest_marker("slow")
    seconds = GPU_SECONDS if item.get_closest_marker("gpu") else SECONDS
    return (slow.kwargs.get("seconds", seconds) if slow else seconds) * float(os.environ.get("HITNET_PATIENCE", "1"))


@contextmanager
def watched(item: pytest.Item) -> Iterator[None]:
    seconds = seconds_of(item)

    def ring(signum: int, frame: object) -> None:
        pytest.fail(f"{item.nodeid} hangs: it has not ended within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=item.config.stash[STDERR])
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    if time.time() > float(os.environ.get("HITNET_TESTS_UNTIL", "inf")):
        pytest.skip("left out: the time of `make check` is over; `make test` runs all")
    with watched(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with watched(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    with watched(item):
        return (yield)
