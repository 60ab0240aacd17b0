"""Datasets whose images lie in rows, not in files: those of Hugging Face and PyTorch, and everything like them.

The path of an image is the name of its file where the dataset tells it, else the number of its row, after the name of
its split where the data has splits: "17", "train/17", "train/dog/5.jpg".

An item of a dataset of PyTorch, or of any object with `__len__` and `__getitem__`, is (image, label, …): a picture of
Pillow or an array (see `picture_of`), and a number or a text. The attribute `classes`, if any, names the classes.
"""

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from hitnet.data.reading.decode import eight_bits
from hitnet.data.reading.entries import Entries, Listing, Skipped
from hitnet.data.reading.stored import AnyFile, Root, StoredFile, UnreadableImageError
from hitnet.data.split import split_name
from hitnet.errors import HitNetError
from hitnet.runtime.files import new_folder

PNG_MODES = ("1", "L", "LA", "P", "I", "I;16", "I;16B", "RGB", "RGBA")


@dataclass(frozen=True)
class Rows:
    """The rows of one split."""

    labels: Sequence[str | None]  # None where a row has no label
    file: Callable[[int], AnyFile]  # gives the image of a row, as a file
    names: Sequence[str] | None = None  # of the rows' files, all different, where they are known


class ItemData(FileData):
    """A dataset of rows, or several of them by split: {"train": …, "test": …}."""

    @property
    def root(self) -> Root:
        def file(path: str) -> AnyFile:
            split, row = self.place(path)
            return self.rows_by_split[split].file(row)

        return file

    @property
    def content(self) -> Any:
        """The dataset, or those of its splits."""
        return self.source

    @abstractmethod
    def rows(self, part: Any) -> Rows:
        """The rows of the dataset of one split."""

    @cached_property
    def parts(self) -> dict[str, Any]:
        """The dataset of each split; under "" if the data has no splits."""
        whole = self.content
        if isinstance(whole, Mapping) and not whole:
            raise HitNetError(f"{self.name} holds no split.")
        return {str(name): part for name, part in whole.items()} if isinstance(whole, Mapping) else {"": whole}

    @cached_property
    def rows_by_split(self) -> dict[str, Rows]:
        return {name: self.rows(part) for name, part in self.parts.items()}

    @cached_property
    def _named(self) -> dict[str, tuple[str, int]]:
        """Split and row of each path, of splits whose files have names."""
        return {
            path_of(split, name): (split, row)
            for split, rows in self.rows_by_split.items()
            for row, name in enumerate(rows.names or ())
        }

    def place(self, path: str) -> tuple[str, int]:
        """The split and the row that a path stands for."""
        split, _, row = path.rpartition("/")
        return self._named[path] if path in self._named else (split, int(row))

    @cached_property
    def listing(self) -> Listing:
        splits = {name: split_name(name, where=self.name) if name else "" for name in self.parts}
        items = [
            (path_of(name, rows.names[row] if rows.names else row), label, splits[name])
            for name, rows in self.rows_by_split.items()
            for row, label in enumerate(rows.labels)
        ]
        labelled = [(path, label, split) for path, label, split in items if label is not None]
        if not labelled:
            raise HitNetError(f"{self.name} holds no row with a label; empty and -1 mean none.")
        paths, labels, given = zip(*labelled, strict=True)
        entries = Entries.of(self.root, paths, labels, [split for split in given if split])
        unlabelled = tuple(Skipped(path, UNLABELLED) for path, label, _ in items if label is None)
        return Listing(self.name, entries, unlabelled)


def path_of(split: str, row: int | str) -> str:
    return f"{split}/{row}" if split else str(row)


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
    def name(self) -> str:
        return type(next(iter(self.source.values())) if isinstance(self.source, Mapping) else self.source).__name__

    def rows(self, part: Any) -> Rows:
        def file(row: int) -> StoredFile:
            return StoredFile(f"{self.name}, item {row}", lambda: encoded(picture_of(self._item(part, row)[0])))

        names = _class_names(part)
        return Rows([self._label(value, names) for value in self._labels(part)], file, file_names(part))

    def _item(self, dataset: Any, row: int) -> tuple[Any, Any]:
        item = dataset[row]
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise HitNetError(f"{self.name}: an item must be (image, label, …); got {type(item).__name__}.")
        return item[0], item[1]

    def _labels(self, dataset: Any) -> list[Any]:
        """The labels as the dataset gives them, where possible without reading its images."""
        targets = getattr(dataset, "targets", None)
        if targets is not None and getattr(dataset, "target_transform", None) is None:
            values = targets.tolist() if isinstance(targets, torch.Tensor | np.ndarray) else list(targets)
            if len(values) == len(dataset):
                return values
        return [self._item(dataset, row)[1] for row in range(len(dataset))]

    def _label(self, value: Any, class_names: list[str] | None) -> str | None:
        if value is None or isinstance(value, str):
            return label_name(value)
        try:
            number = int(value)
        except (TypeError, ValueError, RuntimeError):
            kind = type(value).__name__
            raise HitNetError(f"{self.name}: a label must be a number or a text; got {kind}.") from None
        if class_names is None or number == -1:
            return label_name(number)
        if not 0 <= number < len(class_names):
            raise HitNetError(f"{self.name}: label {number} is none of its {len(class_names)} classes.")
        return class_names[number]

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


def _class_names(dataset: Any) -> list[str] | None:
    """The names of the classes; of a `Subset`, those of the whole set."""
    while not hasattr(dataset, "classes") and hasattr(dataset, "dataset"):
        dataset = dataset.dataset
    names = getattr(dataset, "classes", None)
    return None if names is None else [str(name) for name in names]


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
