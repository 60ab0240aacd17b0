"""The command line as a whole: help, exit codes, mistakes in one sentence, interruptions."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import get_args

import pytest
from PIL import Image
from typer.testing import CliRunner

import hitnet
from forked import Forked
from hitnet.cli import MODULES, app, first_sentence
from hitnet.cli.options import RecipeName
from hitnet.cli.terminal import short_name
from hitnet.runtime.terminal import make_console
from hitnet.training import RECIPES
from patience import PATIENCE, wait_until

# A shell may have started the tests with interruptions turned off, which a child would inherit.
PROGRAM = "import signal; signal.signal(2, signal.default_int_handler); from hitnet.startup import main; main()"
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "COLUMNS"} | {"OMP_NUM_THREADS": "1"}


def start(*arguments, program=PROGRAM, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**ENVIRONMENT, **environment},
    )


@pytest.mark.parametrize(
    ("words", "purpose"),
    [
        ([], "find wrong labels"),
        (["train"], "keep it in a run folder"),
        (["evaluate"], "Error rate, per-class table, confusion"),
        (["predict"], "which class each image hits"),
        (["models"], "List the networks"),
        (["data"], "download and verify datasets"),
        (["data", "list"], "List the known datasets"),
        (["data", "fetch"], "Download the missing files of a known dataset"),
        (["data", "check"], "Check every file"),
        (["audit"], "most doubtful first"),
        (["audit"], "--networks"),
        (["apply"], "the original is never touched"),
        (["export-audit"], "Label Studio"),
        (["ghosts"], "analysis of ghost capsules"),
        (["prototypes"], "prototype of each class"),
        (["traverse"], "each capsule component"),
        (["capsules"], "distributed"),
        (["generate"], "new images"),
        (["augment"], "Hybrid data augmentation"),
        (["plot"], "error and loss"),
    ],
)
def test_help_says_what_a_command_is_for(words, purpose):
    for flag in ("--help", "-h"):
        result = CliRunner().invoke(app, [*words, flag], env={"COLUMNS": "200"})
        assert result.exit_code == 0
        assert purpose in result.output
        assert "\\b" not in result.output  # click's mark for a block that is not filled


def test_every_command_is_listed():
    listed = CliRunner().invoke(app, ["--help"]).output
    assert len(MODULES) >= 13
    assert all(f" {name} " in listed for name in MODULES)
    assert all(first_sentence(name) for name in MODULES)


def test_help_of_the_audit_leads_through_it():
    said = CliRunner().invoke(app, ["audit", "--help"], env={"COLUMNS": "100"}).output
    for words in ("hitnet audit DATA", "report.html", "hitnet apply", "mnist-sample", "0 (surely wrong)"):
        assert words in said


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["train", "mnist-sample", "--epoch", "3"], "--epochs"),
        (["audit", "mnist-sample", "--netwroks", "3"], "--networks"),
        (["data", "chek", "x"], "check"),
        (["trian", "mnist"], "train"),
        (["train", "mnist-sample", "--recipe", "papr"], "'paper-decay'"),
        (["train", "mnist-sample", "--augment", "hybird"], "'hybrid'"),
        (["train", "mnist-sample", "--augment-noise", "loud"], "'component'"),
        (["evaluate", "run", "--split", "tset"], "'test'"),
        (["audit", "mnist-sample", "--judges", "scrach"], "'scratch'"),
        (["audit", "mnist-sample", "--recipe", "papr"], "'paper-decay'"),
        (["audit", "mnist-sample", "--split", "tset"], "'test'"),
        (["export-audit", "audit", "--out", "x.npy", "--format", "probs"], "'pred-probs'"),
        (["ghosts", "run"], "--data"),
    ],
)
def test_a_misspelt_option_or_command_is_answered_with_the_right_one(command, words, hint):
    ended = command(*words)
    assert ended.code == 2
    assert hint in ended.err
    assert ended.out == ""


@pytest.mark.parametrize(
    ("words", "choices"),
    [
        ("hitnet ex", ["extract", "export", "export-audit"]),
        ("hitnet train x --recipe ", ["fast", "paper", "paper-decay"]),
        ("hitnet train x --device ", ["auto", "cpu", "cuda", "mps"]),
        ("hitnet audit x --judges ", ["auto", "features", "fine-tuned", "scratch", "mixed"]),
        ("hitnet export-audit x --format ", ["label-studio", "pred-probs"]),
    ],
)
def test_a_shell_completes_choices(words, choices):
    place = str(len(words.split(" ")) - 1)
    variables = {"_HITNET_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": place}
    assert CliRunner().invoke(app, [], prog_name="hitnet", env=variables).output.split() == choices


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["train", "no/such/folder"], "no/such/folder does not exist"),
        (["train", "a" * 300], "File name too long"),
        (["train", "~nobody-here/x"], "no home folder is known for ~nobody-here"),
        (["data", "list", "--data-dir", "~nobody-here/x"], "no home folder is known for ~nobody-here"),
        (["train", "mnst"], "Did you mean 'mnist'"),
        (["train", "mnist-sample", "--model", "hitnet-smal"], "Did you mean 'hitnet-small'"),
        (["train", "mnist-sample", "--device", "tpu"], "--device must be auto, cpu, cuda, cuda:N or mps; got 'tpu'"),
        (["evaluate", "nowhere"], "nowhere is not a run folder"),
        (["predict", "nowhere", "a.png"], "nowhere is not a run folder"),
        (["models", "--shape", "1,4,4"], "too small"),
        (["models", "--shape", "1,100000,100000"], "sides of 1 to 4096"),
        (["models", "--shape", "99999999,28,28"], "1 or 3, height, width"),
        (["models", "--classes", "1"], "at least two classes"),
        (["data", "check", "nowhere"], "no dataset or folder named 'nowhere'"),
        (["data", "fetch", "cifar"], "Did you mean 'cifar10'"),
        (["audit", "nowhere"], "no dataset or folder named 'nowhere'"),
        (["apply", "nowhere", "a.csv", "--out", "b"], "not the folder of a finished audit"),
        (["export-audit", "nowhere", "--out", "b.json"], "not the folder of a finished audit"),
        (["ghosts", "nowhere", "--data", "mnist-sample"], "nowhere is not a run folder"),
    ],
)
def test_mistakes_end_in_one_sentence_and_code_1(command, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    ended = command(*words)
    assert ended.code == 1
    assert ended.out == ""
    assert ended.err.startswith("Error: ")
    assert says in ended.err
    assert ended.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["models", "--shape", "3,32"], ["models", "--shape", "a,b,c"]])
def test_a_shape_that_is_none(command, words):
    ended = command(*words)
    assert ended.code == 2
    assert "three numbers, e.g. 3,32,32" in ended.err


def broken(*args, **options):
    raise RuntimeError("wheels came off [/bold]")


def test_an_unexpected_error_ends_without_traceback(command, monkeypatch):
    monkeypatch.delenv("HITNET_TRACEBACK", raising=False)
    monkeypatch.setattr("hitnet.cli.runs.predict", broken)
    ended = command("predict", "run", "a.png")
    assert ended.code == 70
    assert "Unexpected error: RuntimeError: wheels came off [/bold]" in ended.err
    assert "HITNET_TRACEBACK=1" in ended.err
    assert "Traceback" not in ended.err


def test_too_little_memory_is_no_bug(command, monkeypatch):
    def too_much(*args, **options):
        raise MemoryError

    monkeypatch.setattr("hitnet.cli.runs.predict", too_much)
    ended = command("predict", "run", "a.png")
    assert (ended.code, ended.err) == (
        1,
        "Error: Out of memory.\n",
    )


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PermissionError(13, "Permission denied", "secret/run"), "Cannot use secret/run: Permission denied."),
        (OSError(28, "No space left on device"), "Cannot write the output: No space left on device."),
    ],
)
def test_what_the_system_refuses_is_no_bug(command, monkeypatch, error, says):
    def refused(*args, **options):
        raise error

    monkeypatch.setattr("hitnet.cli.runs.predict", refused)
    ended = command("predict", "run", "a.png")
    assert (ended.code, ended.err) == (1, f"Error: {says} Choose another place.\n")


def test_hitnet_traceback_shows_where_it_happened(monkeypatch):
    from hitnet.cli import main

    monkeypatch.setenv("HITNET_TRACEBACK", "1")
    monkeypatch.setattr("hitnet.cli.runs.predict", broken)
    monkeypatch.setattr(sys, "argv", ["hitnet", "predict", "run", "a.png"])
    with pytest.raises(RuntimeError, match="wheels came off"):
        main()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_has_its_code_and_leaves_a_run_that_can_be_resumed(toy_run, tmp_path, number, code):
    out = tmp_path / "run"
    options = ("--model", "hitnet-small", "--device", "cpu", "--epochs", 100_000)
    process = Forked("-c", PROGRAM, "train", toy_run[1], "--out", out, *options)
    wait_until((out / "config.json").exists, "the run has begun")
    time.sleep(0.2)
    process.send_signal(number)
    assert process.wait(PATIENCE) == code
    assert process.out == ""
    assert process.err == "Interrupted. Progress is saved; run the command again with --resume.\n"
    assert not (out / "weights.safetensors").exists()
    assert not [path.name for path in out.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(("columns", "lines"), [(None, 1), ("50", 4)])
def test_lines_are_broken_only_where_a_width_is_known(monkeypatch, capsys, columns, lines):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    make_console().print("nine more " * 20)
    assert capsys.readouterr().out.count("\n") == lines


@pytest.mark.slow(seconds=180)
def test_a_program_of_its_own_is_quiet_off_the_terminal(toy_run, tmp_path):
    """No bar, no colours, no broken lines."""
    out = tmp_path / ("long" * 40) / "run"
    options = ("--model", "hitnet-small", "--device", "cpu", "--epochs", 2)
    process = start("train", toy_run[1], "--out", out, *options)
    printed, complaints = process.communicate(timeout=PATIENCE)
    assert (process.returncode, complaints) == (0, "")
    assert "\x1b" not in printed
    first, second, third = printed.splitlines()
    assert first.startswith("hitnet-small on toy: 2 epochs of 48 images in ")
    assert second.startswith("test error ")
    assert third == f"run folder: {out}"


# Both in one process: starting it takes longer than the commands.
EVALUATE_AND_PREDICT = """
import sys
from hitnet.startup import main
run, *images = sys.argv[1:]
for words in (["evaluate", run], ["predict", run, *images, "--json"]):
    sys.argv[1:] = [*words, "--device", "cpu"]
    try:
        main()
    except SystemExit as end:
        print("end", end.code, flush=True)
