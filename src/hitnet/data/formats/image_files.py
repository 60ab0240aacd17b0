"""Data made of image files: what folders, tables and datasets of rows have in common.

Classes, size and colour come from the headers of all files, so that they are the same for every split.
"""

from __future__ import annotations

import hashlib
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import takewhile
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch

from hitnet.data.images import Images, Pixels, Streamed, ahead_of, pixels_of, tried
from hitnet.data.opened import LONGEST_SIDE, Data, DataOptions, ImageSet, Report, Room
from hitnet.data.reading import decode
from hitnet.data.reading.entries import Entries, Lazy, Listing, Skipped, describe_skipped, log_skipped, stop_if_strict
from hitnet.data.reading.findings import Findings, Look
from hitnet.data.reading.pictures import PictureReader, file_pictures
from hitnet.data.reading.stored import AnyFile, AnyPath, Root, join, path_or_address
from hitnet.data.split import check_split, even_draw, natural, no_images
from hitnet.errors import HitNetError, log
from hitnet.runtime.threads import in_threads

FIRST_HEADERS = 64  # that are read at most before the first answers whether there are colours


class FileData(Data):
    """A folder or a table of image files. Images are identified by their paths, and can be streamed."""

    by_path: ClassVar[bool] = True

    @cached_property
    def path(self) -> AnyPath:
        return path_or_address(self.source)

    @property
    def root(self) -> Root:
        """Where the paths of the images start."""
        return self.path

    @cached_property
    @abstractmethod
    def listing(self) -> Listing:
        """The files, in the set's order."""

    @property
    def entries(self) -> Entries:
        return self.listing.entries

    @property
    def name(self) -> str:
        return self.listing.name

    def report(self, split: str = "train") -> Report:
        [surveyed] = self._surveys([split])
        images, skipped = read_images(surveyed)
        return Report(self._with_flip(images), skipped, self.listing.ignored)

    def image_sets(self, splits: Sequence[str], room: Room) -> list[ImageSet]:
        """As in `Data`; the headers of the files are read once for all splits, and what they lack is logged once."""
        sets: list[ImageSet] = []
        for surveyed in self._surveys(splits):
            read = stream_images if self._streams(surveyed, room()) else read_images
            images, skipped = read(surveyed)
            log_skipped(self.name, skipped, {} if sets else self.listing.ignored)
            sets.append(self._with_flip(images))
        return sets

    def looked_at(self, split: str, look: Look | None) -> ImageSet:
        """As in `Data`; with the option `limit`, headers are read before: they say which images are drawn."""
        if look is None:
            return super().looked_at(split, look)
        check_split(split)
        listing, options = self.listing, self.options
        if options.limit is None:
            entries = listing.entries
            findings = look(entries, entries.in_split(split))
            listing = replace(listing, entries=replace(entries, checksums=findings.checksums))
            surveyed = survey(listing, options, findings).of_split(split)
        else:
            surveyed = survey(listing, options, headers_of(listing.entries)).of_split(split, options.limit)
            findings = look(surveyed.entries, np.ones(len(surveyed.entries), np.bool_))
            surveyed = replace(surveyed, entries=replace(surveyed.entries, checksums=findings.checksums))
        self.size_note = surveyed.size_note
        odd = (findings.unreadable | findings.undecodable).values()
        kept, labels = surveyed.without({item.path: item for item in odd})
        log_skipped(self.name, kept.skipped, listing.ignored)
        content = np.asarray(kept.entries.checksums).tobytes() + labels.tobytes()
        digest = hashlib.blake2b(content, digest_size=8).hexdigest()
        about = torch.from_numpy(labels), kept.classes, kept.name, kept.shape, digest
        return self._with_flip(Streamed(kept.entries, *about, crop=options.crop))

    def _surveys(self, splits: Sequence[str]) -> list[Survey]:
        """The survey of each split; what the headers lack is in the first, on which alone the option `limit` acts."""
        for split in splits:
            check_split(split)
        whole = survey(self.listing, self.options, headers_of(self.entries))
        self.size_note = whole.size_note
        others = [replace(whole.of_split(split), skipped=()) for split in splits[1:]]
        return [whole.of_split(splits[0], self.options.limit), *others]

    def images_to_correct(self, split: str) -> ImageSet:
        """All files of all splits that can be read; their pixels stay on disk."""
        [images] = self.reopen(limit=None, image_size=None, strict=False, stream=True).image_sets(["all"], lambda: 0)
        return images

    def image_files(self, images: ImageSet) -> Sequence[AnyFile] | None:
        paths = images.paths
        assert paths is not None  # images of files have paths
        return Lazy(lambda i: self.file(paths[i]), range(len(paths)))

    def pictures(self, split: str) -> PictureReader:
        return file_pictures(self.root, lambda: self.listing)

    def file(self, path: str) -> AnyFile:
        """The file at a path of the set."""
        return join(self.root, path)

    def _streams(self, surveyed: Survey, room: int) -> bool:
        """Whether to leave images on disk: with the option `stream`, or if it is None and they take more than `room`
        bytes of memory.
        """
        size = len(surveyed.entries) * math.prod(surveyed.shape)
        if self.options.stream is not None or size <= room:
            return bool(self.options.stream)
        sentence = "%s: %d %s images would take %.1f GB of memory, so they are read from disk during training. "
        advice = "`stream` = False keeps them in memory."
        log.info(sentence + advice, surveyed.name, len(surveyed.entries), surveyed.split, size / 1e9)
        return True


