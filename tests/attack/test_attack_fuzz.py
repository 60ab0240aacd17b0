"""A short run of the fuzzer and of the attack on servers, and every input that once broke something."""

import json
from pathlib import Path

import pytest

from forked import Forked

ATTACK = Path(__file__).with_name("attack.py")
CASES = Path(__file__).with_name("cases")


# All in one process: to import what it reads with takes longer than to read most kinds of files.
SCRIPT = """
import contextlib, os, socket, sys, time
attack_folder, cases, out = sys.argv[1:]
sys.path.insert(0, attack_folder)
import attack, attack_fuzz
from attack_kinds import Kind
from hitnet import HitNetError

def crash(root): os.kill(os.getpid(), 11)
def fail(root): raise KeyError("x")
def refuse(root): raise HitNetError("no")
def hungry(root): bytearray(1_200_000_000)
def late(root): time.sleep(3600)
def contact(root):
    with contextlib.suppress(OSError):
        socket.getaddrinfo("hitnet.invalid", 80)

with attack_fuzz.samples() as root:
    attack_fuzz.samples = lambda: contextlib.nullcontext(root)
    fuzz = ["fuzz", "--seed", "0", "--most", "3", "--minutes", "30", "--out", out]
    serve = ["serve", "--kills", "2", "--minutes", "15", "--soak", "0.03", "--out", out]
    for arguments in (fuzz, ["cases", cases], serve):
        try:
            attack.main(arguments)
        except SystemExit as end:
            print("end of", arguments[0], end.code)
    for read in (crash, fail, refuse, hungry, contact, late, str):
        attack_fuzz.WAITING = 1.0 if read is late else 900.0
        tally = attack_fuzz.Tally()
        attack_fuzz.attack_kind(Kind("x", ("cifar.bin",), "y", read), root, 0, 0, 1, 900, tally)
        print("outcome of", getattr(read, "__name__"), *tally.outcomes)
"""


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """What the attacks printed, the record of the fuzzer, and the folder of all records."""
    folder = tmp_path_factory.mktemp("attack")
    process = Forked("-c", SCRIPT, ATTACK.parent, CASES, folder)
    assert process.wait(1800) == 0, process.out + process.err
    return process.out, json.loads((folder / "fuzz.json").read_text()), folder


@pytest.mark.slow(seconds=600)
def test_damaged_files_are_read_or_refused(attacked):
    """3 inputs of each kind; `make attack` tries thousands."""
    printed, record, _ = attacked
    assert "end of fuzz 0" in printed, printed
    assert {row["inputs"] for row in record["kinds"].values()} == {3}
    assert record["findings"] == 0


@pytest.mark.slow(seconds=600)
def test_inputs_that_once_broke_something_are_read_or_refused(attacked):
    printed = attacked[0]
    assert "end of cases 0" in printed, printed
    assert f"{len(list(CASES.glob('*.json')))} cases" in printed


@pytest.mark.slow(seconds=600)
def test_killed_servers_lose_no_decision_and_hostile_requests_do_no_harm(attacked):
    printed, folder = attacked[0], attacked[2]
    assert "end of serve 0" in printed, printed
    record = json.loads((folder / "server.json").read_text())
    assert record["kills"] == 2
    assert min(record["hostile_requests"], record["acknowledged_decisions"]) > 0
    assert record["findings"] == []


@pytest.mark.slow(seconds=600)
def test_the_attack_sees_a_reader_that_fails_hangs_crashes_or_takes_too_much(attacked):
    """An attack that finds nothing must be able to find something."""
    outcomes = [line.removeprefix("outcome of ") for line in attacked[0].splitlines() if line.startswith("outcome of")]
    expected = ["crash crash", "fail traceback", "refuse refused", "hungry memory", "contact traceback"]
    expected += ["late hang", "str read"]
    assert outcomes == expected, attacked[0]


@pytest.mark.parametrize("finding", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_each_case_says_what_it_is(finding):
    about = json.loads(finding.read_text())
    assert about["kind"]
    assert about["once"]
