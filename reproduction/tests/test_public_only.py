"""The laboratory uses hitnet only by its public names: see `public_names`."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from public import public_names
from reproduction.provenance import LABORATORY

FILES = sorted(LABORATORY.glob("*.py"))


def hidden_names(tree: ast.AST) -> Iterator[str]:
    """What a module imports from hitnet, or reads of it by attribute, that is not public."""
    modules = {}  # by the name that they have here
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "hitnet" and alias.asname is None:
                    modules["hitnet"] = importlib.import_module("hitnet")
                elif alias.name.split(".")[0] == "hitnet":
                    yield alias.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hitnet":
            depth, package = node.module.count("."), importlib.import_module(node.module)
            for alias in node.names:
                room = depth == 0 and f"hitnet.{alias.name}" in package._ROOMS
                if depth > 1 or (alias.name not in public_names(package) and not room):
                    yield f"{node.module}.{alias.name}"
                elif room:
                    modules[alias.asname or alias.name] = getattr(package, alias.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            package = modules[node.value.id]
            rooms = (room.removeprefix("hitnet.") for room in getattr(package, "_ROOMS", ()))
            known = {*public_names(package), "__version__", "__file__", *rooms}
            if node.attr not in known:
                yield f"{package.__name__}.{node.attr}"


def test_the_laboratory_is_found():
    assert {"networks.py", "runner.py", "cli.py", "verdicts.py"} <= {file.name for file in FILES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_only_public_names_are_used(file: Path):
    assert list(hidden_names(ast.parse(file.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import hitnet.models.network",
        "from hitnet.models.network import Network",
        "from hitnet.models import registry",
        "from hitnet.runtime import files",
        "from hitnet import startup",
        "import hitnet\nhitnet.cli",
        "from hitnet import plots\nplots.sheet",
        "def f():\n    from hitnet.capsules import one_hot",
    ],
)
def test_hidden_names_are_seen(source):
    assert list(hidden_names(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ["import hitnet\nhitnet.train", "from hitnet.models import Head", "from hitnet import plots\nplots.save"],
)
def test_public_names_are_let_pass(source):
    assert not list(hidden_names(ast.parse(source)))
