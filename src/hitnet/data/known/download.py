"""Download a file from the first mirror that works, check it, and write it whole or not at all."""

from __future__ import annotations

import gzip
import http.client
import sys
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, cast

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from hitnet.errors import HitNetError
from hitnet.runtime.files import replacing

TIMEOUT = 30.0  # seconds without an answer
LARGEST = 2 << 30  # bytes of a download
LARGEST_MEMBER = 1 << 28  # bytes of one file in an archive
BLOCK = 1 << 18


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

    Args:
        archive: The file.
        wanted: Whether to read the file at a path of the archive. Links are never read: they could lead out of it.
        origin: The address that it has just been fetched from, if it is not kept. None: the user can delete the file.
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
    """Copy the URL's bytes to `path`, with a progress bar on a terminal."""
    total = 0
    request = urllib.request.Request(url, headers={"User-Agent": "hitnet"})
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    bar = Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer, path.open("wb") as out, bar:
            size = answer.headers.get("Content-Length", "")
            task = bar.add_task(url.rsplit("/", 1)[-1], total=int(size) if size.isdigit() else None)
            while block := answer.read(BLOCK):
                total += len(block)
                if total > LARGEST:
                    raise _MirrorError(f"it sends more than {LARGEST:,} bytes")
                out.write(block)
                bar.advance(task, len(block))
    # A broken connection raises one of several kinds of error.
    except (OSError, ValueError, http.client.HTTPException) as error:
        code = f"HTTP {error.code} " if isinstance(error, urllib.error.HTTPError) else ""
        reason = str(getattr(error, "reason", None) or error) or type(error).__name__
        raise _MirrorError(f"{code}{reason}") from error
