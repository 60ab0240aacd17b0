"""The documentation: links lead somewhere, commands and their options exist, names in Python code exist."""

import ast
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from PIL import Image

import hitnet
from hitnet.cli import app
from hitnet.features.dataset_features import read_features
from public import public_names
from reproduction.cli import app as reproduction_app

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in (".", "docs", "benchmarks", "reproduction", "reproduction/discussion")
    for path in (ROOT / folder).glob("*.md")
)
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@cache
def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = HEADING.findall(CODE_BLOCK.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_pages_are_found():
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/guide.md", "reproduction/results.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_repository_lead_somewhere(page):
    text = CODE_BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8"))
    # Words on a result are shown on the page of results, and their links count from there.
    folder = (ROOT / page).parent
    shown_elsewhere = folder.name == "discussion" and not page.endswith("README.md")
    folder = folder.parent if shown_elsewhere else folder
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = folder / name if name else (folder / "results.md" if shown_elsewhere else ROOT / page)
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


# The changelog names what no longer exists.
DESCRIBED = [page for page in PAGES if page not in ("CHANGELOG.md", "benchmarks/TRIALS.md")]
PROGRAMS = {"hitnet": app, "reproduction": reproduction_app}
COMMANDS = re.compile(
    r"^ {4}(?:.*-m )?(hitnet|reproduction) ([a-zA-Z-][^#\n]*)|`(?:python -m )?(hitnet|reproduction) ([a-zA-Z-][^`]*)`",
    re.MULTILINE,
)
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def options_of(program: typer.Typer, words: list[str]) -> set[str]:
    """The options of the command of a program that these words begin with."""
    command = typer.main.get_command(program)
    for word in words:
        if not hasattr(command, "commands"):
            break
        command = command.get_command(typer.Context(command), word)
        assert command is not None, f"no command {word}"
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("page", DESCRIBED)
def test_commands_and_their_options_exist(page):
    for found in COMMANDS.findall((ROOT / page).read_text(encoding="utf-8")):
        program, line = found[:2] if found[0] else found[2:]
        words = line.split()
        wanted = {word.strip("[]") for word in words if word.strip("[]").startswith("--")}
        assert wanted - {"--help"} <= options_of(PROGRAMS[program], words), line


@pytest.mark.parametrize("page", DESCRIBED)
def test_names_in_python_code_exist(page):
    for block in PYTHON_BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hitnet":
                assert hasattr(hitnet, node.attr), f"hitnet.{node.attr}"
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hitnet":
                module = importlib.import_module(node.module)
                assert {alias.name for alias in node.names} <= public_names(module), node.module


def called(function: ast.expr, names: dict[str, object]) -> object:
    """What a call in Python code calls, if it is a name of hitnet."""
    if isinstance(function, ast.Attribute):
        return getattr(called(function.value, names), function.attr, None)
    return names.get(function.id) if isinstance(function, ast.Name) else None


@pytest.mark.parametrize("page", DESCRIBED)
def test_arguments_in_python_code_are_taken(page):
    for block in PYTHON_BLOCK.findall((ROOT / page).read_text(encoding="utf-8")):
        tree, names = ast.parse(block), {"hitnet": hitnet}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hitnet":
                module = importlib.import_module(node.module)
                names |= {alias.name: getattr(module, alias.name) for alias in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and callable(function := called(node.func, names)):
                inspect.signature(function).bind(*node.args, **{keyword.arg: None for keyword in node.keywords})


OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
OF_TORCHRUN = {"--max-restarts", "--nnodes", "--nproc-per-node", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id"}
OF_SLURM = {"--cpus-per-task", "--gpus-per-node", "--nodes", "--ntasks-per-node"}
OF_OTHER_PROGRAMS = {"--check", "--inplace", "--logdir"} | OF_TORCHRUN | OF_SLURM


@cache
def all_options() -> set[str]:
    """The options of all programs and benchmarks."""
    options = set(OPTION.findall("".join(path.read_text() for path in (ROOT / "benchmarks").glob("*.py"))))
    groups = [typer.main.get_command(program) for program in PROGRAMS.values()]
    while groups:
        command = groups.pop()
        options |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
        if hasattr(command, "commands"):
            context = typer.Context(command)
            groups += [command.get_command(context, name) for name in command.list_commands(context)]
    return options


@pytest.mark.parametrize("page", DESCRIBED)
def test_options_in_sentences_exist(page):
    assert set(OPTION.findall((ROOT / page).read_text(encoding="utf-8"))) <= all_options() | OF_OTHER_PROGRAMS


@pytest.mark.parametrize("page", DESCRIBED)
def test_public_names_in_sentences_exist(page):
    """As in `hitnet.open_data(...)`."""
    for name in re.findall(r"`hitnet\.([\w.]+)", (ROOT / page).read_text(encoding="utf-8")):
        thing = hitnet
        for part in name.split("."):
            if not hasattr(thing, part):
                importlib.import_module(f"{thing.__name__}.{part}")
            thing = getattr(thing, part)


def test_formats_of_files_are_those_that_are_promised():
    from hitnet.audit import audit_table
    from hitnet.inference import onnx_file
    from hitnet.training import run_config

    promise = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    (number,) = re.findall(r"`format`, which is (\d+) now", promise)
    assert {module.FORMAT for module in (audit_table, onnx_file, run_config)} == {int(number)}


def test_figures_of_the_readme_are_those_of_the_records():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = json.loads((ROOT / "benchmarks" / "records" / "audits.json").read_text())
    rows = [row for row in rows if row["noise"] == "uniform, 5%" and row["seed"] == 0]
    unseen, clothes = [row for row in rows if not row["chosen_on"]], [row for row in rows if row["set"] == "clothing"]
    assert len(unseen) == 8
    sizes = [row["images"] for row in unseen]
    assert f"eight datasets of {min(sizes):,} to {max(sizes):,} images" in text
    for chosen in (unseen, clothes):
        wrong = sum(row["wrong"] for row in chosen)
        found = [100 * sum(row["found_after"][share] for row in chosen) / wrong for share in ("5%", "10%")]
        assert "| {:.0f} % after 5 % of the images, {:.0f} % after 10 % |".format(*found) in text
    digits = json.loads((ROOT / "benchmarks" / "records" / "demo_seeds.json").read_text())
    (counts,) = {(row["in_top_100"], row["in_top_200"]) for row in digits}
    assert "{} in the first 100, {} in the first 200".format(*counts) in text


def test_the_readmes_loop_learns():
    torch.manual_seed(0)
    first = PYTHON_BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    names: dict = {}
    exec(first, names)
    test = hitnet.open_data("mnist-sample").load("test")
    with torch.inference_mode():
        prediction = names["model"].eval()(test.pixels / 255).argmin(dim=1)
    assert (prediction != test.labels).double().mean() < 0.15


@pytest.mark.slow(seconds=400)
def test_the_example_of_ray_data_computes_the_features_of_an_audit(tmp_path):
    pytest.importorskip("ray", reason="Ray is missing: pip install 'ray[data]'")
    blocks = PYTHON_BLOCK.findall((ROOT / "docs" / "ecosystem.md").read_text(encoding="utf-8"))
    (example,) = (block for block in blocks if "import ray" in block)
    draw = np.random.default_rng(0)
    for i in range(6):
        folder = tmp_path / "photos" / "ab"[i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (40 + i, 60, 3), np.uint8)).save(folder / f"{i}.jpg")
    subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}, check=True
    )
    photos = hitnet.open_data(tmp_path / "photos")
    expected = hitnet.extract_features(photos, out=tmp_path / "features.npy", device="cpu")
    assert torch.equal(read_features(tmp_path / "features", photos.load("all")), expected)
