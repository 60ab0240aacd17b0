"""Keep other processes out with lock files, which the system unlocks when their process ends."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hitnet.errors import HitNetError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt

LOCKED_BYTE = 1 << 30  # Windows locks bytes, not files: one that no file reaches
_claims: dict[Path, int] = {}  # the lock files of this process, each with its open file descriptor


def lock_folders() -> bool:
    """Whether the system also locks folders, and files that are open for reading only (Windows does not)."""
    return fcntl is not None


def lock(handle: int, *, wait: bool) -> None:
    """Lock an open file until it is closed; raise BlockingIOError if another process has it."""
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return
    place = os.lseek(handle, 0, os.SEEK_CUR)
    os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
    try:
        msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except PermissionError as error:
        raise BlockingIOError(error.errno, "another process has locked the file") from error
    finally:
        os.lseek(handle, place, os.SEEK_SET)


def claim(path: str | Path) -> bool:
    """Lock the lock file `path` for this process, until `release` or the end of the process.

    Returns:
        False if another process holds the lock. True also where the disk does not support locks.
    """
    target = Path(path).absolute()
    while target not in _claims:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(target, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise HitNetError(f"Cannot write {target}: {error.strerror}. Choose another place.") from error
        try:
            lock(handle, wait=False)
        except BlockingIOError:
            os.close(handle)
            return False
        except OSError:
            os.close(handle)
            target.unlink(missing_ok=True)
            return True
        _claims[target] = handle
        if os.fstat(handle).st_nlink == 0:  # its last holder removed the file just now: try again
            os.close(_claims.pop(target))
    return True


def release(path: str | Path) -> None:
    """Release the lock file `path` if this process holds it."""
    moved = moved_to(path) is not None  # then a file of this name is another process's
    handle = _claims.pop(Path(path).absolute(), None)
    if handle is None:
        return
    if moved:
        os.close(handle)
        return
    if fcntl is None:  # Windows does not remove an open file
        os.close(handle)
    with suppress(OSError):  # on Windows, another process may have it already
        Path(path).unlink()
    if fcntl is not None:
        os.close(handle)


@contextmanager
def taking_turns(path: str | Path) -> Iterator[None]:
    """Hold the lock file `path` during the block; wait while another process holds it."""
    while not claim(path):
        time.sleep(0.1)
    try:
        yield
    finally:
        release(path)


def moved_to(path: str | Path) -> Path | None:
    """Where a lock file of this process is, if it is no longer at `path`; `path` itself if nobody knows.

    Returns:
        None if it is still there, or was never locked.
    """
    target = Path(path).absolute()
    handle = _claims.get(target)
    if handle is None:
        return None
    own = os.fstat(handle)
    with suppress(OSError):
        there = target.stat()
        if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino):
            return None
    with suppress(OSError):
        place = Path(os.readlink(f"/proc/self/fd/{handle}"))  # Linux knows under which name it is now
        there = place.stat()
        if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino):
            return place
    return target
