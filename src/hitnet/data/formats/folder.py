"""A folder of class folders, on this machine or another, and its corrected copy (class_folders.py has the rules)."""

from __future__ import annotations

import csv
from collections.abc import Sequence, Set
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from hitnet.data.formats.image_files import FileData
from hitnet.data.formats.table import TABLES
from hitnet.data.opened import Relabelling
from hitnet.data.reading import copying
from hitnet.data.reading.class_folders import list_folder
from hitnet.data.reading.entries import SPLITS
from hitnet.data.reading.stored import is_remote
from hitnet.data.reading.survey import Listing
from hitnet.data.split import NAMES
from hitnet.errors import HitNetError
from hitnet.runtime.files import expand, new_folder

ADDRESSES = "labels.csv"  # the corrected copy of a remote folder


class FolderData(FileData):
    """A folder of class folders. The images of a remote one are read where they are."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        if is_remote(source):
            return not source.lower().endswith(TABLES)
        return isinstance(source, str | Path) and expand(source).is_dir()

    @cached_property
    def listing(self) -> Listing:
        return list_folder(self.path)

    @property
    def own_folder(self) -> Path | None:
        return self.path if isinstance(self.path, Path) else None

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        """Copy each file to the folder of its new class, and all other files (captions, unreadable files) unchanged.

        Links stay links; those that lead out of the set are left out. Remote images stay where they are: the copy is a
        table of their addresses with their new labels.
        """
        copying.check_target(out, originals=[] if self.own_folder is None else [self.own_folder])
        if self.own_folder is None:
            return self._write_addresses(relabelling, out)
        root, paths = self.own_folder, relabelling.paths
        others = copying.files_below(root) - {*paths, *relabelling.dropped}
        targets = dict(zip(paths, _targets(relabelling, others), strict=True))
        with new_folder(out) as folder:
            lost = copying.copy_set(root, targets | {other: PurePosixPath(other) for other in others}, folder)
            lost += copying.copy_folder_links(root, folder, used=paths)
            if set(paths) <= set(lost):
                raise HitNetError(f"{copying.links_note(lost)}. No image is left; nothing was written.")
        copied = len(others - set(lost))
        notes = [f"other files, copied as they are: {copied}" if copied else "", copying.links_note(lost)]
        return out, "; ".join(filter(None, notes))

    def _write_addresses(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        entries = self.listing.entries
        splits = dict(zip(entries.paths, entries.splits.tolist(), strict=True))
        with new_folder(out) as folder, (folder / ADDRESSES).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("path", "label", "split"))
            for path, label in zip(relabelling.paths, relabelling.after, strict=True):
                writer.writerow((str(self.file(path)), label, SPLITS[splits[path]]))
        return out / ADDRESSES, "the images stay where they are; the table gives their addresses"


def _targets(relabelling: Relabelling, others: Set[str]) -> list[PurePosixPath]:
    """The new path of each image's file, [split/]class/name, with its new class; other files keep their paths."""
    before, after = relabelling.before, relabelling.after
    parts = [copying.inside(path).parts for path in relabelling.paths]
    depth = _class_depth(parts, before, relabelling.images.name)
    for label in set(after):
        copying.check_folder_name(label)
    moved = [new != old for new, old in zip(after, before, strict=True)]
    targets = [PurePosixPath(*p[:depth], label, *p[depth + 1 :]) for p, label in zip(parts, after, strict=True)]
    # Files that stay keep their names; a file that moves to a folder with a file of its name gets a number.
    taken = {str(target).casefold() for target, moves in zip(targets, moved, strict=True) if not moves}
    taken |= {other.casefold() for other in others}
    for i, moves in enumerate(moved):
        if moves:
            targets[i] = _free(targets[i], taken)
            taken.add(str(targets[i]).casefold())
    return targets


def _class_depth(parts: Sequence[tuple[str, ...]], before: Sequence[str], name: str) -> int:
    """Where paths name the class: 0 for class/file, 1 for split/class/file, the same for the whole set."""

    def fits(depth: int) -> bool:
        return all(len(p) > depth + 1 and p[depth] == old for p, old in zip(parts, before, strict=True))

    if fits(1) and all(p[0].lower() in NAMES for p in parts):
        return 1
    if fits(0):
        return 0
    raise HitNetError(f"{name}: the files do not lie in folders named after their classes; none was copied.")


def _free(target: PurePosixPath, taken: set[str]) -> PurePosixPath:
    free, number = target, 2
    while str(free).casefold() in taken:
        free = target.with_name(f"{target.stem}-{number}{target.suffix}")
        number += 1
    return free
