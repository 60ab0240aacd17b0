"""What is imported: packages that take long to load are imported only by what needs them."""

import subprocess
import sys

import pytest

LATE = (
    "pandas",
    "pyarrow",
    "scipy",
    "sklearn",
    "jinja2",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "tensorboard",
    "datasets",
    "huggingface_hub",
)


def imported(code: str) -> set[str]:
    """The top-level packages that a fresh interpreter has imported after this code."""
    ending = "import sys; print('\\nIMPORTED', *sorted({name.partition('.')[0] for name in sys.modules}))"
    command = [sys.executable, "-c", f"{code}\n{ending}"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(process.stdout.rpartition("IMPORTED")[2].split())


def test_data_and_training_import_torch_but_no_tables_and_no_plots():
    packages = imported("import hitnet, hitnet.data, hitnet.training")
    assert {"hitnet", "torch"} <= packages
    assert packages.isdisjoint(LATE)


def test_importing_hitnet_alone_imports_no_torch():
    packages = imported("import hitnet")
    assert "hitnet" in packages
    assert packages.isdisjoint({*LATE, "torch", "numpy"})


def test_help_imports_no_torch():
    code = """
import runpy, sys
sys.argv = ["hitnet", "--help"]
try:
    runpy.run_module("hitnet", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
"""
    packages = imported(code)
    assert "hitnet" in packages
    assert packages.isdisjoint({*LATE, "torch"})


@pytest.mark.slow
def test_names_are_there_without_the_packages_that_some_need():
    """`from hitnet import *`, `help` and `inspect` look at every name; only a call needs the package."""
    code = """
import sys
for package in ("sklearn", "onnx", "huggingface_hub", "tensorboard"):
    sys.modules[package] = None
import inspect
import hitnet
from hitnet import *
assert {"serve_review", "train"} <= {name for name, _ in inspect.getmembers(hitnet)}
assert not hasattr(hitnet, "sklearn") and not hasattr(hitnet, "no_such_name")
try:
    hitnet.sklearn
except AttributeError as error:
    assert "pip install scikit-learn." in str(error), error
for call in (lambda: __import__("hitnet.sklearn"), TensorBoard):
    try:
        call()
    except ImportError as error:
        assert isinstance(error, HitNetError) and ": pip install " in str(error), error
    else:
        raise AssertionError(call)
try:
    open_run("nowhere")
except FileNotFoundError as error:
    assert isinstance(error, HitNetError) and str(error).startswith("nowhere is not a run folder"), error
"""
    assert "hitnet" in imported(code)
