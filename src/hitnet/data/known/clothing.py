"""The 3,781 photographs of clothes that the sample is taken from: fetched once, then a folder like any other."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from hitnet.data.formats.folder import FolderData
from hitnet.data.known.catalogue import data_folder
from hitnet.data.known.download import fetch_file, open_archive
from hitnet.data.known.facts import CLOTHING
from hitnet.data.known.samples import CLOTHING_CLASSES
from hitnet.data.options import DataOptions
from hitnet.errors import HitNetError
from hitnet.runtime.files import new_folder
from hitnet.runtime.locks import taking_turns

URLS = (f"{CLOTHING.page}/archive/11961516512414bf9f6c150a832cfd21b54a6b54.tar.gz",)
SPLITS = ("train", "validation", "test")
# Of all photographs together: GitHub may pack the same files into another archive, whose checksum then differs.
SHA256 = "55ee2d8f2e6ad4bb657b13347839fe62bea5db0375d77ebe169e12026edee35c"
LARGEST = 1 << 24  # bytes of one photograph


class ClothingData(FolderData):
    """The folder `clothing` in the data folder, fetched if it is not there."""

    def __init__(self, source: str, options: DataOptions | None = None) -> None:
        options = options or DataOptions()
        super().__init__(source, replace(options, flip=True if options.flip is None else options.flip))

    @classmethod
    def accepts(cls, source: Any) -> bool:
        return isinstance(source, str) and source == CLOTHING.name

    @cached_property
    def path(self) -> Path:
        folder = data_folder(self.options.data_dir) / CLOTHING.name
        if not folder.is_dir():
            if not self.options.download:
                raise HitNetError(
                    f"{CLOTHING.title}: {folder} is missing. Clone {CLOTHING.page} to that place, allow the download, "
                    "or name the folder that holds your sets with `data_dir` or $HITNET_DATA."
                )
            fetch_clothing(folder)
        return folder


def fetch_clothing(folder: Path) -> None:
    """Download the photographs into a new folder; nothing is written unless all are there and as they were.

    If another process is fetching them, this one waits for it.
    """
    with taking_turns(folder.with_name(f".{folder.name}.fetching")):
        if not folder.is_dir():
            _fetch(folder)


def _fetch(folder: Path) -> None:
    with new_folder(folder) as temporary:
        archive = temporary / "archive.tar.gz"
        fetch_file(URLS, archive)
        _unpack(archive, temporary)
        archive.unlink()
        if content_hash(temporary) != SHA256:
            raise HitNetError(
                f"{URLS[0]} does not hold the photographs that are known as `{CLOTHING.name}`. "
                f"Clone {CLOTHING.page} and give its folder instead of the name."
            )


def content_hash(folder: Path) -> str:
    """A checksum of the paths and contents of all photographs below a folder."""
    digest = hashlib.sha256()
    for path in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg")):
        digest.update(f"{path} {hashlib.sha256((folder / path).read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _unpack(archive: Path, folder: Path) -> None:
    """Write the photographs of the archive, TOP/<split>/<class>/<name>.jpg, and nothing else."""
    with open_archive(archive, largest=LARGEST, origin=URLS[0]) as files:
        for path, source in files:
            place = PurePosixPath(*path.parts[1:])
            if _is_photograph(place):
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                (folder / place).write_bytes(source.read())


def _is_photograph(place: PurePosixPath) -> bool:
    parts = place.parts
    return (
        len(parts) == 3
        and parts[0] in SPLITS
        and parts[1] in CLOTHING_CLASSES
        and re.fullmatch(r"[0-9a-f-]+\.jpg", parts[2]) is not None
    )