@dataclass(frozen=True)
class Survey:
    """What the headers of a listing's files say."""

    name: str
    options: DataOptions
    classes: tuple[str, ...]  # of the whole listing, in natural order
    shape: tuple[int, int, int]  # (C, H, W) to read the images at
    entries: Entries  # the files of the split that can be used
    skipped: tuple[Skipped, ...]  # what was left out so far
    size_note: str = ""  # how images of other sizes are read
    split: str = "all"

    def of_split(self, split: str, limit: int | None = None) -> Survey:
        """At most `limit` files of a split, by an even draw."""
        entries = self.entries.take(self.entries.in_split(split))
        if not len(entries):
            raise no_images(self.name, split)
        if limit is not None:
            entries = entries.take(np.array(even_draw(entries.paths, limit)))
        return replace(self, entries=entries, split=split)

    def decode(self, use: Callable[[int, Pixels], None]) -> tuple[Survey, npt.NDArray[np.int64]]:
        """Call `use` with place and pixels of each image that can be decoded; the survey of these, and their labels."""
        odd: dict[str, Skipped] = {}
        done = 0
        read = partial(pixels_of, shape=self.shape, crop=self.options.crop)
        for picture in in_threads(read, self.entries, ahead=ahead_of(self.shape)):
            if isinstance(picture, Skipped):
                odd[picture.path] = picture
            else:
                use(done, picture)
                done += 1
        return self.without(odd)

    def without(self, odd: Mapping[str, Skipped]) -> tuple[Survey, npt.NDArray[np.int64]]:
        """The survey of all but odd files, by path, and the labels of the others."""
        paths = self.entries.paths if odd else ()
        places = [i for i, path in enumerate(paths) if path in odd]
        reasons = [odd[paths[i]] for i in places]
        skipped = (*self.skipped, *reasons)
        stop_if_strict(self.name, skipped, strict=self.options.strict)
        good = np.ones(len(self.entries), np.bool_)
        good[places] = False
        if not good.any():
            none = f"{self.name}: none of its {len(good)} {self.split} images can be read."
            raise HitNetError(f"{none} {describe_skipped(reasons, {})}")
        entries = self.entries.take(good) if places else self.entries
        index = {label: k for k, label in enumerate(self.classes)}
        codes = np.array([index.get(label, -1) for label in entries.classes], np.int64)
        return replace(self, entries=entries, skipped=skipped), codes[entries.labels]


def headers_of(entries: Entries) -> Findings:
    """What the headers of all files say."""
    findings = Findings(np.zeros(len(entries), np.bool_), np.zeros(0, "V16"))
    for place, header in enumerate(in_threads(lambda entry: tried(entry, decode.header), entries)):
        findings.note(place, header)
    return findings


