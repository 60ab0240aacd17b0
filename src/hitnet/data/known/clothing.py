"""The 3,781 photographs of clothes that the sample is taken from: fetched once, then a folder like any other."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from hitnet.data.formats.folder import FolderData
from hitnet.data.known.catalogue import data_folder
from hitnet.data.known.download import archive_files, fetch_file
from hitnet.data.known.facts import KNOWN_SETS
from hitnet.data.known.samples import CLOTHING_CLASSES
from hitnet.data.opened import DataOptions
from hitnet.errors import HitNetError
from hitnet.runtime.files import new_folder
from hitnet.runtime.locks import taking_turns

NAME = "clothing"
PAGE = KNOWN_SETS[NAME].page
URLS = (f"{PAGE}/archive/11961516512414bf9f6c150a832cfd21b54a6b54.tar.gz",)
SPLITS = ("train", "validation", "test")
# Of all photographs together: GitHub may pack the same files into another archive, whose checksum then differs.
SHA256 = "55ee2d8f2e6ad4bb657b13347839fe62bea5db0375d77ebe169e12026edee35c"


class ClothingData(FolderData):
    """The folder `clothing` in the data folder, fetched if it is not there."""

    def __init__(self, source: str, options: DataOptions | None = None) -> None:
        options = options or DataOptions()
        super().__init__(source, replace(options, flip=True if options.flip is None else options.flip))

    @classmethod
    def accepts(cls, source: Any) -> bool:
        return isinstance(source, str) and source == NAME

    @property
    def address(self) -> str:
        return str(self.path.absolute())

    @cached_property
    def path(self) -> Path:
        folder = data_folder(self.options.data_dir) / NAME
        if not folder.is_dir() and not self.options.download:
            raise HitNetError(
                f"{NAME}: {folder} is missing. Clone {PAGE} to that place, allow the download, or name the folder that "
                "holds your sets with `data_dir` or $HITNET_DATA."
            )
        fetch_clothing(folder)
        return folder


def fetch_clothing(folder: Path) -> None:
    """Download the photographs, unless the folder is there; nothing is written unless all are there and as they were.

    If another process is fetching them, this one waits for it.
    """
    if folder.is_dir():
        return
    with taking_turns(folder.with_name(f".{folder.name}.fetching")):
        if folder.is_dir():
            return
        with new_folder(folder) as temporary:
            archive = temporary / "archive.tar.gz"
            fetch_file(URLS, archive)
            for path, content in archive_files(archive, _is_photograph, origin=URLS[0]):
                place = temporary.joinpath(*path.parts[1:])
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
            archive.unlink()
            if content_hash(temporary) != SHA256:
                raise HitNetError(
                    f"{URLS[0]} does not hold the photographs that are known as `{NAME}`. "
                    f"Clone {PAGE} and give its folder instead of the name."
                )


def _is_photograph(path: PurePosixPath) -> bool:
    """Whether a file of the archive is ROOT/<split>/<class>/<name>.jpg; nothing else is unpacked."""
    parts = path.parts[1:]
    return len(parts) == 3 and parts[0] in SPLITS and parts[1] in CLOTHING_CLASSES and path.suffix == ".jpg"


def content_hash(folder: Path) -> str:
    """A checksum of the paths and contents of all photographs below a folder."""
    digest = hashlib.sha256()
    for path in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg")):
        digest.update(f"{path} {hashlib.sha256((folder / path).read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
