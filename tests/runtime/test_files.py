"""Files and folders that are written whole or not at all, and files that keep other processes out."""

import errno
import fcntl
import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hitnet.errors import HitNetError
from hitnet.runtime import files, locks


class Torn(Exception):
    """Stands for whatever ends a writing half way."""


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_takes_its_name_once_it_is_whole(tmp_path):
    target = tmp_path / "new" / "deep" / "file.npz"
    with files.replacing(target) as temporary:
        assert temporary.parent == target.parent  # a move within a folder cannot be torn
        assert temporary.suffix == ".npz"  # writers go by the suffix
        assert temporary.name.startswith(".file.")  # hidden from readers of the folder, and known for what it is
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert list(target.parent.iterdir()) == [target]


def test_a_file_that_is_not_finished_leaves_the_old_one(tmp_path):
    target = tmp_path / "file.txt"
    files.write_text(target, "old")
    with pytest.raises(Torn), files.replacing(target) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise Torn
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_no_file_is_left_open(tmp_path):
    def lowest_free():
        handle = os.open(os.devnull, os.O_RDONLY)
        os.close(handle)
        return handle

    before = lowest_free()
    files.write_text(tmp_path / "file.txt", "whole")
    assert lowest_free() == before


def test_names_as_long_as_they_may_be(tmp_path):
    for name in ("a" * 250 + ".json", "b" * 255):
        files.write_text(tmp_path / name, "whole")
        with files.new_folder(tmp_path / "folders" / name) as folder:
            (folder / "x").touch()
        assert (tmp_path / name).is_file()
        assert (tmp_path / "folders" / name / "x").is_file()


def test_a_folder_takes_its_name_once_it_is_whole(tmp_path):
    target = tmp_path / "new" / "deep" / "set"
    with files.new_folder(target) as temporary:
        (temporary / "a.png").touch()
        assert temporary.parent == target.parent
        assert temporary.name.startswith(".set.")
        assert not target.exists()
    assert [path.name for path in target.iterdir()] == ["a.png"]
    assert list(target.parent.iterdir()) == [target]


def test_a_folder_that_is_not_finished_leaves_nothing(tmp_path):
    with pytest.raises(Torn), files.new_folder(tmp_path / "set") as temporary:  # noqa: PT012
        (temporary / "a.png").touch()
        raise Torn
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_is_taken_and_a_full_one_left_alone(tmp_path):
    (tmp_path / "set").mkdir()
    with files.new_folder(tmp_path / "set") as temporary:
        (temporary / "a.png").touch()
    with pytest.raises(HitNetError, match="Nothing was written"), files.new_folder(tmp_path / "set") as temporary:
        (temporary / "b.png").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["set", "a.png"]


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o027, 0o077])
def test_the_umask_decides_who_may_read_and_write(tmp_path, umask):
    before = os.umask(umask)
    try:
        files.write_text(tmp_path / "file", "")
        with files.replacing(tmp_path / "private") as temporary:
            temporary.unlink()
            temporary.touch(0o600)
        locks.claim(tmp_path / "claim")
        with files.new_folder(tmp_path / "set"):
            pass
    finally:
        os.umask(before)
    assert {mode(tmp_path / name) for name in ("file", "private", "claim")} == {0o666 & ~umask}
    assert mode(tmp_path / "set") == 0o777 & ~umask
    locks.release(tmp_path / "claim")


def test_who_may_read_and_write_what_is_there_stays_as_it_was(tmp_path):
    files.write_text(tmp_path / "file", "old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "set").mkdir(0o750)
    files.write_text(tmp_path / "file", "new")
    with files.new_folder(tmp_path / "set"):
        pass
    assert (mode(tmp_path / "file"), mode(tmp_path / "set")) == (0o640, 0o750)


@pytest.mark.parametrize("writing", [files.replacing, files.new_folder])
def test_places_that_cannot_be_written_to_are_named(tmp_path, monkeypatch, writing):
    (tmp_path / "file").touch()
    with pytest.raises(HitNetError, match=r"Cannot write .*file/x"), writing(tmp_path / "file/x"):
        pass

    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "touch", full)
    monkeypatch.setattr(os, "mkdir", full)
    with pytest.raises(HitNetError, match="No space left on device"), writing(tmp_path / "x"):
        pass


def test_json_there_and_back(tmp_path):
    value = {"name": "é\n", "list": [1, 0.5, None]}
    files.write_json(tmp_path / "a.json", value)
    text = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert files.read_json(tmp_path / "a.json") == value
    assert "é" in text  # for people to read
    assert text.startswith('{\n  "name"')
    assert text.endswith("}\n")


def test_home_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert files.expand("~/x") == tmp_path / "x"
    assert str(files.expand("x/~y")) == "x/~y"
    with pytest.raises(HitNetError, match=r"^~nobody-here/x: no home"):
        files.expand("~nobody-here/x")


