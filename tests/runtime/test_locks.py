"""Lock files keep other processes out, and go with their process."""

import errno
import fcntl
import threading

import pytest

from hitnet.errors import HitNetError
from hitnet.runtime import locks
from patience import PATIENCE


def held_elsewhere(path):
    """A file claimed by somebody else, until it is closed: locks go with the opening, not with the process."""
    opened = path.open("w")
    fcntl.flock(opened, fcntl.LOCK_EX)
    return opened


def test_what_another_has_claimed_is_not_given(tmp_path):
    path = tmp_path / "claim"
    with held_elsewhere(path):
        assert not locks.claim(path)
        locks.release(path)  # not ours to release
        assert path.exists()
    assert locks.claim(path)
    locks.release(path)


def test_a_claim_keeps_others_out_until_it_is_released(tmp_path):
    path = tmp_path / "new" / "claim"
    assert locks.claim(path)
    assert locks.claim(path)  # we have it already
    with path.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    locks.release(path)
    assert list(path.parent.iterdir()) == []


def test_a_claim_on_a_file_that_is_removed_meanwhile_is_made_anew(tmp_path, monkeypatch):
    path, lock = tmp_path / "claim", fcntl.flock

    def removed_first(handle, how):
        lock(handle, how)
        path.unlink()
        monkeypatch.setattr(fcntl, "flock", lock)

    monkeypatch.setattr(fcntl, "flock", removed_first)
    assert locks.claim(path)
    with path.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    locks.release(path)


def test_a_disk_without_locks_keeps_nobody_out(tmp_path, monkeypatch):
    def no_locks(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert locks.claim(tmp_path / "claim")
    assert list(tmp_path.iterdir()) == []


def test_a_claim_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HitNetError, match="Choose another place"):
        locks.claim(tmp_path / "file" / "claim")


def test_where_a_claimed_file_is_now(tmp_path):
    path = tmp_path / "old" / "claim"
    assert locks.moved_to(path) is None
    assert locks.claim(path)
    assert locks.moved_to(path) is None
    (tmp_path / "old").rename(tmp_path / "new")
    assert locks.moved_to(path) == tmp_path / "new" / "claim"
    (tmp_path / "old").mkdir()
    path.touch()  # another file of the same name
    assert locks.moved_to(path) == tmp_path / "new" / "claim"
    (tmp_path / "new" / "claim").unlink()
    assert locks.moved_to(path) == path
    locks.release(path)


def test_a_folder_that_was_moved_and_replaced_keeps_the_others_lock(tmp_path):
    path = tmp_path / "old" / "claim"
    assert locks.claim(path)
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "old").mkdir()
    with held_elsewhere(path):
        locks.release(path)
        assert path.exists()
        assert not locks.claim(path)


def test_processes_take_turns(tmp_path):
    path, entered = tmp_path / "turn", threading.Event()

    def work():
        with locks.taking_turns(path):
            entered.set()

    with held_elsewhere(path):
        waiting = threading.Thread(target=work)
        waiting.start()
        assert not entered.wait(0.5)
    waiting.join(PATIENCE)
    assert entered.is_set()
    assert not path.exists()
