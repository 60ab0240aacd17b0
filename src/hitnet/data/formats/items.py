"""Data sets whose images lie in rows, not in files: what Hugging Face's and PyTorch's data sets have in common.

The path of an image is the number of its row, after the name of its split where the data has splits: "17", "train/17".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from hitnet.data.formats.image_files import FileData
from hitnet.data.label_names import UNLABELLED
from hitnet.data.reading.entries import Entries, Texts
from hitnet.data.reading.left_out import Skipped
from hitnet.data.reading.stored import AnyFile, Root
from hitnet.data.reading.survey import Listing
from hitnet.data.split import assign, split_name
from hitnet.errors import HitNetError


class Rows(ABC):
    """The rows of one split."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def labels(self) -> list[str | None]:
        """The label of each row; None where it has none."""

    @abstractmethod
    def file(self, row: int) -> AnyFile:
        """The image of a row, as a file."""


class ItemRoot:
    """Gives the image at a path."""

    def __init__(self, parts: Mapping[str, Rows]) -> None:
        self.parts = parts

    def __truediv__(self, path: str, /) -> AnyFile:
        split, _, row = path.rpartition("/")
        return self.parts[split].file(int(row))


class ItemData(FileData):
    """A data set of rows, or several of them by split: {"train": …, "test": …}."""

    @property
    def address(self) -> str:
        return self.name

    @property
    def root(self) -> Root:
        return ItemRoot(self.parts)

    @cached_property
    def parts(self) -> dict[str, Rows]:
        """The rows of each split; under "" if the data has no splits."""
        whole = self.content
        sets = whole if isinstance(whole, Mapping) else {"": whole}
        if not sets:
            raise HitNetError(f"{self.title} holds no split.")
        return {str(name): self._rows(part) for name, part in sets.items()}

    @property
    def content(self) -> Any:
        """The data set, or those of its splits."""
        return self.source

    @property
    @abstractmethod
    def title(self) -> str:
        """What to call the set."""

    @abstractmethod
    def _rows(self, part: Any) -> Rows: ...

    @cached_property
    def listing(self) -> Listing:
        paths: list[str] = []
        labels: list[str] = []
        given: list[str] = []
        skipped = []
        for name, rows in self.parts.items():
            split = split_name(name, where=self.title) if name else None
            for i, label in enumerate(rows.labels()):
                path = path_of(name, i)
                if label is None:
                    skipped.append(Skipped(path, UNLABELLED))
                    continue
                paths.append(path)
                labels.append(label)
                given += [] if split is None else [split]
        if not paths:
            raise HitNetError(f"{self.title} holds no row with a label; empty and -1 mean none.")
        texts = Texts.of(paths)
        entries = Entries.of(self.root, texts, labels, assign(given or None, texts, labels))
        return Listing(self.title, entries, tuple(skipped))


def path_of(split: str, row: int) -> str:
    return f"{split}/{row}" if split else str(row)
