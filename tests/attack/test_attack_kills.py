"""A short run of the killer: every long command is killed, resumed and compared with an undisturbed run."""

import json
from pathlib import Path

import pytest

from forked import Forked

ATTACK = Path(__file__).with_name("attack.py")
COMMANDS = {"train", "audit", "reproduce", "apply", "features"}


@pytest.mark.slow(seconds=600)
def test_killed_commands_lose_nothing(tmp_path):
    """Two kills of each command; `make attack` makes hundreds."""
    arguments = ["kill", "--kills", "10", "--minutes", "60", "--out", tmp_path]
    process = Forked(ATTACK, *arguments)
    assert process.wait() == 0, process.out + process.err
    record = json.loads((tmp_path / "kills.json").read_text())
    assert record["findings"] == []
    assert {name for name, row in record["commands"].items() if row["kills"]} == COMMANDS, record
