"""The files of the known sets: where they are, whether they are sound, and how to download them."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hitnet.data.known.download import extract, fetch_file
from hitnet.data.known.facts import AFFNIST, CLOTHING_SAMPLE, MNIST, SAMPLE, Download, File, KnownSet
from hitnet.data.known.makers import read_affnist, read_cifar, read_idx, read_svhn
from hitnet.data.known.samples import FOLDER as SAMPLES
from hitnet.data.known.samples import PHOTOS, PHOTOS_SHA256
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

    dataset: KnownSet
    root: Path

    @property
    def folder(self) -> Path:
        if self.dataset is CLOTHING_SAMPLE:
            return PHOTOS.parent
        return SAMPLES if self.dataset is SAMPLE else self.root / self.dataset.name

    @property
    def owner(self) -> SetFiles:
        """The set whose downloads this set is made from."""
        return SetFiles(MNIST, self.root) if self.dataset is AFFNIST else self

    def find(self, file_name: str, *, download: bool = True) -> Path:
        """A file of the set, fetched first if it is missing and `download` allows it."""
        part, file = next((d, f) for d in self.dataset.downloads for f in d.files if f.name == file_name)
        path = self.locate(file)
        if path is None and not download:
            raise HitNetError(
                f"{self.dataset.title}: {file.name} is missing. Put it into {self.folder} (from {part.urls[0]}), "
                "allow the download, or name the folder that holds your sets with `data_dir` or $HITNET_DATA."
            )
        if path is None:
            self._fetch(part)
            path = self.folder / file.name
        return path

    def locate(self, file: File) -> Path | None:
        """The file, packed or unpacked, if it lies in the set's folder or in one of its other folders."""
        folders = (self.folder, *self.dataset.also)
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
        for part in owner.dataset.downloads:
            if any(owner.locate(file) is None for file in part.files):
                owner._fetch(part)
        first = next((path for file in owner.dataset.files[:1] if (path := owner.locate(file))), None)
        return owner.folder if first is None else first.parent

    def check(self) -> tuple[FileState, ...]:
        """The state of each file that the set is read from."""
        if self.dataset is CLOTHING_SAMPLE:
            return (_state(File(PHOTOS.name, "zip", PHOTOS_SHA256), PHOTOS),)
        if self.dataset is SAMPLE:
            files = [file for file in MNIST.files if file.name.startswith("t10k")]
            return tuple(_state(file, self.folder / file.name) for file in files)
        owner = self.owner
        states = [_state(file, owner.locate(file) or owner.folder / file.name) for file in owner.dataset.files]
        if self.dataset is AFFNIST:
            states += [_state(File(path.name, "affnist"), path) for path in self.original_affnist()]
        return tuple(states)

    def _fetch(self, part: Download) -> None:
        """Fetch a download, unless another process, for example of torchrun, has just done it."""
        with taking_turns(self.folder / ".fetching"):
            if any(self.locate(file) is None for file in part.files):
                self._fetch_now(part)

    def _fetch_now(self, part: Download) -> None:
        file = part.archive or part.files[0]
        target = self.folder / file.name
        brought = target.is_file()
        if not brought:
            fetch_file(part.urls, target, is_sound=partial(has_checksum, file))
        if part.archive is not None:
            extract(target, [file.name for file in part.files], self.folder)
            if not brought:
                target.unlink()


def has_checksum(file: File, path: Path) -> bool:
    """Whether a file is the one that its makers published."""
    kind, published = ("md5", file.md5) if file.sha256 is None else ("sha256", file.sha256)
    unpack = gzip.open if kind == "sha256" and path.suffix == ".gz" else open
    try:
        with unpack(path, "rb") as content:
            return hashlib.file_digest(content, kind).hexdigest() == published  # type: ignore[arg-type]
    except (OSError, EOFError, zlib.error):
        return False


def _state(file: File, path: Path) -> FileState:
    if not path.is_file():
        return FileState(file.name, path, "missing", note="it is fetched when the set is first read")
    size = path.stat().st_size
    if has_checksum(file, path):
        return FileState(file.name, path, "ok", size)
    if file.kind == "zip":
        return FileState(file.name, path, "damaged", size, "its checksum is wrong; install hitnet again")
    try:
        READERS[file.kind](path)
    except HitNetError as error:
        return FileState(file.name, path, "damaged", size, str(error))
    return FileState(file.name, path, "other", size, "its checksum is not the known one, but it can be read")


READERS: dict[str, Callable[[Path], Any]] = {
    "idx1": partial(read_idx, ndim=1),
    "idx3": partial(read_idx, ndim=3),
    "cifar": lambda path: read_cifar([path]),
    "svhn": read_svhn,
    "affnist": read_affnist,
}
