"""A .npz of arrays as data (npz_file.py says which arrays)."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from hitnet.data.arrays import ArrayData, part
from hitnet.data.images import Images
from hitnet.data.npz_file import read_npz
from hitnet.files import expand


class NpzData(ArrayData):
    """A .npz file of arrays."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        return isinstance(source, str | Path) and expand(source).suffix.lower() == ".npz" and expand(source).is_file()

    @cached_property
    def path(self) -> Path:
        return expand(self.source)

    @property
    def address(self) -> str:
        return str(self.path.absolute())

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def _content(self) -> tuple[Images, list[str] | None]:
        return read_npz(self.path)

    def _read(self, split: str) -> Images:
        images, splits = self._content
        return part(images, splits, split, self.options.limit)

    def _splits(self, images: Images, audited: str) -> list[str] | None:
        original, splits = self._content
        if splits is None:
            return None
        split_of = dict(zip(original.ids.tolist(), splits, strict=True))
        return [split_of[number] for number in images.ids.tolist()]
