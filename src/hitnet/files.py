"""Write files whole or not at all, and keep other processes out with lock files."""

from __future__ import annotations

import errno
import json
import operator
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hitnet.errors import HitNetError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EISDIR)  # a full disk, or a folder of the file's name
_claims: dict[Path, int] = {}  # the lock files of this process, each with its open file descriptor


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and move it over `path` when the block ends without an error.

    The permissions of an existing file are kept. The umask decides those of a new file.
    """
    target = Path(path)
    temporary = target.parent / f".{target.stem[:40]}.{secrets.token_hex(4)}{target.suffix}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
    except OSError as error:
        raise HitNetError(f"Cannot write {target}: {error.strerror}. Choose another place.") from error
    try:
        mode = _mode(target if target.exists() else temporary)
        yield temporary
        with temporary.open("rb") as written:
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

    `path` must not exist, or be an empty folder.
    """
    target = Path(path)
    temporary = target.parent / f".{target.name[:40]}.{secrets.token_hex(4)}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
    except OSError as error:
        raise HitNetError(f"Cannot write {target}: {error.strerror}. Choose another place.") from error
    try:
        mode = _mode(target if target.exists() else temporary)
        yield temporary
        temporary.chmod(mode)
        temporary.rename(target)
    except OSError as error:
        raise HitNetError(f"Cannot write {target}: {error}. Nothing was written.") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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


def read_json(path: str | Path) -> Any:
    """Read a JSON file; the error for a damaged file names the file and the position of the damage."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HitNetError(f"{path} does not exist.") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise HitNetError(f"{path} is not readable JSON: {error}") from error


def claim(path: str | Path) -> bool:
    """Lock the lock file `path` for this process, until `release` or the end of the process.

    Returns:
        False if another process holds the lock. True also where the system or the disk does not support locks.
    """
    target = Path(path).absolute()
    while target not in _claims and fcntl is not None:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(target, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise HitNetError(f"Cannot write {target}: {error.strerror}. Choose another place.") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
    handle = _claims.pop(Path(path).absolute(), None)
    if handle is not None:
        Path(path).unlink(missing_ok=True)
        os.close(handle)
