"""The sets that are known by name: where their files lie, whether they are sound, how they are fetched."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from hitnet.data.cifar import read_batches
from hitnet.data.download import extract, fetch_file
from hitnet.data.idx import read_idx
from hitnet.data.mat import read_affnist, read_svhn
from hitnet.data.sample import FOLDER as SAMPLE_FOLDER
from hitnet.data.sources import AFFNIST, MNIST, SAMPLE, Download, File, Source, get
from hitnet.data.split import natural
from hitnet.errors import HitNetError
from hitnet.files import expand

__all__ = [
    "FileState",
    "Source",
    "check",
    "data_folder",
    "fetch",
    "find",
    "get",
    "locate",
    "original_affnist",
    "set_folder",
]


@dataclass(frozen=True)
class FileState:
    """What is known of one file of a set.

    state  "ok" (the original's checksum), "other" (another checksum, but readable), "damaged" or "missing"
    note   what to do, or why it is damaged
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
    """Where sets lie: the argument, else $HITNET_DATA, else the user's cache."""
    if data_dir is not None:
        return expand(data_dir)
    if given := os.environ.get("HITNET_DATA"):
        return expand(given)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else expand("~/.cache")) / "hitnet" / "data"


def set_folder(name: str, data_dir: str | Path | None = None) -> Path:
    return data_folder(data_dir) / get(name).name


def locate(source: Source, file: File, data_dir: str | Path | None = None) -> Path | None:
    """The file, if it lies in the set's folder or in another place it may have; unpacked serves too."""
    folders = (set_folder(source.name, data_dir), *source.also)
    names = (file.name, file.name.removesuffix(".gz"))
    return next((path for folder in folders for name in names if (path := folder / name).is_file()), None)


def find(name: str, file_name: str, *, data_dir: str | Path | None = None, download: bool = True) -> Path:
    """A file of a set, fetched first if it is missing and `download` allows it."""
    source = get(name)
    part, file = next((d, f) for d in source.downloads for f in d.files if f.name == file_name)
    path = locate(source, file, data_dir)
    if path is None and not download:
        folder = set_folder(name, data_dir)
        raise HitNetError(
            f"{source.title}: {file.name} is missing. Put it into {folder} (from {part.urls[0]}), "
            "allow the download, or name the folder that holds your sets with data_dir or $HITNET_DATA."
        )
    if path is None:
        _fetch(source, part, data_dir)
        path = set_folder(name, data_dir) / file.name
    return path


def original_affnist(data_dir: str | Path | None = None) -> list[Path]:
    """The original affNIST test files that a user has: test.mat, or else the batches."""
    folder = set_folder("affnist", data_dir)
    if (whole := folder / "test.mat").is_file():
        return [whole]
    return sorted((folder / "test_batches").glob("*.mat"), key=lambda path: natural(path.name))


def fetch(name: str, data_dir: str | Path | None = None) -> Path:
    """Fetch what a set lacks; the folder that its files lie in."""
    source = get(name)
    if source is SAMPLE:
        return SAMPLE_FOLDER
    owner = MNIST if source is AFFNIST else source
    for part in owner.downloads:
        if any(locate(owner, file, data_dir) is None for file in part.files):
            _fetch(owner, part, data_dir)
    found = locate(owner, owner.files[0], data_dir)
    return set_folder(owner.name, data_dir) if found is None else found.parent


def check(name: str, data_dir: str | Path | None = None) -> tuple[FileState, ...]:
    """The state of each file that a set is read from."""
    source = get(name)
    if source is SAMPLE:
        return tuple(_state(file, SAMPLE_FOLDER / file.name) for file in MNIST.files if file.name.startswith("t10k"))
    owner = MNIST if source is AFFNIST else source
    folder = set_folder(owner.name, data_dir)
    states = [_state(file, locate(owner, file, data_dir) or folder / file.name) for file in owner.files]
    if source is AFFNIST:
        states += [_state(File(path.name, "affnist"), path) for path in original_affnist(data_dir)]
    return tuple(states)


def _fetch(source: Source, part: Download, data_dir: str | Path | None) -> None:
    folder = set_folder(source.name, data_dir)
    if part.archive is None:
        fetch_file(part.urls, folder / part.files[0].name, md5=part.md5)
        return
    archive = folder / part.archive
    brought = archive.is_file()
    if not brought:
        fetch_file(part.urls, archive, md5=part.md5)
    extract(archive, [file.name for file in part.files], folder)
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
    else:
        read_idx(path, ndim=int(file.kind[-1]))
