"""The script that tries a wheel: it is a sound program, and the tests and commands that it runs exist."""

import re
import subprocess
from pathlib import Path

from typer.main import get_command

from hitnet.cli import app

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "try_wheel.sh"


def test_it_is_a_sound_program():
    subprocess.run(["bash", "-n", SCRIPT], check=True)


def test_its_tests_exist():
    listed = SCRIPT.read_text().partition("-m pytest")[2].partition("\n")[2].replace("\\", " ").split()
    assert len(listed) > 10
    assert [name for name in listed if not (ROOT / "tests" / name).exists()] == []


def test_its_commands_exist():
    used = set(re.findall(r"^venv/bin/hitnet (\w+)", SCRIPT.read_text(), re.MULTILINE))
    assert used
    assert used <= set(get_command(app).commands)
