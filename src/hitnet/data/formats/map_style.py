"""Map-style data sets of PyTorch, torchvision's among them: items (image, label), one at a time.

An image is a picture of Pillow, or a tensor or array: uint8, or floats in [0, 1], of shape (H, W), (C, H, W) or
(H, W, C). A label is a number or a text. The names of the classes are the attribute `classes`, where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset

from hitnet.data.formats.folder import check_folder_name
from hitnet.data.formats.items import ItemData, Rows
from hitnet.data.label_names import label_name
from hitnet.data.opened import Relabelling
from hitnet.data.reading.copying import check_target
from hitnet.data.reading.stored import StoredFile
from hitnet.errors import HitNetError
from hitnet.runtime.files import new_folder


class MapRows(Rows):
    """The items of a map-style data set."""

    def __init__(self, dataset: Any, title: str) -> None:
        self.dataset, self.title = dataset, title

    def __len__(self) -> int:
        return len(self.dataset)

    def labels(self) -> list[str | None]:
        return [self._label_name(value) for value in self._values()]

    def _values(self) -> list[Any]:
        """The labels as the data set gives them, where possible without reading its images."""
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
        name = f"{self.title}, item {row}"
        return StoredFile(name, lambda: encoded(picture_of(self._item(row)[0], name)))


class MapStyleData(ItemData):
    """A map-style data set of PyTorch, or several by split."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        parts = list(source.values()) if isinstance(source, Mapping) and source else [source]
        return all(isinstance(part, Dataset) and not isinstance(part, IterableDataset) for part in parts)

    @property
    def title(self) -> str:
        first = next(iter(self.source.values())) if isinstance(self.source, Mapping) else self.source
        return type(first).__name__

    def _rows(self, part: Any) -> MapRows:
        return MapRows(part, self.title)

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        """Write a folder of class folders with PNG files, at the size that the data set gives."""
        check_target(out, originals=[])
        for label in set(relabelling.after):
            check_folder_name(label)
        with new_folder(out) as folder:
            for path, label in zip(relabelling.paths, relabelling.after, strict=True):
                split, _, row = path.rpartition("/")
                target = folder / split / label / f"{row}.png"
                target.parent.mkdir(parents=True, exist_ok=True)
                with (self.root / path).open("rb") as file, Image.open(file) as picture:
                    picture.save(target)
        return out, "written as PNG files in class folders"


def picture_of(image: Any, name: str) -> Image.Image:
    """An item's image as a picture of Pillow."""
    if isinstance(image, Image.Image):
        return image
    if not isinstance(image, torch.Tensor | np.ndarray):
        raise HitNetError(
            f"{name}: an image must be a picture of Pillow, a tensor or an array; got {type(image).__name__}."
        )
    array: npt.NDArray[Any] = image.detach().cpu().numpy() if isinstance(image, torch.Tensor) else image
    if array.ndim == 3 and array.shape[0] in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
        raise HitNetError(f"{name}: an image must have the shape (H, W), (C, H, W) or (H, W, C); got {array.shape}.")
    return Image.fromarray(eight_bits(array, name))


def eight_bits(array: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint8]:
    """uint8 as it is; floats in [0, 1] times 255, rounded."""
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    if array.dtype.kind != "f" or not (low >= 0 and high <= 1):
        raise HitNetError(
            f"{name}: pixels must be uint8, or floats in [0, 1]; got {array.dtype} from {low:g} to {high:g}. Leave out "
            "transforms that normalise images: hitnet does so itself."
        )
    return np.rint(array.astype(np.float64) * 255).astype(np.uint8)


def encoded(picture: Image.Image) -> bytes:
    """A picture as the bytes of a file, without loss: PNG without compression, TIFF for floats."""
    content = BytesIO()
    if picture.mode == "F":
        picture.save(content, "TIFF")
    elif picture.mode in ("CMYK", "YCbCr", "HSV", "LAB"):  # which PNG does not know
        picture.convert("RGB").save(content, "PNG", compress_level=0)
    else:
        picture.save(content, "PNG", compress_level=0)
    return content.getvalue()
