"""Run the quick tests of one change (`make check`).

A change is what differs from where its branch left another one, committed or not. The tests of a module are those named
after it; if there are none, those of its folder that import it; if there are none either, all of its folder.
"""

from __future__ import annotations

import argparse
import ast
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = [f"tests/test_{name}.py" for name in ("capsules", "losses", "probabilities", "rooms", "public_api")]
BASES = {"benchmarks": "benchmarks", "tools": ".", "reproduction": "."}  # where imports of a module start
NO_TESTS = 5  # how pytest ends if all tests of the files are marked
LEAST = 45.0  # seconds that tests get, however long the linters took
QUICK = "not slow and not browser and not gpu"
TESTS = {  # folder of sources: folder of its tests; the first that fits counts
    "src/hitnet/sklearn": "tests/scikit_learn",  # a folder named sklearn would hide the package
    "src/hitnet": "tests",
    "benchmarks": "tests/benchmarks",
    "tools": "tests/tools",
    "reproduction/tests": "reproduction/tests",
    "reproduction": "reproduction/tests",
    "tests": "tests",
}


def git(*arguments: str) -> list[str]:
    """What git prints with `-z`: names that end with a zero byte."""
    ended = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return [name for name in ended.stdout.split("\0") if name]


def changed_files(base: str) -> list[str]:
    """Files that differ from where this branch left `base`, and new ones; paths are relative to the repository."""
    start = git("merge-base", base, "HEAD")[0].strip()
    return sorted({*git("diff", "--name-only", "-z", start), *git("ls-files", "-z", "--others", "--exclude-standard")})


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, and the names it imports from them, with dots between."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def related_tests(name: str, root: Path = ROOT) -> list[str]:
    """The test files of one changed file, which may be gone."""
    path = Path(name)
    if path.match("test_*.py"):
        return [name] if (root / name).exists() else []
    if path.suffix == ".md" or path.parts[0] == "docs":
        return ["tests/test_docs.py"]
    home = next((home for home in TESTS if path.is_relative_to(home)), None)
    if home is None or name == "src/hitnet/__init__.py":
        return CORE
    inner = path.relative_to(home)
    folder = root / TESTS[home] / inner.parent
    while not (files := sorted(folder.rglob("test_*.py"))):  # a folder of data, say: the tests beside it
        inner, folder = inner.parent, folder.parent
    named = [file for file in files if file.parent == folder and file.name.startswith(f"test_{inner.stem}")]
    module = path.stem if "tests" in home else ".".join(path.relative_to(BASES.get(home, "src")).with_suffix("").parts)
    users = [file for file in files if any(f"{name}.".startswith(f"{module}.") for name in imports(file))]
    if home == "reproduction":  # its parts hang together
        named = list(dict.fromkeys([*named, *users, *files]))
    return [file.relative_to(root).as_posix() for file in named or users or files]


def select(changed: list[str], root: Path = ROOT) -> list[str]:
    """The test files of a change, each once, those that changed themselves first; without a change, the formulas'."""
    first = sorted(changed, key=lambda name: not Path(name).match("test_*.py"))
    return list(dict.fromkeys(file for name in first for file in related_tests(name, root))) or CORE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", default="main", help="the branch that the change started from")
    parser.add_argument("--until", type=float, default=math.inf, help="start no test after this second since 1970")
    options = parser.parse_args()
    try:
        files = select(changed_files(options.base))
    except subprocess.CalledProcessError:
        sys.exit(
            f"git cannot compare with {options.base}. Name another branch or commit: `make check BASE=origin/main`"
        )
    print(f"Tests of what changed since {options.base}:", *files, flush=True)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "-m", QUICK]
    until = max(options.until, time.time() + LEAST)
    environment = {**os.environ, "HITNET_TESTS_UNTIL": str(until)}
    code = subprocess.run([*command, *files], cwd=ROOT, env=environment, check=False).returncode
    print("Left out: all other test files, and tests marked slow, browser or gpu. `make test` runs all.")
    return 0 if code == NO_TESTS else code


if __name__ == "__main__":
    sys.exit(main())
