"""Long lists of image files in little memory: columns of numbers and one block of text instead of an object per file.

A path takes its own letters and twelve bytes, everything else of a file thirteen bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from hitnet.data.reading.remote import join
from hitnet.data.reading.stored import AnyFile, Root
from hitnet.data.split import TEST, TRAIN, VALIDATION

SPLITS = (TRAIN, TEST, VALIDATION)
Numbers = npt.NDArray[np.integer]
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """One image file.

    Attributes:
        id: Its place in the set's order.
        path: Its path as shown.
        file: What is opened.
        label: The name of its class.
        split: train, test or validation.
    """

    id: int
    path: str
    file: AnyFile
    label: str
    split: str


@dataclass(frozen=True)
class Lazy(Sequence[T], Generic[T]):
    """A list whose items are made when they are asked for: `make(position)` for each position."""

    make: Callable[[int], T]
    positions: Sequence[int] | Numbers

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Lazy[T]: ...
    def __getitem__(self, place: int | slice) -> T | Lazy[T]:
        if isinstance(place, slice):
            return Lazy(self.make, self.positions[place])
        return self.make(int(self.positions[place]))


@dataclass(frozen=True)
class Texts:
    """A list of strings, stored as parts of one block of UTF-8."""

    block: bytes
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int32]

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        block, lengths = bytearray(), array("i")
        for text in texts:
            # Names that are not valid Unicode are refused elsewhere; here they only have to come back unchanged.
            encoded = text.encode("utf-8", "surrogatepass")
            block += encoded
            lengths.append(len(encoded))
        sizes = np.array(lengths, np.int32)
        return cls(bytes(block), np.cumsum(sizes, dtype=np.int64) - sizes, sizes)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, position: int) -> str:
        start = int(self.starts[position])
        return self.block[start : start + int(self.lengths[position])].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))

    def take(self, positions: Numbers) -> Texts:
        """The strings at these positions; the block is shared, not copied."""
        return Texts(self.block, self.starts[positions], self.lengths[positions])


@dataclass(frozen=True)
class Entries:
    """A list of `Entry`, each of which is made when it is asked for.

    Attributes:
        root: The folder that paths start from, or what else gives a file for each path.
        ids: Places in the set's order.
        paths: The paths, from `root` on.
        classes: The names of all classes that occur, and perhaps of others.
        labels: Indices into `classes`.
        splits: Indices into SPLITS.
    """

    root: Root
    ids: npt.NDArray[np.int64]
    paths: Texts
    classes: tuple[str, ...]
    labels: npt.NDArray[np.int32]
    splits: npt.NDArray[np.uint8]

    @classmethod
    def of(
        cls, root: Root, paths: Texts, labels: Sequence[str], splits: Sequence[str], ids: Iterable[int] | None = None
    ) -> Entries:
        """Build the list from one label and one split per path; ids are counted from 0 if none are given."""
        classes = tuple(dict.fromkeys(labels))
        label_of, split_of = {name: k for k, name in enumerate(classes)}, {name: k for k, name in enumerate(SPLITS)}
        return cls(
            root,
            np.arange(len(paths)) if ids is None else np.fromiter(ids, np.int64),
            paths,
            classes,
            np.fromiter((label_of[label] for label in labels), np.int32, len(paths)),
            np.fromiter((split_of[split] for split in splits), np.uint8, len(paths)),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Entry:
        path = self.paths[position]
        label, split = self.classes[self.labels[position]], SPLITS[self.splits[position]]
        return Entry(int(self.ids[position]), path, join(self.root, path), label, split)

    def __iter__(self) -> Iterator[Entry]:
        return (self[i] for i in range(len(self)))

    def take(self, positions: Numbers | npt.NDArray[np.bool_]) -> Entries:
        """The entries at these positions, or where a mask is true."""
        places = np.arange(len(self))[positions]
        return Entries(
            self.root,
            self.ids[places],
            self.paths.take(places),
            self.classes,
            self.labels[places],
            self.splits[places],
        )

    def in_split(self, split: str) -> npt.NDArray[np.bool_]:
        """Which entries belong to a split: (N,), all True for "all"."""
        if split not in SPLITS:
            return np.ones(len(self), np.bool_)
        return np.asarray(self.splits == SPLITS.index(split))

    def label_names(self, among: npt.NDArray[np.bool_] | None = None) -> set[str]:
        """The classes that occur, or only those that occur where `among` is True."""
        return {self.classes[k] for k in np.unique(self.labels if among is None else self.labels[among])}
