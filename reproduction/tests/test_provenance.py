"""Where runs come from: commits, checksums of sources, and lines whose sources no commit holds."""

import re
import shutil
import subprocess

import pytest

import hitnet
from hitnet import HitNetError
from reproduction import Ledger, missing_runs, provenance, reproduce
from reproduction.provenance import code_version, digest_of, is_uncommitted, unheld_sources
from reproduction.records import full_runs

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is missing: apt-get install git")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one module and a ledger, and what commits in it."""
    root = tmp_path / "repository"
    monkeypatch.setattr(provenance, "source_root", lambda: root)
    module, ledger = root / "src/hitnet/module.py", root / "reproduction/ledger.jsonl"
    for file, text in ((module, "1\n"), (ledger, "a\n")):
        file.parent.mkdir(parents=True)
        file.write_text(text)

    def commit(*words):
        identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
        for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "a commit")):
            subprocess.run(["git", "-C", root, *identity, *command], check=True, capture_output=True)

    commit()
    return module, ledger, commit


def test_code_without_a_commit_is_named_by_its_sources(monkeypatch):
    monkeypatch.setattr(provenance, "source_root", lambda: None)
    assert re.fullmatch(rf"{re.escape(hitnet.__version__)} sources [0-9a-f]{{12}}", code_version())
    assert code_version() == code_version()
    assert not is_uncommitted(code_version())


def test_the_code_is_told_by_its_commit_whatever_the_ledger_gains(repository):
    module, ledger, _ = repository
    version = code_version()
    assert re.fullmatch(rf"{re.escape(hitnet.__version__)} [0-9a-f]{{12}}", version)
    assert not is_uncommitted(version)
    ledger.write_text("a\nb\n")
    assert code_version() == version
    test = ledger.parent / "tests/test_x.py"
    test.parent.mkdir()
    test.write_text("1\n")
    assert code_version() == version
    module.write_text("2\n")
    assert re.fullmatch(rf"{re.escape(version)} sources [0-9a-f]{{12}}\+", code_version())
    assert is_uncommitted(code_version())


@pytest.mark.parametrize(
    ("code", "uncommitted"),
    [
        ("0.1.0 6eb654f56ca5", False),
        ("0.1.0 sources 93309301808b", False),
        ("0.1.0 a59a5d34b639+ sources e50db33d2c0c", True),  # as old lines have it
        ("0.1.0 a59a5d34b639 sources e50db33d2c0c+", True),
        ("0.1.0 a59a5d34b639 sources e50db33d2c0c+, then 0.1.0 6eb654f56ca5", True),
    ],
)
def test_a_version_says_whether_a_commit_held_the_sources(code, uncommitted):
    assert is_uncommitted(code) == uncommitted


def test_sources_that_a_commit_holds_are_found(repository):
    _, ledger, commit = repository
    first = code_version()
    (ledger.parent / "cell.py").write_text("3\n")
    commit()
    package, laboratory = {"module.py": b"1\n"}, {"cell.py": b"3\n"}
    held = [first, code_version(), f"0.1.0 sources {digest_of(package, {})}"]
    held += [f"0.1.0 000000000000 sources {digest_of(package, laboratory)}+", f"{first}, then {held[1]}"]
    unheld = ["0.1.0 000000000000", "0.1.0 sources 111111111111", f"{first}, then 0.1.0 sources 111111111111"]
    unheld.append(f"{first} sources 222222222222+")
    assert unheld_sources([*held, *unheld]) == unheld


def test_without_a_repository_nothing_can_be_looked_up(monkeypatch):
    monkeypatch.setattr(provenance, "source_root", lambda: None)
    with pytest.raises(HitNetError, match="needs git"):
        unheld_sources(["0.1.0 6eb654f56ca5"])


def test_the_order_of_files_is_that_of_paths():
    assert digest_of({"a/b.py": b"1", "a.py": b"2"}, {}) == digest_of({"a.py": b"2", "a/b.py": b"1"}, {})
    assert digest_of({"a.py": b"1"}, {}) != digest_of({}, {"a.py": b"1"})


def test_the_own_ledger_gets_no_run_from_uncommitted_sources_unless_asked(book, tmp_path, monkeypatch):
    own = tmp_path / "own.jsonl"
    monkeypatch.setattr(missing_runs, "OWN_LEDGER", own.resolve())
    dirty = "0.1.0 a59a5d34b639 sources e50db33d2c0c+"
    for module in (missing_runs, provenance):
        monkeypatch.setattr(module, "code_version", lambda: dirty)
    options = {"book": book, "folder": tmp_path / "pages", "runs": 1, "device": "cpu"}
    with pytest.raises(HitNetError, match=r"changed .*`uncommitted`"):
        reproduce("toy", ledger=Ledger(own), runs_dir=tmp_path / "runs", **options)
    assert not (tmp_path / "runs").exists()
    other = Ledger(tmp_path / "other.jsonl")
    reproduce("toy", ledger=other, runs_dir=tmp_path / "runs", **options)  # a ledger of one's own takes it
    run = full_runs(other, book.experiments["toy"])[0]
    assert (run.code, run.uncommitted) == (dirty, False)
    # The run is there already; now from a clean commit, it is still refused.
    monkeypatch.setattr(missing_runs, "code_version", lambda: "0.1.0 a59a5d34b639")
    with pytest.raises(HitNetError, match="sources that no commit"):
        reproduce("toy", ledger=Ledger(own), runs_dir=tmp_path / "runs", **options)
    asked = Ledger(own)
    reproduce("toy", ledger=asked, runs_dir=tmp_path / "runs", uncommitted=True, **options)
    assert full_runs(asked, book.experiments["toy"])[0].uncommitted


def test_the_command_lists_lines_whose_sources_no_commit_holds(command, tmp_path, repository, book):
    from toy_book import add, record

    toy, ledger = book.experiments["toy"], Ledger(tmp_path / "ledger.jsonl")
    for seed, code in enumerate((code_version(), "0.1.0 sources 111111111111", "0.1.0 sources 111111111111")):
        add(ledger, toy, seed, record(toy, code=code))
    ended = command("--check-sources", "--ledger", ledger.path)
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        "0.1.0 sources 111111111111: 2 lines (toy)",
        "2 of 3 lines name sources that no commit of this repository holds.",
    ]
