"""Data that is read into memory as a whole: what known sets, .npz files and images in memory have in common."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from PIL import Image

from hitnet.data.formats.npz_file import save_npz
from hitnet.data.images import Images
from hitnet.data.opened import Data, DataOptions, ImageSet, Relabelling, Report, Room
from hitnet.data.reading.copying import check_target
from hitnet.data.reading.decode import fit
from hitnet.data.split import assign, check_split, even_draw, no_images
from hitnet.runtime.files import new_folder

CORRECTED = "images.npz"


class ArrayData(Data):
    """Data in arrays. A corrected copy is a .npz file."""

    def report(self, split: str = "train") -> Report:
        check_split(split)
        return Report(self._with_flip(resized(self._read(split), self.options.image_size)))

    def _read(self, split: str) -> Images:
        """One split, at most `limit` images of it, at its own size."""
        raise NotImplementedError

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        check_target(out, originals=[])
        corrected = relabelling.corrected()
        with new_folder(out) as folder:
            save_npz(corrected, folder / CORRECTED, split=self._splits(corrected, relabelling.split))
        return out / CORRECTED, ""

    def _splits(self, images: Images, audited: str) -> list[str] | None:
        """The split of each image where the data gives one; `audited` is the split that was audited."""
        return None


class MemoryData(ArrayData):
    """Images in memory: all of them are for training; `test` may give others to test on."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        return isinstance(source, Images)

    def _refuse_test(self) -> None:
        """Images in memory take test images."""

    @property
    def address(self) -> str:
        return str(self.source.name)

    @property
    def name(self) -> str:
        return str(self.source.name)

    def __init__(self, source: Images, options: DataOptions | None = None) -> None:
        super().__init__(source, options)
        if self.options.test is None:
            self.train_split = self.test_split = "all"

    def training_sets(self, room: Room) -> tuple[ImageSet, ImageSet | None]:
        if self.options.stream:
            self.image_sets(["all"], room)  # raises: images in memory are not streamed
        test = self.options.test
        return self.load(self.train_split), None if test is None else resized(test, self.options.image_size)

    def at_size(self, size: tuple[int, int]) -> Self:
        """Images in memory keep their size: if it is not the network's, they are probably the wrong ones."""
        return self

    def _read(self, split: str) -> Images:
        if self.options.test is not None and split != "all":
            return part(self.source if split == "train" else self.options.test, None, "all", self.options.limit)
        return part(self.source, None, split, self.options.limit)


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


def resized(images: Images, size: tuple[int, int] | None) -> Images:
    """The images scaled to fit `size` (height, width) and centred on black; None leaves them as they are."""
    if size is None or images.shape[1:] == size:
        return images
    masks = None if images.masks is None else _fitted(images.masks, size)
    return replace(images, pixels=_fitted(images.pixels, size), masks=masks)


def _fitted(pixels: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    rows = pixels.permute(0, 2, 3, 1).squeeze(-1).numpy()
    return torch.from_numpy(np.stack([fit(Image.fromarray(row), *size) for row in rows]))
