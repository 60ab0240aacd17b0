"""Decoded images in a temporary file, so that trainings on streamed files decode each of them in one epoch only.

The file belongs to one training or one audit. It has no name, so the system removes it when the process ends, however
it ends. It takes at most half of the free disk; images for which there is no room are decoded in every epoch.
"""

import math
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from zlib import crc32

import numpy as np

from hitnet.data.reading.decode import Pixels
from hitnet.data.reading.entries import Skipped
from hitnet.errors import HitNetError, log
from hitnet.runtime.files import cache_folder, tell_room

CAN_READ_AT = os.name != "nt"  # Windows cannot read at an offset while other threads do
ADVICE = (
    "The others are decoded in every epoch. "
    "Set the variable HITNET_CACHE to a folder that can be written and has more room."
)
FULL = f"No more decoded images are kept on disk: %s. {ADVICE}"


class PixelFile:
    """A temporary file in the cache folder that all image sets of one training share; OSError if there can be none."""

    def __init__(self) -> None:
        self.folder = cache_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = tempfile.TemporaryFile(dir=self.folder, buffering=0)  # noqa: SIM115
        # Decoding threads may outlive an interrupted training. Were the file closed before they end, they could write
        # into another one that is then opened under the same number.
        weakref.finalize(self, self.file.close)
        self.free = self._free()
        self.end, self.full, self.lock = 0, False, Lock()

    def store(self, count: int, shape: tuple[int, int, int]) -> "PixelStore":
        """Room for the decoded images of one set; disk space is only taken by those that are written."""
        self.end += count * math.prod(shape)
        tell_room("Decoded images", self.end, self.folder, ADVICE, free=self.free // 2)
        return PixelStore(self, self.end - count * math.prod(shape), count, shape)

    def read(self, size: int, offset: int) -> bytes:
        with suppress(OSError):
            return os.pread(self.file.fileno(), size, offset)
        return b""

    def write(self, content: memoryview, offset: int) -> bool:
        """Whether all of it could be written. Once there is no room, nothing more is, and a warning says so once."""
        if self.full:
            return False
        try:
            if self._free() - content.nbytes >= self.free // 2:
                return os.pwrite(self.file.fileno(), content, offset) == content.nbytes
            reason = f"half of the space that was free in {self.folder} is taken"
        except OSError as error:
            reason = f"{self.folder}: {error.strerror}"
        with self.lock:
            if not self.full:
                log.warning(FULL, reason)
            self.full = True
        return False

    def release(self) -> None:
        """Free the disk at once, even if something still refers to the file."""
        self.full = True
        with suppress(OSError):
            os.ftruncate(self.file.fileno(), 0)

    def _free(self) -> int:
        disk = os.fstatvfs(self.file.fileno())
        return disk.f_bavail * disk.f_frsize


class PixelStore:
    """The decoded images of one set, in a part of a file that starts at `start`."""

    def __init__(self, file: PixelFile, start: int, count: int, shape: tuple[int, int, int]) -> None:
        self.file, self.start, self.shape, self.size = file, start, shape, math.prod(shape)
        self.checksums = np.full(count, -1, np.int64)  # of the images that are kept; -1: not kept

    def get(self, place: int, decode: Callable[[], Pixels | Skipped]) -> Pixels | Skipped:
        """The image at a place of the set, decoded only if it is not kept or its bytes are no longer the same."""
        offset, expected = self.start + place * self.size, self.checksums[place]
        if expected >= 0 and crc32(content := self.file.read(self.size, offset)) == expected:
            return np.frombuffer(content, np.uint8).reshape(self.shape)
        pixels = decode()
        if not isinstance(pixels, Skipped) and self.file.write(pixels.data, offset):
            self.checksums[place] = crc32(pixels.data)
        return pixels


@contextmanager
def decoded_once() -> Iterator[PixelFile | None]:
    """A file for the decoded images of one training, or None where there can be none."""
    file = None
    try:
        file = PixelFile() if CAN_READ_AT else None
    except (OSError, HitNetError) as error:  # a read-only cache folder, or no home folder
        log.warning(FULL, error)
    try:
        yield file
    finally:
        if file is not None:
            file.release()
