"""Datasets whose images lie in rows, not in files: those of Hugging Face and PyTorch, and everything like them.

The path of an image is the name of its file where the dataset tells it, else the number of its row, after the name of
its split where the data has splits: "17", "train/17", "train/dog/5.jpg".

An item of a dataset of PyTorch, or of any object with `__len__` and `__getitem__`, is (image, label, …). An image is a
picture of Pillow, or a tensor or array of shape (H, W), (C, H, W) or (H, W, C): whole numbers in 0..255, or of 16 bits,
or fractions in [0, 1]. A label is a number or a text. The names of the classes are the attribute `classes`, where there
is one.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import IterableDataset, Subset

from hitnet.data.formats.image_files import FileData
from hitnet.data.images import UNLABELLED, label_name
from hitnet.data.opened import Relabelling
from hitnet.data.reading.copying import check_folder_name, check_target
from hitnet.data.reading.decode import UnreadableImageError, eight_bits
from hitnet.data.reading.entries import Entries
from hitnet.data.reading.skipped import Skipped
from hitnet.data.reading.stored import AnyFile, Root, StoredFile
from hitnet.data.reading.survey import Listing
from hitnet.data.split import split_name
from hitnet.errors import HitNetError
from hitnet.runtime.files import new_folder

PNG_MODES = ("1", "L", "LA", "P", "I", "I;16", "I;16B", "RGB", "RGBA")


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

    def names(self) -> list[str] | None:
        """The name of each row's file, all different, where they are known."""
        return None


class ItemData(FileData):
    """A dataset of rows, or several of them by split: {"train": …, "test": …}."""

    @property
    def address(self) -> str:
        return self.name

    @property
    def root(self) -> Root:
        return _ItemRoot(self)

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
        """The dataset, or those of its splits."""
        return self.source

    @property
    @abstractmethod
    def title(self) -> str:
        """What to call the set."""

    @abstractmethod
    def _rows(self, part: Any) -> Rows: ...

    @cached_property
    def _named(self) -> dict[str, tuple[str, int]]:
        """Split and row of each path, of splits whose files have names."""
        return {
            path_of(split, name): (split, row)
            for split, rows in self.parts.items()
            for row, name in enumerate(rows.names() or ())
        }

    def place(self, path: str) -> tuple[str, int]:
        """The split and the row that a path stands for."""
        split, _, row = path.rpartition("/")
        return self._named[path] if path in self._named else (split, int(row))

    @cached_property
    def listing(self) -> Listing:
        paths: list[str] = []
        labels: list[str] = []
        given: list[str] = []
        skipped = []
        for name, rows in self.parts.items():
            split = split_name(name, where=self.title) if name else None
            names = rows.names() or map(str, range(len(rows)))
            for row, label in zip(names, rows.labels(), strict=True):
                path = path_of(name, row)
                if label is None:
                    skipped.append(Skipped(path, UNLABELLED))
                    continue
                paths.append(path)
                labels.append(label)
                given += [] if split is None else [split]
        if not paths:
            raise HitNetError(f"{self.title} holds no row with a label; empty and -1 mean none.")
        return Listing(self.title, Entries.of(self.root, paths, labels, given), tuple(skipped))


class _ItemRoot:
    """Gives the image at a path."""

    def __init__(self, data: ItemData) -> None:
        self.data = data

    def __truediv__(self, path: str, /) -> AnyFile:
        split, row = self.data.place(path)
        return self.data.parts[split].file(row)


def path_of(split: str, row: object) -> str:
    return f"{split}/{row}" if split else str(row)


