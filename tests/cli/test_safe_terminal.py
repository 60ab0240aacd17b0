"""What a data set or a folder calls its files does not reach the terminal as commands."""

import logging

import numpy as np
import pytest
from PIL import Image

from hitnet.cli import Messages
from hitnet.cli.terminal import make_table
from hitnet.runtime.terminal import make_console, printable

CLEAR = "\x1b[2J\x1b]0;title\x07"


def test_control_characters_are_shown_as_escapes():
    assert printable(f"a{CLEAR}b\r\x9b\u202e\n\tc") == "a\\x1b[2J\\x1b]0;title\\x07b\\r\\x9b\\u202e\n\tc"
    assert printable("naïve 猫.png") == "naïve 猫.png"


@pytest.mark.parametrize("stderr", [False, True])
def test_consoles_print_no_control_characters(capsys, stderr):
    console = make_console(stderr=stderr)
    console.print(f"left out: {CLEAR}")
    table = make_table("name")
    table.add_row(CLEAR)
    console.print(table)
    printed = capsys.readouterr()
    text = printed.err if stderr else printed.out
    assert "\x1b" not in text
    assert text.count("\\x1b[2J") == 2


def test_log_messages_hold_no_control_characters():
    record = logging.LogRecord("hitnet", logging.INFO, "", 0, "left out: %s", (CLEAR,), None)
    assert "\x1b" not in Messages().format(record)


def test_hostile_names_in_a_folder_are_printed_as_escapes(command, tmp_path):
    for name in ("a\x1b[2J", "b"):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(3):
            Image.fromarray(np.full((5, 5), i, np.uint8)).save(tmp_path / "set" / name / f"{i}\x1b[31m.png")
        (tmp_path / "set" / name / "bad\x1b]0;x\x07.png").write_bytes(b"no picture")
    checked = command("data", "check", tmp_path / "set")
    assert checked.code == 1
    assert "\x1b" not in checked.out + checked.err
    assert "a\\x1b[2J" in checked.out
    assert "bad\\x1b]0;x\\x07.png" in checked.out
    failed = command("evaluate", tmp_path / f"none{CLEAR}")
    assert failed.code == 1
    assert "\x1b" not in failed.out + failed.err


def test_a_name_of_two_lines_is_printed_in_one(command, tmp_path):
    for name in ("a\nb", "c"):
        (tmp_path / "set" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((5, 5), np.uint8)).save(tmp_path / "set" / name / "0.png")
    (tmp_path / "set" / "c" / "x\ty\nleft out: c").with_suffix(".png").write_bytes(b"no picture")
    checked = command("data", "check", tmp_path / "set")
    assert checked.code == 1
    assert "a\\nb" in checked.out
    assert "left out: c/x\\ty\\nleft out: c.png: " in checked.out
