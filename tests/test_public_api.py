"""The top level of the package: every command has its function there, and every name is what it says."""

import ast
import inspect
from pathlib import Path

import pytest
from typer.main import get_command

import hitnet
from hitnet.cli import GROUPS, MODULES, app

FUNCTIONS = {
    "train": "train",
    "evaluate": "evaluate",
    "predict": "predict",
    "export": "Run.export",
    "models": "list_models",
    "prototypes": "prototypes",
    "traverse": "traverse",
    "capsules": "capsule_distributions",
    "generate": "generate",
    "augment": "augment",
    "plot": "plot_history",
    "extract": "extract_features",
    "audit": "audit_labels",
    "apply": "Audit.apply",
    "export-audit": "Audit.export",
    "review": "serve_review",
    "ghosts": "analyse_ghosts",
    "data list": "list_data",
    "data fetch": "fetch_data",
    "data check": "check_data",
}


def commands():
    """All commands of the command line, e.g. "data list"."""
    group = get_command(app)
    for name in MODULES:
        command = group.get_command(None, name)
        yield from (f"{name} {part}" for part in command.commands) if name in GROUPS else (name,)


def test_every_command_has_a_function():
    assert set(commands()) == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS.values())
def test_the_function_of_a_command_is_at_the_top(name):
    owner, _, method = name.partition(".")
    assert owner in hitnet.__all__
    assert callable(getattr(getattr(hitnet, owner), method) if method else getattr(hitnet, name))


@pytest.mark.parametrize("name", hitnet.__all__)
def test_every_public_name_is_there_and_explained(name):
    value = getattr(hitnet, name)
    assert value.__name__ == name
    assert inspect.getdoc(value)
    assert name in dir(hitnet)


def test_types_are_checked_for_exactly_the_public_names():
    tree = ast.parse(Path(hitnet.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = {(alias.name, alias.asname, node.module) for node in block.body for alias in node.names}
    assert sorted(name for name, _, _ in imports) == hitnet.__all__
    for name, renamed, module in imports:
        assert renamed == name
        assert module == hitnet._ROOM_OF[name]


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        hitnet.trian  # noqa: B018