class MapRows(Rows):
    """The items of a dataset of PyTorch, or of anything that has a length and gives items by number."""

    def __init__(self, dataset: Any, title: str) -> None:
        self.dataset, self.title = dataset, title

    def __len__(self) -> int:
        return len(self.dataset)

    def labels(self) -> list[str | None]:
        return [self._label_name(value) for value in self._values()]

    def _values(self) -> list[Any]:
        """The labels as the dataset gives them, where possible without reading its images."""
        targets = getattr(self.dataset, "targets", None)
        if targets is not None and getattr(self.dataset, "target_transform", None) is None:
            values = targets.tolist() if isinstance(targets, torch.Tensor | np.ndarray) else list(targets)
            if len(values) == len(self):
                return values
        return [self._item(row)[1] for row in range(len(self))]

    @cached_property
    def _classes(self) -> list[str] | None:
        """The names of the classes; of a `Subset`, those of the whole set."""
        dataset = self.dataset
        while not hasattr(dataset, "classes") and hasattr(dataset, "dataset"):
            dataset = dataset.dataset
        names = getattr(dataset, "classes", None)
        return None if names is None else [str(name) for name in names]

    def _label_name(self, value: Any) -> str | None:
        if value is None or isinstance(value, str):
            return label_name(value)
        try:
            number = int(value)
        except (TypeError, ValueError, RuntimeError):
            raise HitNetError(
                f"{self.title}: a label must be a number or a text; got {type(value).__name__}."
            ) from None
        if self._classes is None or number == -1:
            return label_name(number)
        if not 0 <= number < len(self._classes):
            raise HitNetError(f"{self.title}: label {number} is none of its {len(self._classes)} classes.")
        return self._classes[number]

    def _item(self, row: int) -> tuple[Any, Any]:
        item = self.dataset[row]
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise HitNetError(f"{self.title}: an item must be (image, label, …); got {type(item).__name__}.")
        return item[0], item[1]

    def file(self, row: int) -> StoredFile:
        return StoredFile(f"{self.title}, item {row}", lambda: encoded(picture_of(self._item(row)[0])))

    def names(self) -> list[str] | None:
        return file_names(self.dataset)


class MapStyleData(ItemData):
    """A dataset whose items are (image, label, …), or several by split. A corrected copy is a folder of PNG files."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        parts = list(source.values()) if isinstance(source, Mapping) and source else [source]
        return all(
            hasattr(part, "__len__")
            and hasattr(part, "__getitem__")
            and not hasattr(part, "keys")
            and not isinstance(part, str | bytes | IterableDataset)
            for part in parts
        )

    @property
    def title(self) -> str:
        first = next(iter(self.source.values())) if isinstance(self.source, Mapping) else self.source
        return type(first).__name__

    def _rows(self, part: Any) -> MapRows:
        return MapRows(part, self.title)

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        """Write a folder of class folders with PNG files, at the size that the dataset gives."""
        check_target(out, originals=[])
        for label in set(relabelling.after):
            check_folder_name(label)
        with new_folder(out) as folder:
            for path, label in zip(relabelling.paths, relabelling.after, strict=True):
                split, row = self.place(path)
                target = folder / split / label / f"{row}.png"
                target.parent.mkdir(parents=True, exist_ok=True)
                with self.file(path).open("rb") as file, Image.open(file) as picture:
                    picture.save(target)
        return out, "written as PNG files in class folders"


def file_names(dataset: Any) -> list[str] | None:
    """The paths of the files of torchvision's ImageFolder and the like, from their root on; None for other datasets."""
    if isinstance(dataset, Subset):
        names = file_names(dataset.dataset)
        return None if names is None else [names[i] for i in dataset.indices]
    samples, root = getattr(dataset, "samples", None), getattr(dataset, "root", None)
    if not isinstance(samples, list) or len(samples) != len(dataset) or not isinstance(root, str | Path):
        return None
    files = [sample[0] for sample in samples if isinstance(sample, tuple) and isinstance(sample[0], str)]
    names = [file.removeprefix(os.fspath(root)).replace(os.sep, "/").lstrip("/") for file in files]
    return names if len(set(names)) == len(dataset) else None


def picture_of(image: Any) -> Image.Image:
    """An item's image as a picture of Pillow."""
    if isinstance(image, Image.Image):
        return image
    if not isinstance(image, torch.Tensor | np.ndarray):
        raise UnreadableImageError(f"it must be a picture of Pillow, a tensor or an array; got {type(image).__name__}")
    array: npt.NDArray[Any] = image.detach().cpu().numpy() if isinstance(image, torch.Tensor) else image
    if array.ndim == 3 and array.shape[0] in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
        raise UnreadableImageError(f"it must have the shape (H, W), (C, H, W) or (H, W, C); got {array.shape}")
    try:
        return Image.fromarray(np.ascontiguousarray(eight_bits(array)))
    except UnreadableImageError as error:
        advice = "leave out transforms that normalise images: hitnet does so itself"
        raise UnreadableImageError(f"{error}; {advice}") from error


def encoded(picture: Image.Image) -> bytes:
    """A picture as the bytes of a file: PNG without compression; in 8 bits where PNG does not know its kind."""
    if picture.mode == "F":
        picture = Image.fromarray(eight_bits(np.asarray(picture)))
    elif picture.mode not in PNG_MODES:
        picture = picture.convert("RGB")
    content = BytesIO()
    picture.save(content, "PNG", compress_level=0)
    return content.getvalue()
