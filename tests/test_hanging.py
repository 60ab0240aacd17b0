"""A test that hangs is told soon, with its place, whether it waits in Python or not."""

import os
import subprocess
import sys
from pathlib import Path

HANGING = """
import ctypes, signal, threading
import pytest

@pytest.mark.slow(seconds=0.5)
def test_waits():
    threading.Event().wait()

@pytest.mark.slow(seconds=0.5)
def test_waits_outside_python():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    ctypes.PyDLL(None).sleep(100)  # keeps Python's lock

def test_is_quick():
    pass
"""


def pytest_of(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    gpu\n")
    (folder / "test_it.py").write_text(HANGING)
    (folder / "quick.py").write_text("import hanging\nhanging.GRACE = 0.5\n")
    command = [sys.executable, "-m", "pytest", "-p", "hanging", "-p", "quick", "-p", "no:cacheprovider", *arguments]
    path = os.pathsep.join([str(Path(__file__).parent), str(folder)])
    variables = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path, **environment}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_a_test_that_waits_fails_where_it_waits(tmp_path):
    ended = pytest_of(tmp_path, "-k", "not outside")
    assert ended.returncode == 1, ended.stdout
    assert "test_it.py::test_waits hangs" in ended.stdout
    assert "threading.Event().wait()" in ended.stdout
    assert "1 failed, 1 passed" in ended.stdout


def test_a_test_that_never_returns_to_python_ends_its_process_with_a_traceback(tmp_path):
    ended = pytest_of(tmp_path, "-k", "outside")
    assert ended.returncode != 0
    assert "in test_waits_outside_python" in ended.stderr


def test_no_test_starts_when_time_is_over(tmp_path):
    ended = pytest_of(tmp_path, "-rs", HITNET_TESTS_UNTIL="1")
    assert "SKIPPED [3]" in ended.stdout
    assert "`make test` runs all" in ended.stdout
    assert ended.returncode == 0
