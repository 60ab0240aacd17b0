"""Long lists of image files in little memory, and what a set leaves out.

Columns of numbers and one block of text stand for an object per file: a path takes its own letters and twelve bytes,
everything else of a file thirteen bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from hitnet.data.reading.stored import AnyFile, Root, join
from hitnet.data.split import TEST, TRAIN, VALIDATION, assign
from hitnet.errors import HitNetError, log, one_line

SPLITS = (TRAIN, TEST, VALIDATION)
SHOWN = 10  # names of what is left out in a message
Places = npt.NDArray[np.integer] | npt.NDArray[np.bool_]
Checksums = npt.NDArray[np.void]  # (N,) of 16 bytes
T = TypeVar("T")


@dataclass(frozen=True)
class Lazy(Sequence[T], Generic[T]):
    """A list whose items are made when they are asked for: `make(position)` for each position."""

    make: Callable[[int], T]
    positions: Sequence[int] | npt.NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, place: int) -> T:  # type: ignore[override]  # no slices
        return self.make(int(self.positions[place]))


@dataclass(frozen=True)
class PackedStrings(Sequence[str]):
    """A list of strings, stored as parts of one block of UTF-8."""

    block: bytes
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]

    @classmethod
    def of(cls, strings: Iterable[str]) -> PackedStrings:
        block, lengths = bytearray(), array("i")
        for string in strings:
            # Names that are not valid Unicode are refused elsewhere; here they only have to come back unchanged.
            encoded = string.encode("utf-8", "surrogatepass")
            block += encoded
            lengths.append(len(encoded))
        sizes = np.array(lengths, np.int32)
        return cls(bytes(block), np.cumsum(sizes, dtype=np.int64) - sizes, sizes)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, position: int) -> str:  # type: ignore[override]  # no slices
        start = int(self.starts[position])
        return self.block[start : start + int(self.lengths[position])].decode("utf-8", "surrogatepass")

    def take(self, positions: Places) -> PackedStrings:
        """The strings at these positions, or where a mask is true; the block is shared, not copied."""
        return PackedStrings(self.block, self.starts[positions], self.lengths[positions])


class Entry(NamedTuple):
    """One image file: its path as shown, and what is opened."""

    path: str
    file: AnyFile


@dataclass(frozen=True)
class Entries(Sequence[Entry]):
    """A list of `Entry`, each of which is made when it is asked for."""

    root: Root  # the folder that paths start from, or what else gives a file for each path
    ids: npt.NDArray[np.int64]  # places in the set's order
    paths: PackedStrings  # from `root` on
    classes: tuple[str, ...]  # all that occur, and perhaps others
    labels: npt.NDArray[np.int32]  # indices into `classes`
    splits: npt.NDArray[np.uint8]  # indices into SPLITS
    checksums: Checksums | None = None  # of the files' bytes, once a pass has read them

    @classmethod
    def of(
        cls,
        root: Root,
        paths: Iterable[str],
        labels: Sequence[str],
        given: Sequence[str] | None = None,
        ids: Iterable[int] | None = None,
    ) -> Entries:
        """Build the list from one label per path, the splits that are given (none: the fixed rule), and ids from 0 on.

        `paths` is read first: `labels` and `given` may grow with it.
        """
        packed = PackedStrings.of(paths)
        classes = tuple(dict.fromkeys(labels))
        label_of, split_of = {name: k for k, name in enumerate(classes)}, {name: k for k, name in enumerate(SPLITS)}
        splits = assign(given or None, packed, labels)
        return cls(
            root,
            np.arange(len(packed)) if ids is None else np.fromiter(ids, np.int64),
            packed,
            classes,
            np.fromiter((label_of[label] for label in labels), np.int32, len(packed)),
            np.fromiter((split_of[split] for split in splits), np.uint8, len(packed)),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Entry:  # type: ignore[override]  # no slices
        path = self.paths[position]
        return Entry(path, join(self.root, path))

    def take(self, positions: Places) -> Entries:
        """The entries at these positions, or where a mask is true."""
        names = ("ids", "labels", "splits", *(() if self.checksums is None else ("checksums",)))
        columns = {name: getattr(self, name)[positions] for name in names}
        return replace(self, paths=self.paths.take(positions), **columns)

    def in_split(self, split: str) -> npt.NDArray[np.bool_]:
        """Which entries belong to a split: (N,), all True for "all"."""
        if split not in SPLITS:
            return np.ones(len(self), np.bool_)
        return np.asarray(self.splits == SPLITS.index(split))

    def label_names(self, among: npt.NDArray[np.bool_] | None = None) -> set[str]:
        """The classes that occur, or only those that occur where `among` is True."""
        return {self.classes[k] for k in np.unique(self.labels if among is None else self.labels[among])}


@dataclass(frozen=True)
class Skipped:
    """Something that was left out of a set, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{one_line(self.path)}: {self.reason}"


@dataclass(frozen=True)
class Listing:
    """The image files that a folder or a table names, before any of them is opened, and what is left out already."""

    name: str
    entries: Entries
    skipped: tuple[Skipped, ...] = ()
    ignored: dict[str, int] = field(default_factory=dict)


def log_skipped(name: str, skipped: Sequence[Skipped], ignored: Mapping[str, int]) -> None:
    """Log what a set leaves out."""
    if ignored:
        log.info("%s: ignored: %s", name, list_ignored(ignored))
    if skipped:
        shown = "\n".join(f"  {item}" for item in skipped[:SHOWN])
        more = f"\n  and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
        log.warning("%s: left out %d:\n%s%s", name, len(skipped), shown, more)


def stop_if_strict(name: str, skipped: Sequence[Skipped], *, strict: bool) -> None:
    """Raise HitNetError if anything is left out of a set that is opened with the option `strict`."""
    if strict and skipped:
        raise HitNetError(f"{name}: {skipped[0]}. Fix or remove it, or drop `strict`.")


def describe_skipped(skipped: Sequence[Skipped], ignored: Mapping[str, int]) -> str:
    """For an error: how many are left out, the first of them, and what is ignored; empty if there is nothing."""
    first = f"Left out: {len(skipped)}, the first {skipped[0]}." if skipped else ""
    return " ".join(filter(None, [first, f"Ignored: {list_ignored(ignored)}." if ignored else ""]))


def list_ignored(ignored: Mapping[str, int]) -> str:
    """For example "5 .txt, 1 without suffix"; only the most common of many suffixes."""
    kinds = sorted(ignored, key=lambda kind: (-ignored[kind], kind))
    words = [f"{ignored[kind]} {kind}" for kind in kinds[:SHOWN]]
    if more := sum(ignored[kind] for kind in kinds[SHOWN:]):
        words.append(f"{more} of other types")
    return ", ".join(words)
