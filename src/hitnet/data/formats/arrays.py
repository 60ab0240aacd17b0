"""Data that is read into memory as a whole: what known sets, .npz files and arrays in memory have in common."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from PIL import Image

from hitnet.data.formats.npz import Labelled, labelled_images, read_npz, save_npz
from hitnet.data.images import Images
from hitnet.data.opened import Data, DataOptions, ImageSet, Relabelling, Report, Room
from hitnet.data.reading.copying import check_target
from hitnet.data.reading.decode import fit
from hitnet.data.reading.entries import Skipped, stop_if_strict
from hitnet.data.split import assign, check_split, even_draw, no_images
from hitnet.runtime.files import expand, new_folder

CORRECTED = "images.npz"


class ArrayData(Data):
    """Data in arrays: `content`, unless a format reads each split by itself. A corrected copy is a .npz file."""

    @cached_property
    def content(self) -> Labelled:
        """All that the source holds."""
        raise NotImplementedError

    @property
    def unlabelled(self) -> tuple[Skipped, ...]:
        return self.content.unlabelled

    def report(self, split: str = "train") -> Report:
        check_split(split)
        stop_if_strict(self.name, self.unlabelled, strict=self.options.strict)
        images = resized(self._read(split, self.options.limit), self.options.image_size, crop=self.options.crop)
        return Report(self._with_flip(images), self.unlabelled)

    def _read(self, split: str, limit: int | None) -> Images:
        """One split, at most `limit` images of it, at its own size."""
        return part(self.content.images, self.content.splits, split, limit)

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        check_target(out, originals=[])
        corrected, lost = relabelling.corrected(), len(self.unlabelled)
        with new_folder(out) as folder:
            save_npz(corrected, folder / CORRECTED, split=self._splits(corrected, relabelling.split))
        return out / CORRECTED, f"images without a label, which the copy does not have: {lost}" if lost else ""

    def _splits(self, images: Images, audited: str) -> list[str] | None:
        """The split of each image where the data gives one; `audited` is the split that was audited."""
        original, splits, _ = self.content
        if splits is None:
            return None
        split_of = dict(zip(original.ids.tolist(), splits, strict=True))
        return [split_of[number] for number in images.ids.tolist()]


class NpzData(ArrayData):
    """A .npz file of arrays."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        return isinstance(source, str | Path) and expand(source).suffix.lower() == ".npz" and expand(source).is_file()

    @cached_property
    def content(self) -> Labelled:
        return read_npz(expand(self.source))

    @property
    def name(self) -> str:
        return expand(self.source).stem


class MemoryData(ArrayData):
    """`Images`, or a pair of arrays (X, y): all of them are for training; `test` may give others to test on."""

    takes_test: ClassVar[bool] = True

    def __init__(self, source: Any, options: DataOptions) -> None:
        super().__init__(source, options)
        if self.options.test is None:
            self.train_split = self.test_split = "all"

    @classmethod
    def accepts(cls, source: Any) -> bool:
        pair = (
            isinstance(source, tuple | list) and len(source) == 2 and isinstance(source[0], np.ndarray | torch.Tensor)
        )
        return pair or isinstance(source, Images)

    @cached_property
    def content(self) -> Labelled:
        if isinstance(self.source, Images):
            return Labelled(self.source)
        x, y = (p.numpy(force=True) if isinstance(p, torch.Tensor) else np.asarray(p) for p in self.source)
        return labelled_images({"X": x, "y": y}, where="(X, y)", name="arrays")

    @property
    def name(self) -> str:
        return self.content.images.name

    def training_sets(self, room: Room) -> tuple[ImageSet, ImageSet | None]:
        if self.options.stream:
            self.image_sets(["all"], room)  # raises: images in memory are not streamed
        test = self.options.test
        return self.load(self.train_split), None if test is None else resized(test, self.options.image_size)

    def at_size(self, size: tuple[int, int], *, crop: bool = False) -> Self:
        """Images in memory keep their size: if it is not the network's, they are probably the wrong ones."""
        return self

    def _read(self, split: str, limit: int | None) -> Images:
        if self.options.test is None or split == "all":
            return super()._read(split, limit)
        return part(self.content.images if split == "train" else self.options.test, None, "all", limit)


def part(images: Images, given: list[str] | None, split: str, limit: int | None) -> Images:
    """One split of a set, at most `limit` images of it by an even draw."""
    keys = [str(i) for i in images.ids.tolist()]
    positions = list(range(len(images)))
    if split != "all":
        splits = assign(given, keys, images.labels.tolist())
        positions = [i for i in positions if splits[i] == split]
        if not positions:
            raise no_images(images.name, split)
    drawn = even_draw([keys[i] for i in positions], limit)
    return images if len(drawn) == len(images) else images.select([positions[i] for i in drawn])


def resized(images: Images, size: tuple[int, int] | None, *, crop: bool = False) -> Images:
    """The images brought to `size` (height, width) as files are (see `fit`); None leaves them as they are."""
    if size is None or images.shape[1:] == size:
        return images

    def fitted(pixels: torch.Tensor) -> torch.Tensor:
        rows = pixels.permute(0, 2, 3, 1).squeeze(-1).numpy()
        return torch.from_numpy(np.stack([fit(Image.fromarray(row), *size, crop=crop) for row in rows]))

    return replace(images, pixels=fitted(images.pixels), masks=None if images.masks is None else fitted(images.masks))
