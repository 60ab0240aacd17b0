"""The known sets of sets.toml and their files: where they are, whether they are sound, and how to download them."""

import gzip
import hashlib
import http.client
import os
import tarfile
import tomllib
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

from hitnet.data.known.makers import read_cifar, read_idx, read_svhn
from hitnet.data.split import NAMES
from hitnet.errors import HitNetError, unknown_name
from hitnet.runtime.bar import shown
from hitnet.runtime.files import cache_folder, expand, new_folder, replacing
from hitnet.runtime.locks import taking_turns

TIMEOUT = 30.0  # seconds without an answer
LARGEST = 2 << 30  # bytes of a download
LARGEST_MEMBER = 1 << 28  # bytes of one file in an archive
BLOCK = 1 << 18


@dataclass(frozen=True)
class KnownSet:
    """A set that is known by name."""

    name: str  # to open it by
    title: str  # what to call it in tables
    about: str  # one line for the list of datasets
    page: str
    licence: str
    classes: Sequence[str]
    flip: bool = False  # whether a mirrored image still belongs to its class
    mirrors: Sequence[str] = ()  # addresses that its files lie below; the first that works is used
    files: Mapping[str, str] = field(default_factory=dict)  # the checksum of each file, by its name
    archive: Mapping[str, str] = field(default_factory=dict)  # name and checksum of what the files come in, if they do
    also: Sequence[str] = ()  # other folders where its files may lie
    package: str = ""  # the folder of files that ship with hitnet, beside sets.toml


FACTS = Path(__file__).with_name("sets.toml")
KNOWN_SETS = {name: KnownSet(name, **facts) for name, facts in tomllib.loads(FACTS.read_text(encoding="utf-8")).items()}


def known_set(name: str) -> KnownSet:
    """The known set of this name; raises HitNetError for an unknown name."""
    if name not in KNOWN_SETS:
        raise unknown_name("dataset", name, KNOWN_SETS)
    return KNOWN_SETS[name]


@dataclass(frozen=True)
class FileState:
    """The state of one file of a set: where it lies or would lie, its size in bytes, and what to do about it."""

    name: str
    path: Path
    state: str  # "ok" (the original's checksum), "other" (another checksum, but readable), "damaged" or "missing"
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
    """The files of one known set, below the data folder `root` or, if they ship with it, in the package."""

    dataset: KnownSet
    root: Path

    @property
    def folder(self) -> Path:
        packaged = self.dataset.package
        return FACTS.parent / packaged if packaged else self.root / self.dataset.name

    def find(self, name: str, *, download: bool = True) -> Path:
        """A file of the set, fetched first if it is missing and `download` allows it."""
        path, source = self.locate(name), next(iter(self.dataset.archive), name)
        if path is None and not download:
            url = f"{self.dataset.mirrors[0]}{source}"
            raise HitNetError(
                f"{self.dataset.title}: {name} is missing. Put it into {self.folder} (from {url}), "
                "allow the download, or name the folder that holds your sets with `data_dir` or $HITNET_DATA."
            )
        if path is None:
            self._fetch(source)
            path = self.folder / name
        return path

    def locate(self, name: str) -> Path | None:
        """The file, packed or unpacked, if it lies in the set's folder or in one of its other folders."""
        folders = (self.folder, *map(Path, self.dataset.also))
        names = (name, name.removesuffix(".gz"))
        return next((path for folder in folders for name in names if (path := folder / name).is_file()), None)

    def fetch(self) -> Path:
        """Fetch the files that are missing; returns the folder that they lie in."""
        if self.dataset.archive and not self.dataset.files:
            if not self.folder.is_dir():
                self._fetch_photographs()
            return self.folder
        paths = [self.find(name) for name in self.dataset.files if self.dataset.mirrors]
        return paths[0].parent if paths else self.folder

    def check(self) -> tuple[FileState, ...]:
        """The state of each file that the set is read from."""
        files = self.dataset.files.items()
        return tuple(_state(name, self.locate(name) or self.folder / name, checksum) for name, checksum in files)

    def _fetch(self, name: str) -> None:
        """Fetch a file or the archive of all, unless another process, for example of torchrun, has just done it."""
        archived = list(self.dataset.files) if name in self.dataset.archive else []
        with taking_turns(self.folder / ".fetching"):
            if all(self.locate(file) is not None for file in archived or [name]):
                return
            target = self.folder / name
            brought = target.is_file()
            if not brought:
                urls = [mirror + name for mirror in self.dataset.mirrors]
                checksum = {**self.dataset.files, **self.dataset.archive}[name]
                fetch_file(urls, target, is_sound=partial(has_checksum, checksum=checksum))
            if archived:
                extract(target, archived, self.folder)
                if not brought:
                    target.unlink()

    def _fetch_photographs(self) -> None:
        """Fetch an archive of <split>/<class>/<name>.jpg; nothing is written unless all are there and as they were."""
        [(name, checksum)] = self.dataset.archive.items()
        urls, known = [mirror + name for mirror in self.dataset.mirrors], self.dataset.classes

        def is_photograph(path: PurePosixPath) -> bool:
            parts = path.parts[1:]
            return len(parts) == 3 and parts[0] in NAMES and parts[1] in known and path.suffix == ".jpg"

        with taking_turns(self.folder.with_name(f".{self.folder.name}.fetching")):
            if self.folder.is_dir():
                return
            with new_folder(self.folder) as folder:
                fetch_file(urls, folder / name)
                for path, content in archive_files(folder / name, is_photograph, origin=urls[0]):
                    place = folder.joinpath(*path.parts[1:])
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(content)
                (folder / name).unlink()
                if content_hash(folder) != checksum:
                    raise HitNetError(
                        f"{urls[0]} does not hold the photographs that are known as `{self.dataset.name}`. "
                        f"Clone {self.dataset.page} and give its folder instead of the name."
                    )


