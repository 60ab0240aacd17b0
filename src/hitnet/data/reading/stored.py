"""Files wherever they are stored: on this machine, on another one, or as bytes in a dataset.

A path with a scheme (s3://bucket/photos, hf://datasets/user/name, gs://…) is read by fsspec, without a local copy. Each
scheme has a package of its own (s3fs, gcsfs, huggingface_hub …).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from hitnet.errors import HitNetError
from hitnet.runtime.files import check_regular, checksum, expand

SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)  # not C:/ and not chains such as simplecache::s3://
# Only these: other schemes of fsspec lead to local files past the checks of local files, or through several systems.
SCHEMES = ("abfs", "abfss", "adl", "az", "gcs", "gs", "hf", "http", "https", "memory", "s3", "s3a", "sftp", "ssh")


class UnreadableImageError(Exception):
    """Why something cannot be used as an image; the reader decides whether to skip it or to stop."""


class StoredFile:
    """A file whose bytes, if it has any, a function gives; with the few methods of `Path` that reading needs."""

    def __init__(self, name: str, read: Callable[[], bytes | None]) -> None:
        self.name, self.read = name, read

    def open(self, mode: str = "rb") -> BinaryIO:
        content = self.read()
        if content is None:
            raise UnreadableImageError("it has no image")
        return BytesIO(content)

    def read_bytes(self) -> bytes:
        with self.open() as file:
            return file.read()

    def __str__(self) -> str:
        return self.name


class RemotePath(StoredFile):
    """A file or folder by its address, with the few methods of `Path` that the readers of data need."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/") if not address.endswith("://") else address
        start = SCHEME.match(self.address)
        pure = PurePosixPath(self.address[start.end() if start else 0 :])
        self.name, self.stem, self.suffix = pure.name, pure.stem, pure.suffix

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, path: str, /) -> RemotePath:
        return RemotePath(path if is_remote(path) else f"{self.address}/{path.lstrip('/')}")

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.address.rpartition("/")[0])

    def open(self, mode: str = "rb") -> BinaryIO:
        system, inner = _system(self.address)
        return cast(BinaryIO, system.open(inner, mode))

    def files(self) -> list[str]:
        """The paths of all files below this folder, from here on."""
        system, inner = _system(self.address)
        try:
            paths = system.find(inner)
        except Exception as error:  # no such bucket, no permission, no network: each system has its own errors
            raise HitNetError(f"{self} cannot be listed: {error}") from error
        start = inner.strip("/")
        return [str(path).strip("/").removeprefix(start).strip("/") for path in paths]

    def size(self) -> int:
        """The number of bytes of a file; 0 where the system does not tell."""
        system, inner = _system(self.address)
        try:
            return int(system.size(inner) or 0)
        except Exception as error:
            raise HitNetError(f"{self} cannot be read: {error}") from error


AnyFile = Path | StoredFile
AnyPath = Path | RemotePath
Root = AnyPath | Callable[[str], AnyFile]  # where the paths of a set start: a folder, or what gives the file for a path


def is_remote(path: object) -> bool:
    """Whether a path has a scheme. A `Path` never has."""
    return isinstance(path, str) and SCHEME.match(path) is not None


def file_checksum(file: AnyFile) -> str:
    """A short hash of a file on this machine; empty for others, which would have to be fetched again."""
    return checksum(file) if isinstance(file, Path) else ""


def file_key(path: str | AnyFile) -> bytes:
    """The checksum of a file's bytes, under which its features are kept."""
    return bytes.fromhex(checksum(as_file(path)))


def as_file(path: str | AnyFile) -> AnyFile:
    """A path in any form as something that can be opened."""
    return Path(path) if isinstance(path, str) else path


def join(root: Root, path: str) -> AnyFile:
    """The file at a path from `root` on; a path with a scheme stands by itself."""
    if not isinstance(root, AnyPath):
        return root(path)
    return RemotePath(path) if is_remote(path) else root / path


def cell_file(cell: Mapping[str, Any] | bytes | None, name: str, root: Root | None = None) -> AnyFile:
    """The image in a cell of bytes, or of bytes and path, which starts at `root` where that is given."""
    content, path = (cell.get("bytes"), cell.get("path")) if isinstance(cell, Mapping) else (cell, None)
    if content is None and path is not None:
        return Path(path) if root is None else join(root, path)
    return StoredFile(name, lambda: content)


def path_or_address(source: str | Path) -> AnyPath:
    """A source as a path: a local one with its ~ replaced, or a remote one."""
    return RemotePath(str(source)) if is_remote(source) else expand(source)


def check_readable(path: AnyPath, *, largest: int) -> None:
    """Raise HitNetError unless a file may be read: a local one must be regular, and none may be too large."""
    if isinstance(path, Path):
        check_regular(path, largest=largest)
    elif (size := path.size()) > largest:
        raise HitNetError(f"{path} has {size:,} bytes, more than the {largest:,} that are read.")


def opened(path: AnyPath) -> Any:
    """What pandas and pyarrow read: a local path, or an open remote file."""
    return path if isinstance(path, Path) else path.open()


def _system(address: str) -> tuple[Any, str]:
    """fsspec's file system for an address, and the path in it."""
    import fsspec

    if address.partition("://")[0].lower() not in SCHEMES:
        raise HitNetError(
            f"{address} cannot be opened: its scheme is none of {', '.join(SCHEMES)}. "
            "Write the path of a local file without a scheme."
        )
    try:
        return cast(tuple[Any, str], fsspec.core.url_to_fs(address))
    except (ImportError, ValueError) as error:  # no package for the scheme, or a malformed address
        raise HitNetError(f"{address} cannot be opened: {error}") from error
