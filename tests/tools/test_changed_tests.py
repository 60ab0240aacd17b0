"""Which tests a change has."""

import subprocess
from pathlib import Path

import pytest

from tools import changed_tests
from tools.changed_tests import CORE, ROOT, changed_files, related_tests, select

FILES = {
    "tests/test_losses.py": "import hitnet.losses",
    "tests/toy.py": "",
    "tests/audit/audit_samples.py": "import toy",
    "tests/audit/test_page.py": "from audit_samples import folder",
    "tests/audit/test_page_grid.py": "from hitnet.audit import scores",
    "tests/audit/test_ranks.py": "from hitnet.audit.scores import rank\nfrom hitnet.audit.scoreboard import x",
    "tests/data/known/test_sample.py": "import toy",
    "tests/data/test_split.py": "",
    "tests/scikit_learn/test_classifier.py": "",
    "tests/benchmarks/test_record.py": "from parts.record import add",
    "reproduction/tests/test_ledger.py": "import toy_book",
    "reproduction/tests/test_verdicts.py": "from reproduction import claims",
}
LABORATORY = ["reproduction/tests/test_ledger.py", "reproduction/tests/test_verdicts.py"]
PAGES = ["tests/audit/test_page.py", "tests/audit/test_page_grid.py"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "tests"),
    [
        ("src/hitnet/losses.py", ["tests/test_losses.py"]),
        ("src/hitnet/audit/page.py", PAGES),
        ("src/hitnet/audit/page/list.js", PAGES),
        ("src/hitnet/audit/scores.py", ["tests/audit/test_page_grid.py", "tests/audit/test_ranks.py"]),
        ("src/hitnet/audit/score.py", [*PAGES, "tests/audit/test_ranks.py"]),  # nobody imports it: all of its folder
        ("src/hitnet/audit/__init__.py", [*PAGES, "tests/audit/test_ranks.py"]),
        ("src/hitnet/data/known/sample/clothing/1.jpg", ["tests/data/known/test_sample.py"]),
        ("src/hitnet/sklearn/learning.py", ["tests/scikit_learn/test_classifier.py"]),
        ("src/hitnet/__init__.py", CORE),
        ("tests/toy.py", ["tests/data/known/test_sample.py"]),
        ("tests/audit/audit_samples.py", ["tests/audit/test_page.py"]),
        ("tests/audit/conftest.py", [*PAGES, "tests/audit/test_ranks.py"]),
        ("tests/data/test_split.py", ["tests/data/test_split.py"]),
        ("tests/data/test_gone.py", []),
        ("benchmarks/parts/record.py", ["tests/benchmarks/test_record.py"]),
        ("reproduction/ledger.py", LABORATORY),
        ("reproduction/claims.py", LABORATORY[::-1]),
        ("reproduction/tests/toy_book.py", ["reproduction/tests/test_ledger.py"]),
        ("docs/audit.md", ["tests/test_docs.py"]),
        ("pyproject.toml", CORE),
    ],
)
def test_the_related_tests_a_file(root, name, tests):
    assert related_tests(name, root) == tests


def test_changed_tests_come_first_and_each_once(root):
    changed = ["src/hitnet/audit/page.py", "tests/audit/test_page_grid.py"]
    assert select(changed, root) == PAGES[::-1]


def test_without_a_change_the_formulas_are_tested(root):
    assert select([], root) == CORE
    assert all((ROOT / name).is_file() for name in CORE)


def test_a_change_is_what_differs_from_where_the_branch_began_committed_or_not(tmp_path, monkeypatch):
    monkeypatch.setattr(changed_tests, "ROOT", tmp_path)

    def git(*arguments):
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def commit(name):
        (tmp_path / name).touch()
        git("add", name)
        git("commit", "--message", name)

    git("init", "--initial-branch", "main")
    commit("old.py")
    git("switch", "--create", "mine")
    commit("committed é.py")
    git("switch", "main")
    commit("of others.py")
    git("switch", "mine")
    assert changed_files("main") == ["committed é.py"]
    (tmp_path / "old.py").write_text("edited")
    (tmp_path / "new.py").touch()
    assert changed_files("main") == ["committed é.py", "new.py", "old.py"]
    assert changed_files("HEAD") == ["new.py", "old.py"]
