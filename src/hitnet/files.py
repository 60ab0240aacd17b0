"""Files that are written whole or not at all, and files that keep other processes out."""

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
_claims: dict[Path, int] = {}  # what this process has claimed, with the open file of each


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; move it over `path` once the block has ended without error.

    Who may read and write it stays as it was; for a new file the umask decides.
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
        temporary.chmod(mode)  # safetensors puts a private file of its own there
        temporary.replace(target)
    except OSError as error:
        if error.errno not in NO_PLACE:  # whatever else went wrong is for the block's owner to say
            raise
        raise HitNetError(f"Cannot write {target}: {error.strerror}. Choose another place.") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Give a temporary folder beside `path`, which is not there yet or empty; it takes that name at the end."""
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
    """An error where a new folder would lie over something: a file, a link, or a folder that is not empty."""
    target = Path(path)
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise HitNetError(f"{target} exists and is not an empty folder. Nothing is overwritten: choose another.")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def expand(path: str | Path) -> Path:
    """The path with its leading ~ or ~user replaced by the home folder."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        whose = Path(path).parts[0]
        raise HitNetError(f"{path}: no home folder is known for {whose}. Write the path out, or set $HOME.") from None


def is_unicode(name: str) -> bool:
    """Whether all bytes of a file's name are UTF-8; Python keeps those that are not as surrogates."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def write_text(path: str | Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """JSON in UTF-8, with escapes for the surrogates of a name that is none; whole numbers may be numpy's."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=operator.index) + "\n"
    write_text(path, text.encode("utf-8", "backslashreplace").decode("utf-8"))


def read_json(path: str | Path) -> Any:
    """The value in a JSON file, or an error that names the file and the place of the damage."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HitNetError(f"{path} does not exist.") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise HitNetError(f"{path} is not readable JSON: {error}") from error


def claim(path: str | Path) -> bool:
    """Keep other processes from claiming `path`, a file made for this alone, until `release` or the end of this one.

    False if another process has it. Where the system or the disk knows no such locks, nobody is kept out.
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
        if os.fstat(handle).st_nlink == 0:  # whoever had it has just removed the file: once more
            os.close(_claims.pop(target))
    return True


def release(path: str | Path) -> None:
    """Let other processes claim `path`; nothing happens where this one has not."""
    handle = _claims.pop(Path(path).absolute(), None)
    if handle is not None:
        Path(path).unlink(missing_ok=True)
        os.close(handle)
