"""Write files whole or not at all, read only what is safe to read, and keep other processes out with lock files."""

from __future__ import annotations

import errno
import hashlib
import json
import operator
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hitnet.errors import HitNetError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt

NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EISDIR)  # a full disk, or a folder of the file's name
LARGEST_JSON = 256 << 20  # bytes
LOCKED_BYTE = 1 << 30  # Windows locks bytes, not files: one that no file reaches
# What `replacing`, `new_folder` and safetensors leave behind if they are killed.
LITTER = re.compile(r"\..{1,40}\.[0-9a-f]{8}(\.[^.]*)?|\.tmp\w{6}", re.DOTALL)
_claims: dict[Path, int] = {}  # the lock files of this process, each with its open file descriptor


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and move it over `path` when the block ends without an error.

    The permissions of an existing file are kept. The umask decides those of a new file.
    """
    target = Path(path).absolute()  # pandas would expand a leading ~ of the temporary path
    temporary = target.parent / f".{target.stem[:40]}.{secrets.token_hex(4)}{target.suffix}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
    except OSError as error:
        raise HitNetError(f"Cannot write {target}: {error.strerror}. Choose another place.") from error
    try:
        mode = _mode(target if target.exists() else temporary)
        with _held(temporary):
            yield temporary
        with temporary.open("rb+") as written:  # Windows refuses to flush a file that is open for reading only
            os.fsync(written.fileno())
        temporary.chmod(mode)  # safetensors replaces the file by one that only its owner may read
        temporary.replace(target)
    except OSError as error:
        if error.errno not in NO_PLACE:  # any other error is the block's own
            raise
        raise HitNetError(f"Cannot write {target}: {error.strerror}. Choose another place.") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`, and rename it to `path` when the block ends without an error.

    `path` must not exist, or be an empty folder. What a killed process left of an earlier attempt is removed.
    """
    target = Path(path)
    start = f".{target.name[:40]}."
    temporary = target.parent / f"{start}{secrets.token_hex(4)}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
    except OSError as error:
        raise HitNetError(f"Cannot write {target}: {error.strerror}. Choose another place.") from error
    try:
        with _held(temporary):
            for left in target.parent.iterdir():
                if left != temporary and left.name.startswith(start) and LITTER.fullmatch(left.name):
                    _remove_if_left(left)
            mode = _mode(target if target.exists() else temporary)
            yield temporary
            temporary.chmod(mode)
        with suppress(FileNotFoundError):
            target.rmdir()  # Windows does not rename onto a folder, not even onto an empty one
        temporary.rename(target)
    except OSError as error:
        raise HitNetError(f"Cannot write {target}: {error}. Nothing was written.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Lock a temporary file or folder while this process works on it, where the system can."""
    handle = None
    if fcntl is not None:
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _remove_if_left(path: Path) -> None:
    """Remove a temporary file or folder, unless the process that works on it is alive or the system cannot tell."""
    if fcntl is None or path.is_symlink() or not (path.is_dir() or path.is_file()):
        return
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        finally:
            os.close(handle)


def remove_litter(folder: Path, *, older_than: float = 0.0, shared: bool = False) -> None:
    """Remove temporary files that killed processes left in a folder.

    Args:
        folder: Need not exist.
        older_than: Only files that were last written this many seconds ago.
        shared: Other processes may write into the folder, too: only files that none of them has locked. (Files that
            safetensors writes are not locked: for these, use `older_than`.)
    """
    with suppress(OSError):
        for path in list(folder.iterdir()):
            with suppress(OSError):
                status = path.lstat()
                old = not older_than or time.time() - status.st_mtime > older_than
                if old and stat.S_ISREG(status.st_mode) and LITTER.fullmatch(path.name):
                    _remove_if_left(path) if shared else path.unlink()


def check_vacant(path: str | Path) -> None:
    """Raise HitNetError if `path` is a file, a link, or a folder that is not empty."""
    target = Path(path)
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise HitNetError(f"{target} exists and is not an empty folder. Choose another folder; nothing was written.")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def expand(path: str | Path) -> Path:
    """Replace a leading ~ or ~user by the home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = Path(path).parts[0]
        raise HitNetError(f"{path}: no home folder is known for {user}. Write the full path, or set $HOME.") from None


def is_unicode(name: str) -> bool:
    """Return whether a file's name is valid UTF-8. Python keeps all other bytes of a name as surrogates."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def write_text(path: str | Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON in UTF-8, with surrogates escaped. Accepts numpy's integers too."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=operator.index) + "\n"
    write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8"))


def check_regular(path: str | Path, *, largest: int) -> None:
    """Raise HitNetError unless `path` is a regular file of at most `largest` bytes.

    A pipe would be waited for without end, and a device read without end.
    """
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        raise HitNetError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:
        raise HitNetError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file, but a pipe, a device or the like"
        raise HitNetError(f"{path} is {kind}. Give a file.")
    if status.st_size > largest:
        raise HitNetError(f"{path} has {status.st_size:,} bytes, more than the {largest:,} that are read.")


def read_json(path: str | Path) -> Any:
    """Read a JSON file; the error for a damaged file names the file and the position of the damage."""
    check_regular(path, largest=LARGEST_JSON)
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError:
        raise HitNetError(f"{path} is not readable JSON: it is nested too deeply.") from None
    except (OSError, ValueError) as error:  # also of bytes that are not UTF-8, and of numbers with too many digits
        raise HitNetError(f"{path} is not readable JSON: {error}") from error


def checksum(path: str | Path) -> str:
    """A short hash of a file's bytes."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise HitNetError(f"{path} cannot be read: {error.strerror}.") from error


@contextmanager
def appending(path: str | Path) -> Iterator[Callable[[str], None]]:
    """Yield a function that appends text to a file, whole or not at all; processes take turns.

    Raises:
        OSError: The file cannot be opened or written; it is as it was before.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(target, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)

    def append(text: str) -> None:
        before = os.fstat(handle).st_size
        content = memoryview(text.encode())
        try:
            while content:
                content = content[os.write(handle, content) :]
            os.fsync(handle)
            if not before:
                _sync_folder(target.parent)
        except BaseException:  # a full disk, or Ctrl-C: half a line must not stay
            os.ftruncate(handle, before)
            raise

    try:
        with suppress(OSError):  # a disk without locks
            _lock(handle, wait=True)
        yield append
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Bring the name of a new file to disk, too, where the system can do this for folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _lock(handle: int, *, wait: bool) -> None:
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
            _lock(handle, wait=False)
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
