"""A .npz of arrays as data (npz_file.py says which arrays)."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hitnet.data.formats.arrays import ArrayData, part
from hitnet.data.formats.npz_file import read_npz
from hitnet.data.images import Images
from hitnet.data.opened import Relabelling, Report
from hitnet.data.reading.left_out import Skipped, stop_if_strict
from hitnet.runtime.files import expand


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
    def _content(self) -> tuple[Images, list[str] | None, tuple[Skipped, ...]]:
        return read_npz(self.path)

    def report(self, split: str = "train") -> Report:
        unlabelled = self._content[2]
        stop_if_strict(self.name, unlabelled, strict=self.options.strict)
        return replace(super().report(split), skipped=unlabelled)

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        path, _ = super().write_corrected(relabelling, out)
        unlabelled = len(self._content[2])
        return path, f"images without a label, which the copy does not have: {unlabelled}" if unlabelled else ""

    def _read(self, split: str) -> Images:
        images, splits, _ = self._content
        return part(images, splits, split, self.options.limit)

    def _splits(self, images: Images, audited: str) -> list[str] | None:
        original, splits, _ = self._content
        if splits is None:
            return None
        split_of = dict(zip(original.ids.tolist(), splits, strict=True))
        return [split_of[number] for number in images.ids.tolist()]
