"""Hostile names of classes, files and folders, through every command that writes."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import hitnet
from hitnet.data import save_npz
from hitnet.runtime import terminal
from hitnet.runtime.spreadsheets import FORMULA
from toy import toy_images

NAMES = [
    '=HYPERLINK("http://x","y")',
    "\x1b[2J\x1b]0;title\x07",
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "--out",
    "-rf",
    " ",
    "new\nline\r",
    "\u202etxt.exe",
    "'; DROP TABLE x; --",
    "$(touch hacked) `touch hacked` ${HOME}",
    "%s%n%d{0}{x}",
    "[red]bold[/red]",
    "C:\\con\\aux",
    "CON",
    "a" * 200,
    "猫\ufeff\u0000".replace("\0", ""),
    "~root",
    "null",
    "#!/bin/sh",
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A folder of three hostile classes per test set, with hostile file names, and a canary beside it."""
    root = tmp_path_factory.mktemp("hostile")
    images = toy_images(24)
    classes = [NAMES[0], NAMES[1], NAMES[2]]
    for i, k in enumerate(images.labels.tolist()):
        folder = root / "set" / classes[k]
        folder.mkdir(parents=True, exist_ok=True)
        name = NAMES[i % len(NAMES)].replace("/", "_")[:150]
        Image.fromarray(images.pixels[i, 0].numpy()).save(folder / f"{name}{i}.png")
    (root / "canary").write_text("alive")
    return root


@pytest.fixture
def call(command):
    """Call the command line; whatever it prints must hold no control characters, and no traceback."""

    def run(*arguments):
        ended = command(*arguments)
        text = ended.out + ended.err
        assert ended.code in (0, 1), text
        assert not terminal.CONTROLS.search(text), text
        return ended.code, text

    return run


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def no_formulas(path: Path) -> None:
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.reader(file):
            assert not any(FORMULA.match(cell) and not _number(cell) and not cell.startswith("'") for cell in row), row


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def test_an_audit_of_hostile_names_from_check_to_apply(hostile, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = tree(hostile)
    out = tmp_path / NAMES[1]
    options = ("--judges", "scratch", "--networks", 1, "--epochs", 1, "--device", "cpu")
    assert call("data", "check", hostile / "set")[0] == 0
    assert call("audit", hostile / "set", "--out", out, *options)[0] == 0
    no_formulas(out / "audit.csv")
    audit = hitnet.open_audit(out)
    rows = [["id", "path", "given", "decision", "label"]]
    for i, row in enumerate(audit.table.itertuples()):
        other = next(name for name in audit.class_names if name != row.given)
        decision = ("relabel", "drop", "keep")[i % 3]
        rows.append([str(row.id), row.path, row.given, decision, other if decision == "relabel" else ""])
    with (tmp_path / "c.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    code, text = call("apply", out, tmp_path / "c.csv", "--out", tmp_path / NAMES[0].replace("/", ""))
    assert code == 0, text
    assert "8 relabelled, 8 dropped, 8 kept" in text
    assert call("export-audit", out, "--out", tmp_path / "tasks.json")[0] == 0
    code, text = call(
        "ghosts", out / "models" / "seed-0", "--data", hostile / "set", "--device", "cpu", "--out", tmp_path / "ghosts"
    )
    assert code == 0, text
    for name in ("ghosts.csv", "doubtful.csv", "pairs.csv"):
        no_formulas(tmp_path / "ghosts" / name)
    assert tree(hostile) == before
    assert not any(path.name == "hacked" for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("name", [NAMES[0], NAMES[1], NAMES[5], NAMES[6], NAMES[7], NAMES[10], NAMES[15], NAMES[17]])
def test_outputs_with_hostile_names(call, tmp_path, monkeypatch, name):
    """Each is written under its name, or refused in a sentence; nothing else appears."""
    monkeypatch.chdir(tmp_path)
    save_npz(toy_images(24), tmp_path / "set.npz")
    (tmp_path / "inside").mkdir()
    target = tmp_path / "inside" / name.replace("/", "_")
    code, text = call(
        "train", tmp_path / "set.npz", "--out", target, "--model", "hitnet-small", "--epochs", 1, "--device", "cpu"
    )
    assert code == 0, text
    assert [path.name for path in (tmp_path / "inside").iterdir()] == [target.name]
    picture = tmp_path / "inside" / f"{target.name[:150]}.png"
    assert call("prototypes", target, "--out", picture)[0] == 0
    assert call("plot", target, "--out", tmp_path / "inside" / f"{target.name[:150]}-curves.png")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside", "set.npz"]
    assert len(list((tmp_path / "inside").iterdir())) == 3


def test_a_table_of_hostile_paths_reads_nothing_else(call, tmp_path):
    for i in range(6):
        Image.fromarray(np.full((6, 6), 40 * i, np.uint8)).save(tmp_path / f"{i}.png")
    os.mkfifo(tmp_path / "pipe.png")
    odd = [*NAMES, "/etc/passwd", "../../../../etc/shadow", "/dev/zero", "pipe.png", "\\\\server\\share", "file:///x"]
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [["path", "label"], *([f"{i}.png", "ab"[i % 2]] for i in range(6)), *([name, "a"] for name in odd)]
        csv.writer(file).writerows(rows)
    code, text = call("data", "check", tmp_path / "t.csv")
    assert code == 1
    assert "6 images" in text
    assert "root:x:" not in text
