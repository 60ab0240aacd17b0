"""The wheel: it holds everything that the package reads, and runs outside the repository."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # builds a wheel

ROOT = Path(__file__).parents[1]
NOT_CODE = {  # a change here must be meant
    "py.typed": 1,
    "audit/page/": 18,
    "data/known/sample/": 7,
    "data/known/sets.toml": 1,
    "models/weights/": 2,
}
EXAMPLE = """
import sys
sys.path.insert(0, sys.argv[1])
import hitnet
assert hitnet.__file__.startswith(sys.argv[1]), hitnet.__file__
digits, clothes = (hitnet.open_data(name).load("all") for name in ("mnist-sample", "clothing-sample"))
backbone = hitnet.open_backbone("efficientnet-lite0")
print(len(digits), len(clothes), backbone.num_features)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel that is built from a copy, so that nothing is left in the repository, nor taken from an earlier build."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    (path,) = (folder / "dist").glob("*.whl")
    return path


def test_the_wheel_holds_all_code_and_all_files_that_it_reads(wheel):
    names = {name.removeprefix("hitnet/") for name in zipfile.ZipFile(wheel).namelist() if name.startswith("hitnet/")}
    source = ROOT / "src" / "hitnet"
    assert {path.relative_to(source).as_posix() for path in source.rglob("*.py")} == {
        n for n in names if n.endswith(".py")
    }
    others = {name for name in names if not name.endswith(".py")}
    assert {start: sum(name.startswith(start) for name in others) for start in NOT_CODE} == NOT_CODE
    assert len(others) == sum(NOT_CODE.values())


def test_the_wheel_names_its_licences_and_stays_small(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    licences = [name for name in names if ".dist-info/licenses/" in name]
    assert sorted(name.rpartition("/")[2] for name in licences) == ["LICENSE", "NOTICE", "NOTICE", "SOURCES.md"]
    assert wheel.stat().st_size < 20e6


def test_samples_and_weights_are_read_outside_the_repository(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", EXAMPLE, str(tmp_path / "installed")]
    process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split()[:2] == ["10000", "1201"]
