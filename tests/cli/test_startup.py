"""Ctrl-C before a command has begun, while its libraries are imported."""

import os
import signal
import subprocess
import sys

import pytest

from hitnet import cli, startup
from patience import PATIENCE


def test_importing_hitnet_and_its_command_line_leaves_interruptions_alone():
    words = (
        "import signal; before = signal.getsignal(signal.SIGINT); import hitnet, hitnet.startup, hitnet.cli; "
        "print(signal.getsignal(signal.SIGINT) is before is signal.default_int_handler)"
    )
    process = subprocess.run(
        [sys.executable, "-c", words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (process.stdout, process.stderr) == ("True\n", "")


def handler_after(monkeypatch, call, handler):
    """The handler of interruptions after a call that found this one."""
    monkeypatch.setattr("hitnet.cli.main", lambda: None)
    before = signal.signal(signal.SIGINT, handler)
    try:
        call()
        return signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def my_handler(number, frame):
    """A handler of one's own."""


@pytest.mark.parametrize(
    ("call", "handler", "expected"),
    [
        (startup.main, signal.default_int_handler, signal.SIG_DFL),
        (startup.main, signal.SIG_IGN, signal.SIG_IGN),
        (startup.main, my_handler, my_handler),
        (cli.ready, signal.SIG_DFL, signal.default_int_handler),
        (cli.ready, signal.SIG_IGN, signal.SIG_IGN),
        (cli.ready, my_handler, my_handler),
    ],
)
def test_only_pythons_own_handler_is_replaced(monkeypatch, call, handler, expected):
    assert handler_after(monkeypatch, call, handler) is expected


def slow_torch(tmp_path, words, handler):
    """A process whose import of PyTorch has begun and lasts."""
    (tmp_path / "torch.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(3600)\n")
    process = subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
    )
    assert process.stdout.readline() == "importing\n"
    return process


def test_an_interruption_while_starting_leaves_no_traceback(tmp_path):
    process = slow_torch(tmp_path, ["-m", "hitnet", "models"], signal.SIG_DFL)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE)[1] == ""
    assert process.returncode == -signal.SIGINT


def test_a_program_that_imports_hitnet_is_interrupted_as_ever(tmp_path):
    process = slow_torch(tmp_path, ["-c", "import hitnet; hitnet.train"], signal.SIG_DFL)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE)[1].endswith("KeyboardInterrupt\n")


def test_interruptions_that_are_ignored_stay_so(tmp_path):
    process = slow_torch(tmp_path, ["-m", "hitnet", "models"], signal.SIG_IGN)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.kill()
    process.communicate()


def test_help_needs_no_pytorch(tmp_path):
    """The list of commands is there at once."""
    (tmp_path / "torch.py").write_text("raise ImportError('not needed')")
    process = subprocess.run(
        [sys.executable, "-m", "hitnet", "--help"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert "find wrong" in process.stdout
