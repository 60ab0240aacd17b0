"""A short run of the fuzzer, and every input that once broke something."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ATTACK = Path(__file__).with_name("attack.py")
CASES = Path(__file__).with_name("cases")


def attack(*arguments):
    return subprocess.run(
        [sys.executable, ATTACK, *map(str, arguments)], capture_output=True, text=True, timeout=1800, check=False
    )


@pytest.mark.slow(seconds=600)
def test_damaged_files_are_read_or_refused(tmp_path):
    """8 inputs of each kind; `make attack` tries thousands."""
    ended = attack("fuzz", "--seed", 0, "--most", 8, "--minutes", 30, "--out", tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    record = json.loads((tmp_path / "fuzz.json").read_text())
    assert {row["inputs"] for row in record["kinds"].values()} == {8}
    assert record["findings"] == 0


@pytest.mark.slow(seconds=300)
def test_inputs_that_once_broke_something_are_read_or_refused():
    ended = attack("cases", CASES)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{len(list(CASES.glob('*.json')))} cases" in ended.stdout


@pytest.mark.slow(seconds=300)
def test_the_attack_sees_a_reader_that_fails_hangs_crashes_or_takes_too_much(tmp_path):
    """An attack that finds nothing must be able to find something."""
    script = tmp_path / "weak.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(ATTACK.parent)!r})\n"
        "import attack, os, time, attack_fuzz\n"
        "from attack_kinds import Kind\n"
        "from hitnet import HitNetError\n"
        "def crash(root): os.kill(os.getpid(), 11)\n"
        "def fail(root): raise KeyError('x')\n"
        "def refuse(root): raise HitNetError('no')\n"
        "def hungry(root): bytearray(1_200_000_000)\n"
        "def late(root): time.sleep(3600)\n"
        "with attack_fuzz.samples() as root:\n"
        "    for read in (crash, fail, refuse, hungry, late, str):\n"
        "        attack_fuzz.WAITING = 3.0 if read is late else 900.0\n"
        "        tally = attack_fuzz.Tally()\n"
        "        attack_fuzz.attack_kind(Kind('x', ('cifar.bin',), 'y', read), root, 0, 0, 1, 900, tally)\n"
        "        print('outcome of', getattr(read, '__name__'), *tally.outcomes)\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=1800, check=False)
    outcomes = [line.removeprefix("outcome of ") for line in ended.stdout.splitlines() if line.startswith("outcome of")]
    expected = ["crash crash", "fail traceback", "refuse refused", "hungry memory", "late hang", "str read"]
    assert outcomes == expected, ended.stdout + ended.stderr


@pytest.mark.parametrize("finding", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_each_case_says_what_it_is(finding):
    about = json.loads(finding.read_text())
    assert about["kind"]
    assert about["once"]