def content_hash(folder: Path) -> str:
    """A checksum of the paths and contents of all photographs below a folder."""
    digest = hashlib.sha256()
    for path in sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg")):
        digest.update(f"{path} {hashlib.sha256((folder / path).read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def has_checksum(path: Path, checksum: str) -> bool:
    """Whether a file is the one that its makers published (see sets.toml)."""
    kind = "md5" if len(checksum) == 32 else "sha256"
    unpack = gzip.open if kind == "sha256" and path.suffix == ".gz" else open
    try:
        with unpack(path, "rb") as content:
            return hashlib.file_digest(content, kind).hexdigest() == checksum  # type: ignore[arg-type]
    except (OSError, EOFError, zlib.error):
        return False


def _state(name: str, path: Path, checksum: str) -> FileState:
    if not path.is_file():
        return FileState(name, path, "missing", note="it is fetched when the set is first read")
    size = path.stat().st_size
    if has_checksum(path, checksum):
        return FileState(name, path, "ok", size)
    try:
        if name.endswith(".mat"):
            read_svhn(path)
        elif name.endswith(".bin"):
            read_cifar([path])
        elif name.endswith(".zip"):
            raise HitNetError("its checksum is wrong; install hitnet again")
        else:
            read_idx(path, ndim=3 if "idx3" in name else 1)
    except HitNetError as error:
        return FileState(name, path, "damaged", size, str(error))
    return FileState(name, path, "other", size, "its checksum is not the known one, but it can be read")


class _MirrorError(Exception):
    """Why a download from one mirror failed; the next mirror is tried."""


def fetch_file(urls: Sequence[str], target: Path, *, is_sound: Callable[[Path], bool] | None = None) -> None:
    """Download `target` from the first URL that works, and that sends what `is_sound` accepts."""
    failures = []
    for url in urls:
        try:
            with replacing(target) as temporary:
                _transfer(url, temporary)
                if is_sound is not None and not is_sound(temporary):
                    raise _MirrorError("it sends another file: the checksum is not the known one")
            return
        except _MirrorError as error:
            failures.append(f"  {url}: {error}")
    raise HitNetError(
        f"{target.name} could not be fetched:\n" + "\n".join(failures) + "\n"
        f"Fetch it by other means from one of these addresses and put it at {target}."
    )


def archive_files(
    archive: Path, wanted: Callable[[PurePosixPath], bool], *, origin: str | None = None
) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield path and content of the wanted files of a .tar.gz archive; at the end, check the archive's checksum.

    Links are never read: they could lead out of it. `origin` is the address of an archive that is not kept.
    """
    try:
        with gzip.open(archive) as stream:
            with tarfile.open(fileobj=cast(IO[bytes], stream)) as tar:
                for member in tar:
                    path = PurePosixPath(member.name)
                    if member.isfile() and member.size <= LARGEST_MEMBER and wanted(path):
                        yield path, cast(IO[bytes], tar.extractfile(member)).read()
            while stream.read(BLOCK):  # the checksum is compared at the end
                pass
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        advice = "Delete it and fetch it again." if origin is None else "Try again later."
        raise HitNetError(f"{origin or archive} cannot be unpacked: {error}. {advice}") from error


def extract(archive: Path, members: Sequence[str], folder: Path) -> None:
    """Unpack the named files of an archive into `folder`, from whichever folder of the archive they are in.

    Nothing is written unless the archive holds them all and is undamaged.
    """
    contents = {path.name: content for path, content in archive_files(archive, lambda path: path.name in members)}
    if lacking := sorted(set(members) - set(contents)):
        raise HitNetError(f"{archive} lacks {', '.join(lacking)}. Delete it and fetch it again.")
    for name, content in contents.items():
        with replacing(folder / name) as temporary:
            temporary.write_bytes(content)


def _transfer(url: str, path: Path) -> None:
    """Copy the URL's bytes to `path`, with a progress bar."""
    request = urllib.request.Request(url, headers={"User-Agent": "hitnet"})
    try:
        with (
            urllib.request.urlopen(request, timeout=TIMEOUT) as answer,
            path.open("wb") as out,
            shown(True, url) as bar,
        ):
            size = answer.headers.get("Content-Length", "")
            bar.part("download", int(size) if size.isdigit() else None, "bytes")
            while block := answer.read(BLOCK):
                out.write(block)
                bar.step(len(block))
                if out.tell() > LARGEST:
                    raise _MirrorError(f"it sends more than {LARGEST:,} bytes")
    # A broken connection raises one of several kinds of error.
    except (OSError, ValueError, http.client.HTTPException) as error:
        code = f"HTTP {error.code} " if isinstance(error, urllib.error.HTTPError) else ""
        reason = str(getattr(error, "reason", None) or error) or type(error).__name__
        raise _MirrorError(f"{code}{reason}") from error