def test_whole_numbers_of_numpy_go_into_json(tmp_path):
    files.write_json(tmp_path / "a.json", {"seed": np.int64(3)})
    assert files.read_json(tmp_path / "a.json") == {"seed": 3}
    with pytest.raises(TypeError):
        files.write_json(tmp_path / "a.json", {"seed": {3}})


def test_names_that_are_no_utf8_go_into_json(tmp_path):
    name = os.fsdecode(b"r\xe9n \\ \xc3\xa9")
    files.write_json(tmp_path / "a.json", {name: name})
    assert files.read_json(tmp_path / "a.json") == {name: name}


@pytest.mark.parametrize("content", [b"", b"{", b'"\xff"'])
def test_json_that_cannot_be_read_is_named(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(HitNetError, match=r"a\.json is not readable JSON: "):
        files.read_json(tmp_path / "a.json")
    with pytest.raises(HitNetError, match=r"b\.json does not exist"):
        files.read_json(tmp_path / "b.json")


def test_files_are_flushed_while_open_for_writing(tmp_path, monkeypatch):
    modes = []

    def flush(handle):
        modes.append(fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE)

    monkeypatch.setattr(os, "fsync", flush)
    files.write_text(tmp_path / "file", "text")
    assert modes == [os.O_RDWR]  # Windows refuses os.O_RDONLY
    with files.replacing(tmp_path / "other", lasting=False) as temporary:
        temporary.write_text("text")
    assert len(modes) == 1  # nothing waits for the disk
    assert (tmp_path / "other").read_text() == "text"


def test_an_empty_folder_is_taken_where_none_is_renamed_onto(tmp_path, monkeypatch):
    rename = Path.rename

    def windows(path, target):
        if Path(target).exists():
            raise FileExistsError(errno.EEXIST, "exists")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", windows)
    (tmp_path / "set").mkdir()
    with files.new_folder(tmp_path / "set") as temporary:
        (temporary / "a.png").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["set", "a.png"]


def test_what_a_killed_process_left_of_a_folder_is_removed_by_the_next(tmp_path):
    left, other, alive = (tmp_path / name for name in (".set.0123abcd", ".other.0123abcd", ".set.89abcdef"))
    for folder in (left, other, alive):
        (folder / "deep").mkdir(parents=True)
    handle = os.open(alive, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with files.new_folder(tmp_path / "set"):
        pass
    os.close(handle)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".other.0123abcd", ".set.89abcdef", "set"]


def test_litter_is_removed_and_nothing_else(tmp_path):
    litter = {".state.0123abcd.safetensors", ".tmpAb12Cd", ".x.0123abcd"}
    kept = {"state.safetensors", ".hidden", ".gitignore", ".tmp", "a.0123abcd", ".a.0123abcx"}
    for name in litter | kept:
        (tmp_path / name).touch()
    (tmp_path / ".folder.0123abcd").mkdir()
    files.remove_litter(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept | {".folder.0123abcd"}
    files.remove_litter(tmp_path / "none")


def test_litter_in_a_shared_folder_stays_while_somebody_writes_it(tmp_path):
    (tmp_path / ".left.0123abcd.png").touch()
    with files.replacing(tmp_path / "picture.png") as temporary:
        temporary.write_bytes(b"half")
        files.remove_litter(tmp_path, shared=True)
        assert [path.name for path in tmp_path.iterdir()] == [temporary.name]
        temporary.write_bytes(b"whole")
    assert (tmp_path / "picture.png").read_bytes() == b"whole"


def test_only_regular_files_of_a_size_are_read(tmp_path):
    (tmp_path / "file").write_text("12345")
    files.check_regular(tmp_path / "file", largest=5)
    with pytest.raises(HitNetError, match=r"has 5 bytes, .* the 4"):
        files.check_regular(tmp_path / "file", largest=4)
    os.mkfifo(tmp_path / "pipe")
    for path, says in ((tmp_path / "pipe", "no regular"), ("/dev/zero", "no regular"), (tmp_path, "a folder")):
        with pytest.raises(HitNetError, match=says):
            files.check_regular(path, largest=10)


def test_a_home_folder_that_was_not_expanded_is_no_trap(tmp_path, monkeypatch):
    """pandas expands ~ by itself: what it writes must be what is moved into place."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with files.replacing("~/table.csv") as temporary:
        pd.DataFrame({"a": [1]}).to_csv(temporary)
    assert (tmp_path / "~" / "table.csv").stat().st_size > 0
    assert not (tmp_path / "home").exists()


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "own"))
    assert files.cache_folder() == tmp_path / "own"
    monkeypatch.delenv("HITNET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert files.cache_folder() == tmp_path / "xdg" / "hitnet"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert files.cache_folder() == Path.home() / ".cache" / "hitnet"