def any_colour(entries: Entries) -> bool:
    """Whether an image is not grey; reads headers up to the first that is in colour."""
    headers = in_threads(lambda entry: tried(entry, decode.header), entries, ahead=FIRST_HEADERS)
    return any(isinstance(header, decode.Header) and not header.grey for header in headers)


def survey(listing: Listing, options: DataOptions, findings: Findings) -> Survey:
    """What the files of a listing have in common; of each class, one image must be one that can be decoded."""
    entries, skipped = listing.entries, [*listing.skipped, *findings.unreadable.values()]
    good = np.ones(len(entries), np.bool_)
    good[list(findings.unreadable)] = False
    for own, reasons in _without_pixels(entries, np.flatnonzero(good), findings):
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
    shape, note = _common_shape(listing.name, findings.headers, options)
    return Survey(listing.name, options, names, shape, entries.take(good), tuple(skipped), note)


def read_images(surveyed: Survey) -> tuple[Images, tuple[Skipped, ...]]:
    """Decode the images of a survey; returns them and everything that was left out."""
    pixels = np.empty((len(surveyed.entries), *surveyed.shape), np.uint8)
    kept, labels = surveyed.decode(pixels.__setitem__)
    pixels, paths = pixels[: len(labels)], list(kept.entries.paths)
    images = Images.from_arrays(pixels, labels, class_names=kept.classes, name=kept.name, paths=paths)
    return replace(images, ids=torch.from_numpy(kept.entries.ids)), kept.skipped


def stream_images(surveyed: Survey) -> tuple[Streamed, tuple[Skipped, ...]]:
    """The images of a survey on disk, and everything that was left out.

    All files are read once, to find those that cannot be decoded and to compute the fingerprint.
    """
    digest = hashlib.blake2b(digest_size=8)
    kept, labels = surveyed.decode(lambda _, pixels: digest.update(pixels.tobytes()))
    digest.update(labels.tobytes())
    about = torch.from_numpy(labels), kept.classes, kept.name, kept.shape, digest.hexdigest()
    return Streamed(kept.entries, *about, crop=kept.options.crop), kept.skipped


def _without_pixels(
    entries: Entries, places: npt.NDArray[np.int64], findings: Findings
) -> Iterator[tuple[npt.NDArray[np.int64], list[Skipped]]]:
    """The places of each class whose headers are sound but of which no image can be decoded, and the reasons."""

    def glance(place: int) -> object:
        known = findings.decoded[place]
        return findings.undecodable.get(place) if known else pixels_of(entries[place], (1, 1, 1))

    labels = entries.labels[places]
    classes, first = np.unique(labels, return_index=True)
    for label, picture in zip(classes, in_threads(glance, places[first].tolist()), strict=True):
        if isinstance(picture, Skipped):
            own = places[labels == label]
            reasons: list[Any] = list(takewhile(lambda each: isinstance(each, Skipped), map(glance, own.tolist())))
            if len(reasons) == len(own):
                yield own, reasons


def _common_shape(name: str, headers: Counter[decode.Header], options: DataOptions) -> tuple[tuple[int, int, int], str]:
    """The shape (C, H, W) at which all images are read, and what this means for those of another size."""
    channels = 1 if all(h.grey for h in headers) else 3
    sizes: Counter[tuple[int, int]] = Counter()
    for h, count in headers.items():
        sizes[h.height, h.width] += count
    if options.image_size is not None:
        return (channels, *options.image_size), ""
    # The size of most images or, where there is none, the median height and width; scaled down to LONGEST_SIDE.
    [(common, count)] = sizes.most_common(1)
    all_sizes = [common] if 2 * count > sizes.total() else np.repeat(list(sizes), list(sizes.values()), axis=0)
    height, width = np.median(all_sizes, axis=0).tolist()
    scale = min(1.0, LONGEST_SIDE / max(height, width))
    height, width = max(1, round(height * scale)), max(1, round(width * scale))
    other = sum(count for size, count in sizes.items() if size != (height, width))
    note = (
        f"{name}: images are read at {height} x {width} (height x width); {other} of {headers.total()} have another "
        "size and are scaled to fit, centred on black. Set `image_size` for another size."
    )
    return (channels, height, width), note if other else ""
