"""A folder of class folders on another machine; the same rules as for a local one (see folder.py)."""

from __future__ import annotations

import csv
from collections import Counter
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from hitnet.data.formats.image_files import FileData
from hitnet.data.formats.table import TABLES
from hitnet.data.opened import Relabelling
from hitnet.data.reading.copying import check_target
from hitnet.data.reading.decode import PICTURE_SUFFIXES, SUFFIXES, UNREAD_SUFFIXES
from hitnet.data.reading.entries import Entries, Texts
from hitnet.data.reading.left_out import LIES_OUTSIDE, Skipped, no_images, unread_type
from hitnet.data.reading.remote import RemotePath, is_remote
from hitnet.data.reading.survey import Listing
from hitnet.data.split import NAMES, TRAIN, assign, natural_path
from hitnet.runtime.files import new_folder

CORRECTED = "labels.csv"


class RemoteFolderData(FileData):
    """A folder of class folders whose path has a scheme. Its images are read where they are."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        return is_remote(source) and not str(source).lower().endswith(TABLES)

    @cached_property
    def listing(self) -> Listing:
        return list_remote(RemotePath(str(self.source)))

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        """Write a table of the images' addresses with their new labels; the images stay where they are."""
        check_target(out, originals=[])
        entries = self.listing.entries
        splits = {entry.path: entry.split for entry in entries}
        with new_folder(out) as folder, (folder / CORRECTED).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("path", "label", "split"))
            for path, label in zip(relabelling.paths, relabelling.after, strict=True):
                writer.writerow((str(self.file(path)), label, splits[path]))
        return out / CORRECTED, "the images stay where they are; the table gives their addresses"


def list_remote(root: RemotePath) -> Listing:
    """The image files under `root`, in the natural order of their paths."""
    skipped: list[Skipped] = []
    ignored: Counter[str] = Counter()
    files = sorted((path for path in root.files() if not _hidden(path)), key=natural_path)
    depth = _class_depth(files)
    paths: list[str] = []
    for path in files:
        parts, suffix = path.split("/"), PurePosixPath(path).suffix.lower()
        if len(parts) < depth + 2 or (depth and parts[0].lower() not in NAMES):
            if suffix in PICTURE_SUFFIXES:
                skipped.append(Skipped(path, LIES_OUTSIDE))
        elif suffix in SUFFIXES:
            paths.append(path)
        elif suffix in UNREAD_SUFFIXES:
            skipped.append(Skipped(path, unread_type(suffix)))
        else:
            ignored[suffix or "without suffix"] += 1
    if not paths:
        raise no_images(root, skipped, ignored)
    labels = [path.split("/")[depth] for path in paths]
    given = [NAMES[path.split("/")[0].lower()] for path in paths] if depth else None
    texts = Texts.of(paths)
    entries = Entries.of(root, texts, labels, assign(given, texts, labels))
    return Listing(root.name or str(root), entries, tuple(skipped), dict(ignored))


def _hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def _class_depth(files: list[str]) -> int:
    """Where paths name the class: 1 below train and test, else 0; by the rule for local folders."""
    tops = {path.split("/")[0] for path in files if "/" in path}
    with_folders = {path.split("/")[0] for path in files if path.count("/") > 1}
    splits = {NAMES[top.lower()] for top in with_folders if top.lower() in NAMES}
    others = [top for top in tops if top.lower() not in NAMES]
    return 0 if TRAIN not in splits or (others and len(splits) == 1) else 1
