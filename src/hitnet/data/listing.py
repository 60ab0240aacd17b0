"""A list of image files and their labels, and how it becomes images; folders and tables both end here."""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch

from hitnet.data import decode
from hitnet.data.entries import Entries, Entry
from hitnet.data.images import Images
from hitnet.data.split import even_draw, natural, no_images
from hitnet.errors import HitNetError

log = logging.getLogger("hitnet")
LONGEST_SIDE = 64
OUTSIDE = "images outside the class folders"
KINDS_SHOWN = 10
AHEAD = 4096  # files that threads may have read before they are asked for
LARGEST_HANDFUL = 16
T = TypeVar("T")


@dataclass(frozen=True)
class Skipped:
    """Something that was left out of a set, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Report:
    """What reading a source gave.

    images   the set
    skipped  files, folders and rows that should have given images but did not
    ignored  how many files were passed over, by suffix, and how many images outside the class folders; those of them
             that are pictures are among `skipped` too
    """

    images: Images
    skipped: tuple[Skipped, ...] = ()
    ignored: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Listing:
    name: str
    entries: Entries
    skipped: tuple[Skipped, ...] = ()
    ignored: dict[str, int] = field(default_factory=dict)


def in_words(ignored: dict[str, int]) -> str:
    """As in "5 .heic, 1 image outside the class folders"; of many suffixes the commonest."""
    kinds = sorted(ignored.keys() - {OUTSIDE}, key=lambda kind: (-ignored[kind], kind))
    words = [f"{ignored[kind]} {kind}" for kind in kinds[:KINDS_SHOWN]]
    if more := sum(ignored[kind] for kind in kinds[KINDS_SHOWN:]):
        words.append(f"{more} of other types")
    if outside := ignored.get(OUTSIDE, 0):
        words.append(f"{outside} {OUTSIDE if outside > 1 else OUTSIDE.replace('images', 'image')}")
    return ", ".join(words)


@dataclass(frozen=True)
class Survey:
    """What the headers of a listing's files say: the classes, the images of one split and the shape to read them at."""

    listing: Listing
    split: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    sound: Entries
    chosen: Entries
    skipped: tuple[Skipped, ...]
    strict: bool

    def other(self, split: str) -> Survey:
        """Another split of the same files; what was ignored, or left out for its header, is not told a second time."""
        chosen = _choose(self.listing, self.sound, split)
        return replace(self, listing=replace(self.listing, ignored={}), split=split, chosen=chosen, skipped=())

    def without(self, lost: Sequence[Skipped]) -> tuple[Skipped, ...]:
        """All that is left out once `lost` could not be decoded; an error if it is too much."""
        skipped = [*self.skipped, *lost]
        _stop_if_strict(self.listing, skipped, strict=self.strict)
        if len(lost) == len(self.chosen):
            none = f"{self.listing.name}: none of its {len(self.chosen)} {self.split} images can be read."
            raise HitNetError(f"{none} {_first(lost)}")
        return tuple(skipped)

    def labels(self, entries: Entries) -> npt.NDArray[np.int64]:
        index = {label: k for k, label in enumerate(self.classes)}
        codes = np.array([index.get(label, -1) for label in entries.classes], np.int64)
        return codes[entries.labels]


def survey(
    listing: Listing,
    split: str,
    *,
    limit: int | None = None,
    image_size: tuple[int, int] | None = None,
    strict: bool = False,
) -> Survey:
    """Look at the headers of all files, and for one image of each class that can be decoded.

    Size, colour and classes come from the whole listing, so that every split has the same.
    """
    skipped = list(listing.skipped)
    entries = listing.entries
    good = np.zeros(len(entries), np.bool_)
    headers: Counter[decode.Header] = Counter()
    for i, found in enumerate(in_threads(_header, entries)):
        if isinstance(found, Skipped):
            skipped.append(found)
        else:
            headers[found] += 1
            good[i] = True
    for own, reasons in _without_pixels(entries, np.flatnonzero(good)):
        good[own] = False
        skipped += reasons
    good_classes = entries.label_names(good)
    lost = sorted(entries.label_names() - good_classes, key=natural)
    skipped += [Skipped(label, "no image of this class can be read") for label in lost]
    _stop_if_strict(listing, skipped, strict=strict)
    names = tuple(sorted(good_classes, key=natural))
    _need_two_classes(listing, names, skipped)
    shape = _common_shape(listing.name, headers, image_size)
    sound = entries.take(good)
    chosen = _choose(listing, sound, split, limit)
    return Survey(listing, split, names, shape, sound, chosen, tuple(skipped), strict)


def _without_pixels(
    entries: Entries, places: npt.NDArray[np.int64]
) -> Iterator[tuple[npt.NDArray[np.int64], list[Skipped]]]:
    """The places of each class of which no image can be decoded, though the headers there are sound, and why."""
    labels = entries.labels[places]
    known, first = np.unique(labels, return_index=True)
    for label, one in zip(known, in_threads(_glance, entries.take(places[first])), strict=True):
        if isinstance(one, Skipped):
            own, reasons = places[labels == label], []
            for other in in_threads(_glance, entries.take(own), ahead=2 * thread_count()):
                if not isinstance(other, Skipped):
                    break
                reasons.append(other)
            else:
                yield own, reasons


