"""A folder of class folders, on this machine or another: ROOT/<class>/* or ROOT/{train,test}/<class>/*.

The name of a class folder is the class; its files may lie at any depth inside it. Hidden files and folders are
ignored, and so are files whose suffix is not that of an image. Left out, and reported, are pictures of types that are
not read, images outside the class folders, and folders beside train and test that are no split.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from hitnet.data.formats.image_files import FileData
from hitnet.data.formats.table import TABLES
from hitnet.data.opened import Relabelling
from hitnet.data.reading import copying
from hitnet.data.reading.decode import SUFFIXES, UNREAD_SUFFIXES, unread_reason
from hitnet.data.reading.entries import SPLITS, Entries, Listing, Skipped, describe_skipped
from hitnet.data.reading.stored import AnyPath, RemotePath, is_remote
from hitnet.data.split import NAMES, TRAIN, natural, natural_path
from hitnet.errors import HitNetError, log
from hitnet.runtime.files import expand, is_unicode, new_folder

BAD_NAME = "its name is not valid UTF-8; rename it"
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
            relabelling.left_out.update({*paths} & {*lost})
            if set(paths) <= set(lost):
                raise HitNetError(f"{copying.links_note(lost)}. No image is left; nothing was written.")
        copied = len(others - set(lost))
        notes = [f"other files, copied as they are: {copied}" if copied else "", copying.links_note(lost)]
        return out, "; ".join(filter(None, notes))

    def _write_addresses(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        import pandas as pd  # takes a second to import

        entries = self.listing.entries
        splits = dict(zip(entries.paths, entries.splits.tolist(), strict=True))
        paths, labels = relabelling.paths, relabelling.after
        rows = [(self.file(path), label, SPLITS[splits[path]]) for path, label in zip(paths, labels, strict=True)]
        with new_folder(out) as folder:
            table = pd.DataFrame(rows, columns=["path", "label", "split"])
            table.to_csv(folder / ADDRESSES, index=False, lineterminator="\n")
        return out / ADDRESSES, "the images stay where they are; the table gives their addresses"


def list_folder(root: AnyPath) -> Listing:
    """The image files under `root`, in the natural order of their paths."""
    walk = _Walk(root)
    labels: list[str] = []
    given: list[str] = []

    def paths() -> Iterator[str]:
        for split, folder in walk.class_folders():
            files = walk.image_files(folder)
            labels.extend([folder.rpartition("/")[2]] * len(files))
            given.extend([split] * len(files) if split is not None else [])
            yield from files

    entries = Entries.of(root, paths(), labels, given)
    skipped, ignored = walk.skipped, walk.ignored
    if not labels:
        raise HitNetError(
            f"{root} holds no image in a class folder. Expected ROOT/<class>/<image> or "
            f"ROOT/{{train,test}}/<class>/<image>, with images of type {' '.join(sorted(SUFFIXES))}. "
            f"{describe_skipped(skipped, ignored)}".rstrip()
        )
    if len(entries.classes) == 1 and not given and (inner := _inner_folders(entries.paths)):
        raise HitNetError(
            f"{root} has only one class, {labels[0]!r}; at least two are needed. If the folders in it ({inner}) are "
            f"the classes, give {root / labels[0]}. {describe_skipped(skipped, ignored)}".rstrip()
        )
    name = root.resolve().name if isinstance(root, Path) else root.name
    return Listing(name or str(root), entries, tuple(skipped), dict(ignored))


@dataclass
class _Walk:
    """A walk through the folders below `root`; paths start there, and that of `root` itself is ""."""

    root: AnyPath
    skipped: list[Skipped] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)

    def children(self, path: str, skipped: list[Skipped]) -> tuple[Collection[str], Collection[str]]:
        """The names of the folders and of the files in a folder."""
        if not isinstance(self.root, Path):
            return self.remote[path]
        folders: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(os.path.join(self.root, path)) as found:
                for child in found:
                    try:
                        is_folder = child.is_dir()
                    except OSError:  # a link in a circle, or where one may not look; a folder fails when it is listed
                        is_folder = not child.is_symlink()
                    (folders if is_folder else files).append(child.name)
        except OSError as error:
            if not path:
                raise HitNetError(f"{self.root} cannot be read: {error.strerror}.") from error
            skipped.append(Skipped(path, f"the folder cannot be read ({error.strerror})"))
            return (), ()
        return folders, files

    @cached_property
    def remote(self) -> dict[str, tuple[set[str], set[str]]]:
        """All folders, from one list of all files: each further request would take its time."""
        assert isinstance(self.root, RemotePath)
        tree: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
        for path in self.root.files():
            folder, _, name = path.rpartition("/")
            tree[folder][1].add(name)
            while folder:
                folder, _, name = folder.rpartition("/")
                tree[folder][0].add(name)
        return tree

    def class_folders(self) -> list[tuple[str | None, str]]:
        """The split, where there are splits, and the path of each class folder."""
        tops = self.subfolders("", self.skipped)
        splits = {folder: split for folder in tops if (split := NAMES.get(folder.lower())) is not None}
        others = [folder for folder in tops if folder not in splits]
        # "train" and "test" might be classes: they are splits if they hold folders; beside other folders, both must.
        hold_folders = {split for folder, split in splits.items() if self.subfolders(folder, [])}
        if TRAIN not in hold_folders or (others and len(hold_folders) == 1):
            if TRAIN in hold_folders and all(self.subfolders(folder, []) for folder in others):
                message = "%s: %s are taken as classes. If they are splits, call them train and test."
                log.warning(message, self.root, ", ".join(tops[:5]))
            return [(None, folder) for folder in tops]
        beside = f"the folder lies beside the splits {' and '.join(splits)}, but is none"
        self.skipped += [Skipped(folder, beside) for folder in others]
        return [(split, folder) for top, split in splits.items() for folder in self.subfolders(top, self.skipped)]

    def subfolders(self, path: str, skipped: list[Skipped]) -> list[str]:
        """The paths of the folders in a folder; images beside them are left out."""
        start = f"{path}/" if path else ""
        folders, files = (sorted(_shown(names), key=natural) for names in self.children(path, skipped))
        beside = [name for name in files if _suffix(name) in SUFFIXES | UNREAD_SUFFIXES]
        skipped += [Skipped(_printable(start + name), BAD_NAME) for name in folders if not is_unicode(name)]
        skipped += [Skipped(_printable(start + name), "it lies outside the class folders") for name in beside]
        return [start + name for name in folders if is_unicode(name)]

    def image_files(self, class_folder: str) -> list[str]:
        """The paths of a class's images in natural order."""
        files: list[str] = []
        before = len(self.skipped)
        # Links to folders are followed; loops end because each folder is entered once, and none above the class.
        entered = {str(folder) for folder in Path(self.real(class_folder)).parents}
        waiting = [class_folder]
        while waiting:
            here = waiting.pop()
            if (real := self.real(here)) in entered:
                continue
            entered.add(real)
            folders, names = map(_shown, self.children(here, self.skipped))
            waiting += [f"{here}/{name}" for name in sorted(folders, reverse=True)]
            files += [path for name in sorted(names) if self.is_image(path := f"{here}/{name}")]
        if not files and all(item.path != class_folder for item in self.skipped[before:]):
            readable = " that can be read" if len(self.skipped) > before else ""
            self.skipped.append(Skipped(class_folder, f"the class folder holds no image{readable}"))
        return sorted(files, key=natural_path)

    def is_image(self, path: str) -> bool:
        """Whether a file is an image by its name."""
        suffix = _suffix(path)
        if suffix in UNREAD_SUFFIXES:
            self.skipped.append(Skipped(_printable(path), unread_reason(suffix)))
        elif suffix not in SUFFIXES:
            self.ignored[_printable(suffix) or "without suffix"] += 1
        elif not is_unicode(path):
            self.skipped.append(Skipped(_printable(path), BAD_NAME))
        else:
            return True
        return False

    def real(self, path: str) -> str:
        """The same for all paths that lead to the same folder."""
        return os.path.realpath(os.path.join(self.root, path)) if isinstance(self.root, Path) else path


def _inner_folders(paths: Iterable[str]) -> str:
    """Names of the folders below the class folders, if all images lie in such folders; else nothing."""
    parts = [path.split("/") for path in paths]
    names = list(dict.fromkeys(p[1] for p in parts))
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "") if all(len(p) > 2 for p in parts) else ""


def _shown(names: Iterable[str]) -> list[str]:
    return [name for name in names if name[:1] != "."]


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _printable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


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
            target, number = targets[i], 2
            while str(targets[i]).casefold() in taken:
                targets[i] = target.with_name(f"{target.stem}-{number}{target.suffix}")
                number += 1
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
