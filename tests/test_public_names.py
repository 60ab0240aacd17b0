"""No public name hides a submodule of its package: `hitnet.synthesis.x` is a function or a module, never both."""

import importlib
import pkgutil

import pytest

import hitnet
from public import public_names

PACKAGES = ["hitnet", *(module.name for module in pkgutil.walk_packages(hitnet.__path__, "hitnet.") if module.ispkg)]


def submodules(package):
    return {module.name for module in pkgutil.iter_modules(package.__path__)}


def test_the_packages_are_found():
    rooms = ("audit", "cli", "data", "models", "plots", "synthesis", "training")
    assert set(PACKAGES) >= {"hitnet"} | {f"hitnet.{room}" for room in rooms}


@pytest.mark.parametrize("name", PACKAGES)
def test_no_public_name_equals_a_submodule(name):
    package = importlib.import_module(name)
    assert public_names(package) & submodules(package) == set()


@pytest.mark.parametrize("name", PACKAGES)
def test_no_other_name_hides_a_submodule(name):
    package = importlib.import_module(name)
    for submodule in submodules(package) & set(vars(package)):
        assert getattr(package, submodule).__name__ == f"{name}.{submodule}"
