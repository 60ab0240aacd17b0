"""Write files whole or not at all, and read only what is safe to read."""

import errno
import hashlib
import json
import operator
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from hitnet.errors import HitNetError, MissingFileError, log

NO_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EISDIR)  # a full disk, or a folder of the file's name
LARGEST_JSON = 256 << 20  # bytes
TOLD = 10**9  # bytes of room on disk that are told before they are taken
CAN_LOCK = os.name != "nt"  # Windows does not lock folders, and locks files against their own process
# What `replacing`, `new_folder` and safetensors leave behind if they are killed.
LITTER = re.compile(r"\..{1,40}\.[0-9a-f]{8}(\.[^.]*)?|\.tmp\w{6}", re.DOTALL)


@contextmanager
def making_place(target: Path) -> Iterator[None]:
    """Make the folder that a file or folder is to lie in; raise HitNetError if the block cannot begin it there."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise HitNetError(f"Cannot write {target}: {error.strerror}. Choose another place.") from error


@contextmanager
def replacing(path: str | Path, *, lasting: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and move it over `path` when the block ends without an error.

    The permissions of an existing file are kept. The umask decides those of a new file. If it need not be `lasting`,
    nothing waits for the disk: should the machine fail at once, the file may be damaged.
    """
    target = Path(path).absolute()  # pandas would expand a leading ~ of the temporary path
    temporary = target.parent / f".{target.stem[:40]}.{secrets.token_hex(4)}{target.suffix}"
    with making_place(target):
        temporary.touch(exist_ok=False)
    try:
        mode = _mode(target if target.exists() else temporary)
        with _held(temporary):
            yield temporary
            if lasting:
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
    with making_place(target):
        temporary.mkdir()
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
def _handle(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Lock a temporary file or folder while this process works on it, where the system can."""
    handle = None
    if CAN_LOCK:
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY)
            lock_descriptor(handle, blocking=False)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _remove_if_left(path: Path) -> None:
    """Remove a temporary file or folder, unless the process that works on it is alive or the system cannot tell."""
    if not CAN_LOCK or path.is_symlink() or not (path.is_dir() or path.is_file()):
        return
    with suppress(OSError), _handle(path) as handle:
        if lock_descriptor(handle, blocking=False):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def remove_litter(folder: Path, *, shared: bool = False) -> None:
    """Remove temporary files that killed processes left in a folder, if it exists.

    If it is `shared`, only those that no other process has locked; files that safetensors writes itself are not.
    """
    with suppress(OSError):
        for path in list(folder.iterdir()):
            with suppress(OSError):
                if stat.S_ISREG(path.lstat().st_mode) and LITTER.fullmatch(path.name):
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


def cache_folder() -> Path:
    """Where datasets and features are kept: $HITNET_CACHE, else `hitnet` in $XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("HITNET_CACHE")
    return expand(own) if own else expand(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "hitnet"


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


def check_regular(path: str | Path, *, largest: int, links: bool = True) -> None:
    """Raise HitNetError unless `path` is a regular file of at most `largest` bytes; without `links`, not a link to one.

    A pipe would be waited for without end, and a device read without end.
    """
    try:
        status = Path(path).stat(follow_symlinks=links)
    except FileNotFoundError:
        raise MissingFileError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:
        raise HitNetError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    if not stat.S_ISREG(status.st_mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link to another file"}
        kind = kinds.get(stat.S_IFMT(status.st_mode), "no regular file, but a pipe, a device or the like")
        raise HitNetError(f"{path} is {kind}. Give a file.")
    if status.st_size > largest:
        raise HitNetError(f"{path} has {status.st_size:,} bytes, more than the {largest:,} that are read.")


def tell_room(what: str, needed: float, folder: Path, advice: str, *, free: int | None = None) -> None:
    """Tell the room on disk that something needs, if it is much; warn if there is less. `free` is what it may take."""
    free = shutil.disk_usage(folder).free if free is None else free
    text = f"{what} need up to {needed / 1e9:.1f} GB in {folder}; there is room for {free / 1e9:.1f} GB."
    if needed > free:
        log.warning("%s %s", text, advice)
    elif needed >= TOLD:
        log.info("%s", text)


def read_json(path: str | Path) -> Any:
    """Read a JSON file; the error for a damaged file names the file and the position of the damage."""
    check_regular(path, largest=LARGEST_JSON)
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError:
        raise HitNetError(f"{path} is not readable JSON: it is nested too deeply.") from None
    except (OSError, ValueError) as error:  # also of bytes that are not UTF-8, and of numbers with too many digits
        raise HitNetError(f"{path} is not readable JSON: {error}") from error


def checksum(path: Any) -> str:
    """A short hash of the bytes of a `Path`, or of another file that has `open`."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise HitNetError(f"{path} cannot be read: {error.strerror or error}.") from error


def shipped(path: Path, sha256: str) -> bytes:
    """The content of a file of the package, once its checksum is right."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise HitNetError(f"{path} cannot be read: {error.strerror}. Install hitnet again.") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise HitNetError(f"{path} is damaged: its checksum is wrong. Install hitnet again.")
    return content


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
            if not before:  # bring the name of a new file to disk, too, where the system can do this for folders
                with suppress(OSError), _handle(target.parent) as folder:
                    os.fsync(folder)
        except BaseException:  # a full disk, or Ctrl-C: half a line must not stay
            os.ftruncate(handle, before)
            raise

    try:
        with suppress(OSError):  # a disk without locks
            lock_descriptor(handle)
        yield append
    finally:
        os.close(handle)
