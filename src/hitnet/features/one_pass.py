"""One pass over image files: each is read once, for its checksum, its header and, unless they are kept, its features.

Threads read the files and decode what is new; the features follow in the files' order and are kept shard by shard, so
that a pass that is killed resumes at the last of them. Files of equal content are computed once.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from hitnet.data.reading.decode import Header, decode, fetched, header, refusal
from hitnet.data.reading.entries import Entry, Lazy, Skipped
from hitnet.data.reading.findings import Findings
from hitnet.data.reading.stored import AnyFile, UnreadableImageError, as_file
from hitnet.errors import HitNetError
from hitnet.features.cache import KEY_BYTES, FeatureCache, file_key, kept_features
from hitnet.features.extraction import Extractor
from hitnet.features.photographs import Jpeg, prepared
from hitnet.models.backbones import Backbone
from hitnet.runtime.progress import Progress
from hitnet.runtime.ranks import SINGLE, Ranks
from hitnet.runtime.threads import in_threads

AHEAD = 64  # files that may be read and decoded before the network asks for them
PER_SHARD = 1024  # images whose features are lost at most when a pass is killed


def cached_features(
    paths: Sequence[str | AnyFile],
    backbone: Backbone,
    *,
    device: torch.device | str = "cpu",
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
    look = OnePass(backbone, device, folder, progress, ranks, strict=True)
    found = look(files, np.ones(len(paths), np.bool_))
    assert found.checksums is not None  # every file was read
    return kept_features(found.checksums, backbone, folder=folder, out=out, ranks=ranks)


@dataclass(frozen=True)
class OnePass:
    """Looks at files once (see `hitnet.data.reading.findings.Look`), and keeps their features.

    Attributes:
        backbone: Whose features. None: files are decoded only to see whether that is possible.
        device, folder, progress, ranks: See `cached_features`.
        strict: Raise HitNetError at the first file that is no image.
    """

    backbone: Backbone | None
    device: torch.device | str = "cpu"
    folder: str | Path | None = None
    progress: Progress = field(default_factory=Progress)
    ranks: Ranks = SINGLE
    strict: bool = False

    def __call__(self, entries: Sequence[Entry], whole: npt.NDArray[np.bool_]) -> Findings:
        if self.ranks.from_first(lambda: len(entries)) != len(entries):
            raise HitNetError(f"Process {self.ranks.rank} sees other files than process 0. Give all the same data.")
        self.progress.part("features", int(whole[self.ranks.rank :: self.ranks.size].sum()), "images")
        work = _Pass(self, entries, Findings(whole, np.zeros(len(entries), f"V{KEY_BYTES}")))
        work.run()
        return _joined(work.found, self.ranks)


class _Sight(NamedTuple):
    """What is known of one file: its header, its checksum, and the image or, as a text, why it has none."""

    header: Header | Skipped
    key: bytes = b""
    image: Tensor | Jpeg | str | None = None  # None: its features are kept, under way, or not wanted


class _Pass:
    """The part of one process in a pass."""

    def __init__(self, about: OnePass, entries: Sequence[Entry], found: Findings) -> None:
        self.about, self.entries, self.found = about, entries, found
        self.cache = None if about.backbone is None else FeatureCache.of(about.backbone, about.folder)
        self.places = range(about.ranks.rank, len(entries), about.ranks.size)
        self.lock, self.seen = Lock(), set[bytes]()
        self.waiting: deque[tuple[bytes, Tensor | Jpeg]] = deque()
        self.reasons: dict[bytes, str] = {}  # why contents cannot be decoded

    def run(self) -> None:
        images = self.missing()
        first = next(images, None)
        if first is not None and self.cache is not None and self.about.backbone is not None:
            self.cache.check_writable()
            keys, rows = list[bytes](), list[Tensor]()
            for part in Extractor(self.about.backbone, device=self.about.device).run(chain([first], images)):
                for row in part:
                    key, image = self.waiting.popleft()
                    if isinstance(image, Jpeg) and image.odd:
                        self.refuse(key, image.file, image.odd)
                    else:
                        keys.append(key)
                        rows.append(row)
                if len(keys) >= PER_SHARD:
                    self.cache.add(keys, torch.stack(rows))
                    keys, rows = [], []
                self.about.progress.step(len(part))
            if keys:
                self.cache.add(keys, torch.stack(rows))
        for place in self.places if self.reasons else ():
            reason = self.reasons.get(self.found.key(place))
            if reason is not None:
                self.found.undecodable[place] = Skipped(self.entries[place].path, reason)

    def missing(self) -> Iterator[Tensor | Jpeg]:
        """The images whose features are to be computed; notes all else on the way."""
        for place, sight in zip(self.places, in_threads(self.look, self.places, ahead=AHEAD), strict=True):
            self.found.note(place, sight.header, sight.key)
            if isinstance(sight.header, Skipped):
                self.refuse(b"", self.entries[place].file, sight.header.reason)
            elif isinstance(sight.image, str):
                self.refuse(sight.key, self.entries[place].file, sight.image)
            elif sight.image is not None:
                self.waiting.append((sight.key, sight.image))
                yield sight.image
                continue
            if self.found.decoded[place]:
                self.about.progress.step()

    def refuse(self, key: bytes, file: AnyFile, reason: str) -> None:
        if self.about.strict:
            raise refusal(file, reason)
        if key:
            self.reasons[key] = reason

    def look(self, place: int) -> _Sight:
        path, file = self.entries[place]
        try:
            if not self.found.decoded[place]:
                return _Sight(header(file))
            file = fetched(file)
            head, key = header(file), file_key(file)
        except UnreadableImageError as error:
            return _Sight(Skipped(path, str(error)))
        try:
            return _Sight(head, key, self.image(file) if self.is_new(key) else None)
        except UnreadableImageError as error:
            return _Sight(head, key, str(error))

    def is_new(self, key: bytes) -> bool:
        with self.lock:
            first = key not in self.seen
            self.seen.add(key)
        return first and (self.cache is None or key not in self.cache)

    def image(self, file: AnyFile) -> Tensor | Jpeg | None:
        if self.about.backbone is not None:
            return prepared(file, self.about.backbone.input_size, torch.device(self.about.device))
        decode(file, (1, 1, 1))
        return None


def _joined(found: Findings, ranks: Ranks) -> Findings:
    """What all processes found."""
    if ranks.size == 1:
        return found
    sums = found.checksums
    assert sums is not None
    mine = sums[ranks.rank :: ranks.size], found.headers, found.unreadable, found.undecodable
    parts = ranks.gather({ranks.rank: mine})
    joined = Findings(found.decoded, sums)
    for rank, (own, headers, unreadable, undecodable) in parts.items():
        sums[rank :: ranks.size] = own
        joined.headers += headers
        joined.unreadable |= unreadable
        joined.undecodable |= undecodable
    return replace(
        joined, unreadable=dict(sorted(joined.unreadable.items())), undecodable=dict(sorted(joined.undecodable.items()))
    )
