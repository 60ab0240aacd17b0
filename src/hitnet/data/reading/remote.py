"""Files on other machines, where a path has a scheme: s3://bucket/photos, hf://datasets/user/name, gs://…

fsspec reads them, without a local copy. Each scheme has a package of its own (s3fs, gcsfs, huggingface_hub …).
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from hitnet.data.reading.stored import AnyFile, Root, StoredFile
from hitnet.errors import HitNetError
from hitnet.runtime.files import expand

SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)  # not C:/ and not chains such as simplecache::s3://
# Only these: other schemes of fsspec lead to local files past the checks of local files, or through several systems.
SCHEMES = ("abfs", "abfss", "adl", "az", "gcs", "gs", "hf", "http", "https", "memory", "s3", "s3a", "sftp", "ssh")


def is_remote(path: object) -> bool:
    """Whether a path has a scheme. A `Path` never has."""
    return isinstance(path, str) and SCHEME.match(path) is not None


class RemotePath(StoredFile):
    """A file or folder by its address, with the few methods of `Path` that the readers of data need."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/") if not address.endswith("://") else address
        super().__init__(self.address, self._open)
        start = SCHEME.match(self.address)
        self.pure = PurePosixPath(self.address[start.end() if start else 0 :])
        self.name, self.stem, self.suffix = self.pure.name, self.pure.stem, self.pure.suffix

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, path: str, /) -> RemotePath:
        return RemotePath(path if is_remote(path) else f"{self.address}/{path.lstrip('/')}")

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self.address.rpartition("/")[0])

    def _open(self) -> BinaryIO:
        system, inner = _system(self.address)
        return cast(BinaryIO, system.open(inner, "rb"))

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


def join(root: Root, path: str) -> AnyFile:
    """The file at a path from `root` on; a path with a scheme stands by itself."""
    return RemotePath(path) if is_remote(path) else root / path


def path_or_address(source: str | Path) -> Path | RemotePath:
    """A source as a path: a local one with its ~ replaced, or a remote one."""
    return RemotePath(str(source)) if is_remote(source) else expand(source)
