"""Ctrl-C before a command has begun, while its libraries are imported."""

import os
import signal
import subprocess
import sys

import pytest

from hitnet.startup import is_program


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["python", "/usr/bin/hitnet", "train"], True),
        (["python", "-u", "-X", "dev", "C/Scripts/hitnet.exe"], True),
        (["python", "-m", "hitnet", "train"], True),
        (["python", "-W", "ignore", "-m", "hitnet"], True),
        (["python", "-m", "mine", "hitnet"], False),
        (["python", "mine.py", "-m", "hitnet"], False),
        (["python", "-c", "import hitnet"], False),
        (["python", "-m"], False),
        (["python"], False),
    ],
)
def test_hitnet_is_the_program(words, expected):
    assert is_program(words) == expected


def slow_torch(tmp_path, words, handler):
    """A process whose import of PyTorch has begun and lasts."""
    (tmp_path / "torch.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
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
    assert process.communicate(timeout=30)[1] == ""
    assert process.returncode == -signal.SIGINT


def test_a_program_that_imports_hitnet_is_interrupted_as_ever(tmp_path):
    process = slow_torch(tmp_path, ["-c", "import hitnet"], signal.SIG_DFL)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[1].endswith("KeyboardInterrupt\n")


def test_interruptions_that_are_ignored_stay_so(tmp_path):
    process = slow_torch(tmp_path, ["-m", "hitnet", "models"], signal.SIG_IGN)
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    process.kill()
    process.communicate()
