"""One pass over image files: each is read once, for its checksum, its header and, unless they are kept, its features.

Threads read the files and decode what is new; the features follow in the files' order and are kept shard by shard, so
that a pass that is killed resumes at the last of them. Files of equal content are computed once.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from statistics import median
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hitnet.data.reading.decode import Header, decode, fetched, header, refusal
from hitnet.data.reading.entries import Entry, Lazy, Skipped
from hitnet.data.reading.findings import Findings
from hitnet.data.reading.stored import AnyFile, UnreadableImageError, as_file, file_key
from hitnet.errors import HitNetError
from hitnet.features.cache import KEY_BYTES, FeatureCache, kept_features
from hitnet.features.extraction import Extractor
from hitnet.features.photographs import Jpeg, gpu_jpeg, read
from hitnet.models.backbones import Backbone
from hitnet.runtime.device import Device
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import SINGLE, Ranks
from hitnet.runtime.threads import in_threads, thread_count

# Files that may be read, and decoded unless a GPU does it, before the network asks for them: a GPU takes 256 at a time.
AHEAD = {"cpu": 64, "cuda": 1024}
# For a GPU, the first of so many files tell how long one takes. Threads that look at more files than the rest of the
# program can take in a second only make it wait for the interpreter's lock.
STRETCH, FIRST, TAKEN = 4096, 16, 5000
PER_SHARD = 1024  # images whose features are lost at most when a pass is killed


def cached_features(
    paths: Sequence[str | AnyFile],
    backbone: Backbone,
    *,
    device: Device = "cpu",
    folder: str | Path | None = None,
    out: str | Path | None = None,
    progress: Progress = Progress(),
    ranks: Ranks = SINGLE,
) -> Tensor:
    """Features of image files (N, D) in float16, computed only for files that the cache does not hold.

    A file that cannot be read as an image raises HitNetError.

    Args:
        paths: Image files.
        backbone, device: See `Extractor`.
        folder: Of the cache; None: `cache_folder()`.
        out: See `kept_features`.
        progress: Called for each file whose features are known.
        ranks: Processes that share the work, and the cache's folder. Only the first writes `out`.
    """
    files = Lazy(lambda place: Entry(str(paths[place]), as_file(paths[place])), range(len(paths)))
    look = OnePass(backbone, device=device, folder=folder, progress=progress, ranks=ranks)
    findings = look(files, np.ones(len(paths), np.bool_))
    for place, odd in (findings.unreadable | findings.undecodable).items():
        raise refusal(paths[place], odd.reason)
    return kept_features(findings.checksums, backbone, folder=folder, out=out, ranks=ranks)


class _Sight(NamedTuple):
    """What is known of one file: its header, its checksum, and the image or, as a text, why it has none."""

    header: Header | Skipped
    key: bytes = b""
    image: Tensor | Jpeg | str | None = None  # None: its features are kept, under way, or not wanted


class OnePass:
    """A look at files (see `hitnet.data.reading.findings.Look`) that keeps their features.

    Args:
        backbone: Whose features. None: files are decoded only to see whether that is possible.
        device, folder, progress, ranks: See `cached_features`.
    """

    def __init__(
        self,
        backbone: Backbone | None,
        *,
        device: Device = "cpu",
        folder: str | Path | None = None,
        progress: Progress = Progress(),
        ranks: Ranks = SINGLE,
    ) -> None:
        self.backbone, self.device, self.progress = backbone, torch.device(device), progress
        self.folder, self.ranks = folder, ranks

    def __call__(self, entries: Sequence[Entry], whole: npt.NDArray[np.bool_]) -> Findings:
        rank, size = self.ranks.rank, self.ranks.size
        if self.ranks.from_first(lambda: len(entries)) != len(entries):
            raise HitNetError(f"Process {rank} sees other files than process 0. Give all the same data.")
        self.total, self.own, self.done = int(whole.sum()), int(whole[rank::size].sum()), 0
        self.progress.part("features", self.total, "images")
        self.entries, self.places = entries, range(rank, len(entries), size)
        self.findings = Findings(whole, np.zeros(len(entries), f"V{KEY_BYTES}"))
        self.cache = None if self.backbone is None else FeatureCache.of(self.backbone, self.folder)
        self.lock, self.seen = Lock(), set[bytes]()
        self.waiting: deque[tuple[bytes, Tensor | Jpeg]] = deque()
        self.odd: dict[bytes, str] = {}  # why contents cannot be decoded
        self._keep_features(self._missing())
        for place in self.places if self.odd else ():
            if (reason := self.odd.get(self.findings.checksums[place].tobytes())) is not None:
                self.findings.undecodable[place] = Skipped(entries[place].path, reason)
        return self.findings.joined(self.ranks)

    def _keep_features(self, images: Iterator[Tensor | Jpeg]) -> None:
        """Compute the features of images that come, and keep them."""
        first = next(images, None)
        if first is None or self.backbone is None or self.cache is None:
            return
        self.cache.check_writable(len(self.entries) if self.ranks.first else 0)  # one process tells the room
        parts = Extractor(self.backbone, device=self.device).run(chain([first], images))
        with ThreadPoolExecutor(1) as writer:  # a disk may take as long as the network
            written: Future[None] | None = None
            for shard in self._shards(parts):
                if written is not None:
                    written.result()
                written = writer.submit(self.cache.add, *shard)
            if written is not None:
                written.result()

    def _shards(self, parts: Iterator[Tensor]) -> Iterator[tuple[list[bytes], Tensor]]:
        """The keys and the features of the images that are kept in one file."""
        keys, rows = list[bytes](), list[Tensor]()
        for part in parts:
            sound = []
            for i in range(len(part)):
                key, image = self.waiting.popleft()
                if isinstance(image, Jpeg) and image.odd:
                    self.odd[key] = image.odd
                else:
                    sound.append(i)
                    keys.append(key)
            rows.append(part[sound])
            if len(keys) >= PER_SHARD:
                yield keys, torch.cat(rows)
                keys, rows = [], []
            self._step(len(part))
        if keys:
            yield keys, torch.cat(rows)

    def _missing(self) -> Iterator[Tensor | Jpeg]:
        """The images whose features are to be computed; notes all else on the way."""
        for place, sight in zip(self.places, self._sights(), strict=True):
            self.findings.note(place, sight.header, sight.key)
            if isinstance(sight.image, Tensor | Jpeg):
                self.waiting.append((sight.key, sight.image))
                yield sight.image
                continue
            if sight.image is not None:
                self.odd[sight.key] = sight.image
            if self.findings.decoded[place]:
                self._step()

    def _step(self, count: int = 1) -> None:
        """Tell the progress of all processes, as that of this one."""
        before = self.total * self.done // self.own
        self.done += count
        self.progress.step(self.total * self.done // self.own - before)

    def _sights(self) -> Iterator[_Sight]:
        """What is known of each file, in their order."""
        look = partial(in_threads, self._look, ahead=AHEAD[self.device.type])
        if self.device.type == "cpu":
            yield from look(self.places)
            return
        for start in range(0, len(self.places), STRETCH):
            stretch, seconds = self.places[start : start + STRETCH], list[float]()
            for place in stretch[:FIRST]:
                began = time.perf_counter()
                sight = self._look(place)
                seconds.append(time.perf_counter() - began)
                yield sight
            threads = min(thread_count(), max(1, round(median(seconds) * TAKEN)))
            yield from look(stretch[FIRST:], threads=threads)

    def _look(self, place: int) -> _Sight:
        path, file = self.entries[place]
        try:
            if not self.findings.decoded[place]:
                return _Sight(header(file))
            stored, file = file, fetched(file)
            large = file is stored  # and may change while it is read: its checksum is compared once it is decoded
            jpeg = None if large else gpu_jpeg(file, self.device)
            key = file_key(file)
            sight = _Sight(header(file) if jpeg is None else jpeg.header, key)
        except UnreadableImageError as error:
            return _Sight(Skipped(path, str(error)))
        with self.lock:
            new = key not in self.seen
            self.seen.add(key)
        if not new or (self.cache is not None and key in self.cache):
            return sight
        try:
            if self.backbone is None:
                decode(file, (1, 1, 1))
            else:
                sight = sight._replace(image=jpeg or read(file, self.backbone.input_size))
            if large and file_key(file) != key:
                raise UnreadableImageError("it changed while it was read")
        except UnreadableImageError as error:
            return sight._replace(image=str(error))
        return sight