def _choose(listing: Listing, sound: Entries, split: str, limit: int | None = None) -> Entries:
    chosen = sound.take(sound.in_split(split))
    if not len(chosen):
        raise no_images(listing.name, split)
    return chosen if limit is None else chosen.take(np.array(even_draw(chosen.paths, limit)))


def read_survey(found: Survey) -> Report:
    """Decode the images that a survey chose."""
    pixels = np.empty((len(found.chosen), *found.shape), np.uint8)
    kept, lost = np.ones(len(pixels), np.bool_), []
    for i, one in enumerate(in_threads(lambda entry: pixels_of(entry, found.shape), found.chosen)):
        if isinstance(one, Skipped):
            lost.append(one)
            kept[i] = False
        else:
            pixels[i] = one
    skipped = found.without(lost)
    entries = found.chosen.take(kept) if lost else found.chosen
    images = Images.from_arrays(
        pixels[kept] if lost else pixels,
        found.labels(entries),
        class_names=found.classes,
        name=found.listing.name,
        paths=list(entries.paths),
    )
    return Report(replace(images, ids=torch.from_numpy(entries.ids)), skipped, found.listing.ignored)


def thread_count() -> int:
    return min(16, (os.cpu_count() or 1) + 2)


def in_threads(work: Callable[[Entry], T], entries: Iterable[Entry], *, ahead: int = AHEAD) -> Iterator[T]:
    """What `work` makes of each entry, in their order, by threads that stay at most `ahead` entries ahead.

    Pillow lets go of the interpreter while it decodes, so threads are enough.
    """
    threads = thread_count()
    # Small images take less time than handing them over one by one would.
    size = max(1, min(LARGEST_HANDFUL, ahead // (2 * threads)))
    rest = iter(entries)
    handfuls = iter(lambda: list(islice(rest, size)), [])
    pool = ThreadPoolExecutor(threads)
    try:
        pending: deque[Future[list[T]]] = deque()
        for handful in islice(handfuls, ahead // size):
            pending.append(pool.submit(_each, work, handful))
        while pending:
            with decode.quiet():
                found = pending.popleft().result()
            for handful in islice(handfuls, 1):
                pending.append(pool.submit(_each, work, handful))
            yield from found
    finally:
        pool.shutdown(cancel_futures=True)


def _each(work: Callable[[Entry], T], entries: list[Entry]) -> list[T]:
    return [work(entry) for entry in entries]


def _header(entry: Entry) -> decode.Header | Skipped:
    try:
        return decode.header(entry.file)
    except decode.OddFileError as error:
        return Skipped(entry.path, str(error))


def _glance(entry: Entry) -> npt.NDArray[np.uint8] | Skipped:
    """Whether a picture can be decoded, at the size that costs least."""
    return pixels_of(entry, (1, 1, 1))


def pixels_of(entry: Entry, shape: tuple[int, int, int]) -> npt.NDArray[np.uint8] | Skipped:
    try:
        return decode.decode(entry.file, shape)
    except decode.OddFileError as error:
        return Skipped(entry.path, str(error))


def _common_shape(
    name: str, headers: Counter[decode.Header], image_size: tuple[int, int] | None
) -> tuple[int, int, int]:
    channels = 1 if all(h.grey for h in headers) else 3
    sizes: Counter[tuple[int, int]] = Counter()
    for h, count in headers.items():
        sizes[h.height, h.width] += count
    height, width = image_size or _typical_size(sizes)
    other = sum(count for size, count in sizes.items() if size != (height, width))
    if other:
        log.info(
            "%s: images are read at %d x %d (height x width); %d of %d have another size and are scaled "
            "to fit, centred on black.%s",
            name,
            height,
            width,
            other,
            headers.total(),
            "" if image_size else " Set image_size (--image-size) for another.",
        )
    return channels, height, width


def _typical_size(sizes: Counter[tuple[int, int]]) -> tuple[int, int]:
    """The size of most images or, where there is none, the median height and width; scaled down to LONGEST_SIDE."""
    [(common, count)] = sizes.most_common(1)
    height: float
    width: float
    if 2 * count > sizes.total():
        height, width = common
    else:
        height, width = np.median(np.repeat(list(sizes), list(sizes.values()), axis=0), axis=0).tolist()
    scale = min(1.0, LONGEST_SIDE / max(height, width))
    return max(1, round(height * scale)), max(1, round(width * scale))


def _need_two_classes(listing: Listing, names: tuple[str, ...], skipped: list[Skipped]) -> None:
    if len(names) > 1:
        return
    found = f"has one class only, {names[0]!r}; at least two are needed" if names else "holds no image that can be read"
    ignored = f" Ignored: {in_words(listing.ignored)}." if listing.ignored else ""
    raise HitNetError(f"{listing.name} {found}.{ignored} {_first(skipped)}".rstrip())


def _stop_if_strict(listing: Listing, skipped: list[Skipped], *, strict: bool) -> None:
    if strict and skipped:
        raise HitNetError(f"{listing.name}: {skipped[0].path}: {skipped[0].reason}. Mend or remove it, or drop strict.")


def _first(skipped: Sequence[Skipped]) -> str:
    return f"The first left out: {skipped[0].path}: {skipped[0].reason}." if skipped else ""
