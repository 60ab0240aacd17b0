"""Where runs come from: commits, checksums of sources, and lines whose sources no commit holds."""

import re
import shutil
import subprocess

import pytest

import hitnet
from hitnet import HitNetError
from reproduction import Ledger, missing_runs, provenance, reproduce
from reproduction.provenance import code_version, digest_of, is_held, unheld_sources
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
    assert not is_held(code_version())  # nothing shows that a commit holds them


def test_the_code_is_told_by_its_commit_whatever_the_ledger_gains(repository):
    module, ledger, _ = repository
    version = code_version()
    assert re.fullmatch(rf"{re.escape(hitnet.__version__)} [0-9a-f]{{12}}", version)
    assert is_held(version)
    ledger.write_text("a\nb\n")
    assert code_version() == version
    test = ledger.parent / "tests/test_x.py"
    test.parent.mkdir()
    test.write_text("1\n")
    assert code_version() == version
    module.write_text("2\n")
    assert re.fullmatch(rf"{re.escape(version)} sources [0-9a-f]{{12}}\+", code_version())
    assert not is_held(code_version())


def test_sources_that_a_commit_holds_are_found(repository):
    _, ledger, commit = repository
    first = code_version()
    (ledger.parent / "cell.py").write_text("3\n")
    commit()
    package, laboratory = {"module.py": b"1\n"}, {"cell.py": b"3\n"}
    held = [first, code_version(), f"0.1.0 sources {digest_of(package, {})}"]
    held += [f"0.1.0 000000000000 sources {digest_of(package, laboratory)}+", f"{first}, then {held[1]}"]
    held.append(f"0.1.0 000000000000+ sources {digest_of(package, laboratory)}")  # as old lines have it
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


@pytest.fixture
def own_ledger(tmp_path, monkeypatch):
    """The path of a ledger that counts as the repository's own."""
    monkeypatch.setattr(missing_runs, "OWN_LEDGER", (tmp_path / "own.jsonl").resolve())
    return tmp_path / "own.jsonl"


@pytest.fixture
def run_toy(book, tmp_path):
    """Make a run of the toy experiment, if there is none yet, and give its record in a ledger."""

    def call(path, **options):
        folders = {"folder": tmp_path / "pages", "runs_dir": tmp_path / "runs"}
        reproduce("toy", book=book, ledger=Ledger(path), runs=1, device="cpu", **folders, **options)
        return full_runs(Ledger(path), book.experiments["toy"])[0]

    return call


def test_the_own_ledger_gets_no_run_from_uncommitted_sources_unless_asked(run_toy, tmp_path, own_ledger, repository):
    module, _, _ = repository
    module.write_text("2\n")
    with pytest.raises(HitNetError, match=r"No commit .*`uncommitted`"):
        run_toy(own_ledger)
    assert not (tmp_path / "runs").exists()
    run = run_toy(tmp_path / "other.jsonl")  # a ledger of one's own takes it
    assert run.code.endswith("+")
    assert not run.uncommitted
    # The run is there already; now from a clean commit, it is still refused.
    module.write_text("1\n")
    with pytest.raises(HitNetError, match="sources that no commit"):
        run_toy(own_ledger)
    assert run_toy(own_ledger, uncommitted=True).uncommitted


def test_a_run_without_git_is_recorded_where_git_finds_its_sources(
    run_toy, tmp_path, own_ledger, repository, monkeypatch
):
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(provenance, "source_root", lambda: None)
        elsewhere.setattr(provenance, "source_checksum", lambda: digest_of({"module.py": b"1\n"}, {}))
        with pytest.raises(HitNetError, match="without git"):
            run_toy(own_ledger)
        made = run_toy(tmp_path / "other.jsonl")
    assert re.fullmatch(r"\S+ sources [0-9a-f]{12}", made.code)
    assert run_toy(own_ledger).code == made.code


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


def test_lines_of_another_ledger_are_added_if_commits_hold_their_sources(command, tmp_path, repository, book):
    from toy_book import add, record

    toy, own, other = book.experiments["toy"], Ledger(tmp_path / "own.jsonl"), Ledger(tmp_path / "other.jsonl")
    add(own, toy, 0)
    for ledger, seed in ((own, 1), (other, 1), (other, 2)):
        add(ledger, toy, seed, record(toy, code=code_version()))
    merge = "--merge", other.path, "--ledger", own.path
    assert command(*merge).out.startswith("1 new lines of 2; ledger: ")
    assert [*full_runs(Ledger(own.path), toy)] == [0, 1, 2]
    add(other, toy, 3, record(toy, code=code_version()))
    add(other, toy, 4, record(toy, code="0.1.0 sources 111111111111"))
    before = own.path.read_bytes()
    assert "holds the sources of 0.1.0 sources 111111111111" in command(*merge).err
    assert own.path.read_bytes() == before
    other.path.write_text("")
    for seed in (3, 0):
        add(Ledger(other.path), toy, seed, record(toy, code=code_version(), seconds=12345.0))
    assert "both record run toy with seed 0, differently" in " ".join(command(*merge).err.split())
    assert own.path.read_bytes() == before
    ended = command("--merge", tmp_path / "none.jsonl", "--ledger", own.path)
    assert (ended.code, "There is no ledger" in ended.err) == (1, True)
