"""A short run of the killer: every long command is killed, resumed and compared with an undisturbed run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ATTACK = Path(__file__).with_name("attack.py")


@pytest.mark.parametrize("command", ["train", "audit", "reproduce", "apply", "features"])
def test_killed_commands_lose_nothing(tmp_path, command):
    arguments = ["kill", "--only", command, "--kills", "3", "--minutes", "3", "--out", tmp_path]
    ended = subprocess.run(
        [sys.executable, ATTACK, *arguments], capture_output=True, text=True, timeout=600, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    record = json.loads((tmp_path / "kills.json").read_text())
    assert record["kills"] >= 3
    assert record["findings"] == []
