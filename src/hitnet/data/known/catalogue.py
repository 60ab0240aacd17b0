"""The files of the known sets: where they are, whether they are sound, and how to download them."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from hitnet.data.known.cifar import read_batches
from hitnet.data.known.clothing_sample import PHOTOS
from hitnet.data.known.clothing_sample import SHA256 as PHOTOS_SHA256
from hitnet.data.known.download import extract, fetch_file
from hitnet.data.known.facts import AFFNIST, CLOTHING_SAMPLE, MNIST, SAMPLE, Download, File, KnownSet
from hitnet.data.known.idx import read_idx
from hitnet.data.known.matlab_sets import read_affnist, read_svhn
from hitnet.data.known.sample import FOLDER as SAMPLE_FOLDER
from hitnet.data.split import natural
from hitnet.errors import HitNetError
from hitnet.runtime.files import cache_folder, expand
from hitnet.runtime.locks import taking_turns


@dataclass(frozen=True)
class FileState:
    """The state of one file of a set.

    Attributes:
        name: The file's name.
        path: Where it lies, or would lie.
        state: "ok" (the original's checksum), "other" (another checksum, but readable), "damaged" or "missing".
        size: In bytes; None for a missing file.
        note: What to do, or why it is damaged.
    """

    name: str
    path: Path
    state: str
    size: int | None = None
    note: str = ""

    @property
    def usable(self) -> bool:
        return self.state in ("ok", "other")


def data_folder(data_dir: str | Path | None = None) -> Path:
    """The folder of the known sets: the argument, else $HITNET_DATA, else `data` in the cache folder."""
    if data_dir is not None:
        return expand(data_dir)
    given = os.environ.get("HITNET_DATA")
    return expand(given) if given else cache_folder() / "data"


def recorded_folder(recorded: str | None) -> Path | None:
    """The folder of the known sets that a run or an audit recorded, for the option `data_dir`.

    None if $HITNET_DATA is set, which takes precedence, or if the folder no longer exists.
    """
    if recorded is None or os.environ.get("HITNET_DATA") or not Path(recorded).is_dir():
        return None
    return Path(recorded)


@dataclass(frozen=True)
class SetFiles:
    """The files of one known set, below the data folder `root`.

    affNIST is made from MNIST's files, and the samples lie in the package.
    """

    known: KnownSet
    root: Path

    @property
    def folder(self) -> Path:
        if self.known is CLOTHING_SAMPLE:
            return PHOTOS.parent
        return SAMPLE_FOLDER if self.known is SAMPLE else self.root / self.known.name

    @property
    def owner(self) -> SetFiles:
        """The set whose downloads this set is made from."""
        return SetFiles(MNIST, self.root) if self.known is AFFNIST else self

    def find(self, file_name: str, *, download: bool = True) -> Path:
        """A file of the set, fetched first if it is missing and `download` allows it."""
        part, file = next((d, f) for d in self.known.downloads for f in d.files if f.name == file_name)
        path = self.locate(file)
        if path is None and not download:
            raise HitNetError(
                f"{self.known.title}: {file.name} is missing. Put it into {self.folder} (from {part.urls[0]}), "
                "allow the download, or name the folder that holds your sets with `data_dir` or $HITNET_DATA."
            )
        if path is None:
            self._fetch(part)
            path = self.folder / file.name
        return path

    def locate(self, file: File) -> Path | None:
        """The file, packed or unpacked, if it lies in the set's folder or in one of its other folders."""
        folders = (self.folder, *self.known.also)
        names = (file.name, file.name.removesuffix(".gz"))
        return next((path for folder in folders for name in names if (path := folder / name).is_file()), None)

    def original_affnist(self) -> list[Path]:
        """The original affNIST test files that the user has: test.mat, otherwise the batches."""
        if (whole := self.folder / "test.mat").is_file():
            return [whole]
        return sorted((self.folder / "test_batches").glob("*.mat"), key=lambda path: natural(path.name))

    def fetch(self) -> Path:
        """Fetch the files that are missing.

        Returns:
            The folder that the files lie in.
        """
        owner = self.owner
        for part in owner.known.downloads:
            if any(owner.locate(file) is None for file in part.files):
                owner._fetch(part)
        first = next((path for file in owner.known.files[:1] if (path := owner.locate(file))), None)
        return owner.folder if first is None else first.parent

    def check(self) -> tuple[FileState, ...]:
        """The state of each file that the set is read from."""
        if self.known is CLOTHING_SAMPLE:
            return (_state(File(PHOTOS.name, "zip", PHOTOS_SHA256), PHOTOS),)
        if self.known is SAMPLE:
            files = [file for file in MNIST.files if file.name.startswith("t10k")]
            return tuple(_state(file, self.folder / file.name) for file in files)
        owner = self.owner
        states = [_state(file, owner.locate(file) or owner.folder / file.name) for file in owner.known.files]
        if self.known is AFFNIST:
            states += [_state(File(path.name, "affnist"), path) for path in self.original_affnist()]
        return tuple(states)

    def _fetch(self, part: Download) -> None:
        """Fetch a download, unless another process, for example of torchrun, has just done it."""
        with taking_turns(self.folder / ".fetching"):
            if any(self.locate(file) is None for file in part.files):
                self._fetch_now(part)

    def _fetch_now(self, part: Download) -> None:
        if part.archive is None:
            fetch_file(part.urls, self.folder / part.files[0].name, md5=part.md5)
            return
        archive = self.folder / part.archive
        brought = archive.is_file()
        if not brought:
            fetch_file(part.urls, archive, md5=part.md5)
        extract(archive, [file.name for file in part.files], self.folder)
        if not brought:
            archive.unlink()


def _state(file: File, path: Path) -> FileState:
    if not path.is_file():
        return FileState(file.name, path, "missing", note="it is fetched when the set is first read")
    size = path.stat().st_size
    if _has_checksum(file, path):
        return FileState(file.name, path, "ok", size)
    try:
        _parse(file, path)
    except HitNetError as error:
        return FileState(file.name, path, "damaged", size, str(error))
    return FileState(file.name, path, "other", size, "its checksum is not the known one, but it can be read")


def _has_checksum(file: File, path: Path) -> bool:
    try:
        with path.open("rb") as raw:
            if file.sha256 is None:
                return file.md5 is not None and hashlib.file_digest(raw, "md5").hexdigest() == file.md5
            if path.suffix != ".gz":
                return hashlib.file_digest(raw, "sha256").hexdigest() == file.sha256
            with gzip.GzipFile(fileobj=raw) as stream:
                return _stream_sha256(cast(IO[bytes], stream)) == file.sha256
    except (OSError, EOFError, zlib.error):
        return False


def _stream_sha256(stream: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := stream.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def _parse(file: File, path: Path) -> None:
    if file.kind == "cifar":
        read_batches([path])
    elif file.kind == "svhn":
        read_svhn(path)
    elif file.kind == "affnist":
        read_affnist(path)
    elif file.kind == "zip":
        raise HitNetError("its checksum is wrong; install hitnet again")
    else:
        read_idx(path, ndim=int(file.kind[-1]))
