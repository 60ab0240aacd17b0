"""The order of the package: each room knows only those before it, so that data flows one way."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hitnet

ROOT = Path(hitnet.__file__).parent
ORDER = [
    "errors",
    "runtime",
    "capsules",
    "losses",
    "probabilities",
    "kernels",
    "models",
    "data",
    "features",
    "inference",
    "training",
    "sklearn",
    "synthesis",
    "plots",
    "decisions",
    "audit",
    "review",
    "cli",
    "startup",
    "__main__",
]


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    """The rooms that are imported, wherever in the file, but for the sake of types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "hitnet":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hitnet."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("hitnet."))
        yield from imports(node)


def test_every_room_has_its_place():
    assert {room_of(path) for path in ROOT.rglob("*.py")} == {*ORDER, "__init__"}


@pytest.mark.parametrize("room", ORDER)
def test_a_room_knows_only_those_before_it(room):
    known = {"__version__", *ORDER[: ORDER.index(room) + 1]}
    for path in ROOT.rglob("*.py"):
        if room_of(path) == room:
            assert set(imports(ast.parse(path.read_text()))) <= known, path
