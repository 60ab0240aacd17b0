"""A survey of image files: classes, size, colour and splits, from the headers of the files."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch

from hitnet.data.images import Images
from hitnet.data.options import DataOptions
from hitnet.data.reading import decode
from hitnet.data.reading.entries import Entries, Entry
from hitnet.data.reading.skipped import Skipped, describe_skipped, stop_if_strict
from hitnet.data.reading.streamed import Pixels, Streamed, decoded, pixels_of, tried
from hitnet.data.split import even_draw, natural, no_images
from hitnet.errors import HitNetError
from hitnet.runtime.threads import in_threads, thread_count

log = logging.getLogger("hitnet")


@dataclass(frozen=True)
class Listing:
    """The image files that a folder or a table names, before any of them is opened, and what is left out already."""

    name: str
    entries: Entries
    skipped: tuple[Skipped, ...] = ()
    ignored: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Survey:
    """What the headers of a listing's files say.

    Attributes:
        listing: The files.
        split: The split that was asked for.
        classes: The classes of the whole listing, in natural order.
        shape: (C, H, W) to read the images at.
        sound: All files that can be used.
        chosen: Those of the split.
        skipped: What was left out so far.
        strict: Whether anything left out is an error.
    """

    listing: Listing
    split: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    sound: Entries
    chosen: Entries
    skipped: tuple[Skipped, ...]
    strict: bool

    def other(self, split: str) -> Survey:
        """Another split of the same files. What was left out so far is not reported again."""
        chosen = _choose(self.listing, self.sound, split)
        return replace(self, listing=replace(self.listing, ignored={}), split=split, chosen=chosen, skipped=())

    def without(self, lost: Sequence[Skipped]) -> tuple[Skipped, ...]:
        """Everything that is left out, with the undecodable `lost`; raises HitNetError if that is too much."""
        skipped = [*self.skipped, *lost]
        stop_if_strict(self.listing.name, skipped, strict=self.strict)
        if len(lost) == len(self.chosen):
            none = f"{self.listing.name}: none of its {len(self.chosen)} {self.split} images can be read."
            raise HitNetError(f"{none} {describe_skipped(lost, {})}")
        return tuple(skipped)

    def labels(self, entries: Entries) -> npt.NDArray[np.int64]:
        index = {label: k for k, label in enumerate(self.classes)}
        codes = np.array([index.get(label, -1) for label in entries.classes], np.int64)
        return codes[entries.labels]


def survey(listing: Listing, split: str, options: DataOptions) -> Survey:
    """Read the headers of all files, and look for one image of each class that can be decoded.

    Size, colour and classes come from the whole listing, so that they are the same for every split.
    """
    skipped = list(listing.skipped)
    entries = listing.entries
    good = np.zeros(len(entries), np.bool_)
    headers: Counter[decode.Header] = Counter()
    for i, header in enumerate(in_threads(lambda entry: tried(entry, decode.header), entries)):
        if isinstance(header, Skipped):
            skipped.append(header)
        else:
            headers[header] += 1
            good[i] = True
    for own, reasons in _without_pixels(entries, np.flatnonzero(good)):
        good[own] = False
        skipped += reasons
    good_classes = entries.label_names(good)
    lost = sorted(entries.label_names() - good_classes, key=natural)
    skipped += [Skipped(label, "no image of this class can be read") for label in lost]
    stop_if_strict(listing.name, skipped, strict=options.strict)
    names = tuple(sorted(good_classes, key=natural))
    if len(names) < 2:
        problem = f"has only one class, {names[0]!r}; at least two are needed" if names else "holds no readable image"
        raise HitNetError(f"{listing.name} {problem}. {describe_skipped(skipped, listing.ignored)}".rstrip())
    shape = _common_shape(listing.name, headers, options)
    sound = entries.take(good)
    chosen = _choose(listing, sound, split, options.limit)
    return Survey(listing, split, names, shape, sound, chosen, tuple(skipped), options.strict)


def read_survey(surveyed: Survey) -> tuple[Images, tuple[Skipped, ...]]:
    """Decode the images that a survey chose; returns them and everything that was left out."""
    pixels = np.empty((len(surveyed.chosen), *surveyed.shape), np.uint8)
    pictures = in_threads(lambda entry: pixels_of(entry, surveyed.shape), surveyed.chosen)
    kept, skipped = _use_each(surveyed, pictures, pixels.__setitem__)
    entries = surveyed.chosen if kept.all() else surveyed.chosen.take(kept)
    labels, names, paths = surveyed.labels(entries), surveyed.classes, list(entries.paths)
    pixels = pixels if kept.all() else pixels[kept]
    images = Images.from_arrays(pixels, labels, class_names=names, name=surveyed.listing.name, paths=paths)
    return replace(images, ids=torch.from_numpy(entries.ids)), skipped


def stream_survey(surveyed: Survey) -> tuple[Streamed, tuple[Skipped, ...]]:
    """The chosen images on disk, and everything that was left out.

    All files are read once, to find those that cannot be decoded and to compute the fingerprint.
    """
    digest = hashlib.blake2b(digest_size=8)
    pictures = decoded(surveyed.chosen, surveyed.shape)
    kept, skipped = _use_each(surveyed, pictures, lambda _, pixels: digest.update(pixels.tobytes()))
    entries = surveyed.chosen if kept.all() else surveyed.chosen.take(kept)
    labels = surveyed.labels(entries)
    digest.update(labels.tobytes())
    name, fingerprint = surveyed.listing.name, digest.hexdigest()
    return Streamed(entries, torch.from_numpy(labels), surveyed.classes, name, surveyed.shape, fingerprint), skipped


def _use_each(
    surveyed: Survey, pictures: Iterator[Pixels | Skipped], use: Callable[[int, Pixels], None]
) -> tuple[npt.NDArray[np.bool_], tuple[Skipped, ...]]:
    """Call `use` with place and pixels of each picture; returns which could be decoded, and all that is left out."""
    kept, lost = np.ones(len(surveyed.chosen), np.bool_), []
    for i, picture in enumerate(pictures):
        if isinstance(picture, Skipped):
            lost.append(picture)
            kept[i] = False
        else:
            use(i, picture)
    return kept, surveyed.without(lost)


def _without_pixels(
    entries: Entries, places: npt.NDArray[np.int64]
) -> Iterator[tuple[npt.NDArray[np.int64], list[Skipped]]]:
    """The places of each class whose headers are sound but of which no image can be decoded, and the reasons."""
    labels = entries.labels[places]
    known, first = np.unique(labels, return_index=True)
    for label, picture in zip(known, in_threads(_glance, entries.take(places[first])), strict=True):
        if isinstance(picture, Skipped):
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


def _glance(entry: Entry) -> Pixels | Skipped:
    """Decode a picture at the smallest size, to see whether it can be decoded."""
    return pixels_of(entry, (1, 1, 1))


def _common_shape(name: str, headers: Counter[decode.Header], options: DataOptions) -> tuple[int, int, int]:
    channels = 1 if all(h.grey for h in headers) else 3
    sizes: Counter[tuple[int, int]] = Counter()
    for h, count in headers.items():
        sizes[h.height, h.width] += count
    height, width = options.image_size or _typical_size(sizes, options.longest_side)
    other = sum(count for size, count in sizes.items() if size != (height, width))
    if other:
        sentence = "%s: images are read at %d x %d (height x width); %d of %d have another size and are scaled to fit, "
        end = "centred on black." if options.image_size else "centred on black. Set `image_size` for another size."
        log.info(sentence + end, name, height, width, other, headers.total())
    return channels, height, width


def _typical_size(sizes: Counter[tuple[int, int]], longest_side: int) -> tuple[int, int]:
    """The size of most images or, where there is none, the median height and width; scaled down to `longest_side`."""
    [(common, count)] = sizes.most_common(1)
    height: float
    width: float
    if 2 * count > sizes.total():
        height, width = common
    else:
        height, width = np.median(np.repeat(list(sizes), list(sizes.values()), axis=0), axis=0).tolist()
    scale = min(1.0, longest_side / max(height, width))
    return max(1, round(height * scale)), max(1, round(width * scale))