"""


@pytest.mark.slow
def test_a_terminal_that_cannot_show_a_sign_does_not_end_the_work_and_json_is_json(toy_run, tmp_path):
    names = ["é", "犬", "\U0001f415"]
    for name in names:
        Image.new("L", (12, 12)).save(tmp_path / f"{name}.png")
    paths = [str(tmp_path / f"{name}.png") for name in names]
    process = start(toy_run[0], *paths, program=EVALUATE_AND_PREDICT, PYTHONIOENCODING="ascii", COLUMNS="100")
    printed, complaints = process.communicate(timeout=PATIENCE)
    assert (process.returncode, complaints) == (0, "")
    evaluated, predicted, rest = printed.split("end 0\n")
    assert "band 1" in evaluated
    assert [row["image"] for row in json.loads(predicted)] == paths
    assert rest == ""


def test_folders_go_by_their_whole_name_and_files_without_the_suffix(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("p3.v1", "p3.v2"):
        (tmp_path / folder).mkdir()
    (tmp_path / "labels.v2.csv").write_text("")
    assert [short_name(data) for data in ("p3.v1", "./p3.v2/", "p3.v1/../p3.v2")] == ["p3.v1", "p3.v2", "p3.v2"]
    assert [short_name(data) for data in ("labels.v2.csv", "mnist-sample")] == ["labels.v2", "mnist-sample"]
    monkeypatch.chdir(tmp_path / "p3.v1")
    assert short_name(".") == "p3.v1"


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["train", ""], "the argument after train"),
        (["audit", "mnist-sample", "--out", ""], "the argument after --out"),
        (["train", "mnist-sample", "--out="], "--out"),
    ],
)
def test_an_empty_argument_is_not_the_current_folder(command, words, place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = command(*words)
    assert ended.code == 1
    assert f"Error: {place} is empty" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_out_of_memory_names_what_saves_it(command, monkeypatch):
    def too_much(*args, **options):
        raise MemoryError

    monkeypatch.setattr("hitnet.cli.train.open_data", too_much)
    ended = command("train", "mnist-sample")
    assert ended.err == "Error: Out of memory. Try a smaller --image-size or --limit.\n"


def test_the_version(command):
    ended = command("--version")
    assert (ended.code, ended.out, ended.err) == (0, f"hitnet {hitnet.__version__}\n", "")


@pytest.mark.slow
def test_other_libraries_are_quiet_unless_asked_for():
    words = (
        "import logging, sys, hitnet.cli.train as t; from hitnet.cli import main\n"
        "said = {'hitnet': 'ours', 'x': 'theirs'}\n"
        "t.list_models = lambda *a: [logging.getLogger(name).info(text) for name, text in said.items()][:0]\n"
        "for flag in ([], ['-q'], ['-v']):\n"
        "    sys.argv = ['hitnet', *flag, 'models']\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as end:\n"
        "        print('end', end.code, file=sys.stderr)\n"
    )
    process = Forked("-c", words)
    assert (process.wait(PATIENCE), process.err.split()) == (
        0,
        ["ours", "end", "0", "end", "0", "ours", "theirs", "end", "0"],
    )


def test_choices_are_those_of_the_library():
    assert set(get_args(RecipeName)) == set(RECIPES)
