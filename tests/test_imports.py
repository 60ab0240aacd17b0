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


def imported(*codes: str) -> list[set[str]]:
    """The top-level packages that a fresh interpreter has imported after each of these codes."""
    ending = "import sys; print('\\nIMPORTED', *sorted({n.partition('.')[0] for n, m in sys.modules.items() if m}))"
    command = [sys.executable, "-c", "\n".join(f"{code}\n{ending}" for code in codes)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line for line in process.stdout.splitlines() if line.startswith("IMPORTED ")]
    return [set(line.split()[1:]) for line in lines]


def test_help_imports_no_torch():
    code = """
import runpy, sys
sys.argv = ["hitnet", "--help"]
try:
    runpy.run_module("hitnet", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
"""
    (packages,) = imported(code)
    assert "hitnet" in packages
    assert packages.isdisjoint({*LATE, "torch"})


@pytest.mark.slow
def test_packages_are_imported_late_and_names_are_there_without_those_that_some_need():
    """In one process, because PyTorch takes long to import.

    `from hitnet import *`, `help` and `inspect` look at every name; only a call needs the package.
    """
    names = """
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
    alone, trained, named = imported("import hitnet", "import hitnet.data, hitnet.training", names)
    assert "hitnet" in alone
    assert alone.isdisjoint({*LATE, "torch", "numpy"})
    assert {"hitnet", "torch"} <= trained  # but no tables and no plots
    assert trained.isdisjoint(LATE)
    assert "hitnet" in named
