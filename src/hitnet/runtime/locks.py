"""Lock files that keep other processes out, and that the system unlocks when their process ends."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor

from hitnet.runtime.files import making_place

# Files are locked by filelock. Its class FileLock is not used: it does not tell where a locked file was moved to.
_claims: dict[Path, int] = {}  # the lock files of this process, each with its open file descriptor


def claim(path: str | Path) -> bool:
    """Lock the lock file `path` for this process, until `release` or its end; False if another process holds the lock.

    Where the disk does not support locks, all may have it.
    """
    target = Path(path).absolute()
    while target not in _claims:
        with making_place(target):
            handle = os.open(target, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            locked = lock_descriptor(handle, blocking=False)
        except OSError:  # a disk without locks
            os.close(handle)
            target.unlink(missing_ok=True)
            return True
        if locked and os.fstat(handle).st_nlink:
            _claims[target] = handle
            break
        os.close(handle)
        if not locked:
            return False
        # Its last holder removed the file just now: try again.
    return True


def release(path: str | Path) -> None:
    """Release the lock file `path` if this process holds it."""
    moved = moved_to(path) is not None  # then a file of this name is another process's
    handle = _claims.pop(Path(path).absolute(), None)
    if handle is None:
        return
    if not moved:
        with suppress(OSError):  # Windows does not remove an open file: it stays there
            Path(path).unlink()
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
    """Where a lock file of this process is, if it is no longer at `path` (itself if nobody knows); else None."""
    target = Path(path).absolute()
    handle = _claims.get(target)
    if handle is None or _is_at(handle, target):
        return None
    with suppress(OSError):
        place = Path(os.readlink(f"/proc/self/fd/{handle}"))  # Linux knows under which name it is now
        if _is_at(handle, place):
            return place
    return target


def _is_at(handle: int, path: Path) -> bool:
    """Whether an open file is the one at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except OSError:
        return False
