"""Image files that are not local files: bytes in a data set, or files on another machine."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Protocol


class StoredFile:
    """A file that is read by a function, with the few methods of `Path` that reading needs.

    Args:
        name: What to call it in messages.
        opener: Opens it for reading, or gives its bytes.
    """

    def __init__(self, name: str, opener: Callable[[], BinaryIO | bytes]) -> None:
        self.name, self.opener = name, opener

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the file for reading."""
        content = self.opener()
        return BytesIO(content) if isinstance(content, bytes) else content

    def read_bytes(self) -> bytes:
        with self.open() as file:
            return file.read()

    def __str__(self) -> str:
        return self.name


AnyFile = Path | StoredFile


class Root(Protocol):
    """Where the paths of a set start: a folder, or anything else that gives a file for each path."""

    def __truediv__(self, path: str, /) -> AnyFile: ...


def as_file(path: str | AnyFile) -> AnyFile:
    """A path in any form as something that can be opened."""
    return Path(path) if isinstance(path, str) else path
