"""A folder of class folders: ROOT/<class>/* or ROOT/{train,test}/<class>/*.

The name of a class folder is the class; its files may lie at any depth inside it. Hidden files and folders are
ignored, and so are files whose suffix is not that of an image. Left out, and reported, are pictures of types that are
not read, images outside the class folders, and folders beside train and test that are no split.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from hitnet.data.formats.image_files import FileData
from hitnet.data.opened import Relabelling
from hitnet.data.reading.copying import check_target, copy_folder_links, copy_set, files_below, inside, links_in_words
from hitnet.data.reading.decode import PICTURE_SUFFIXES, SUFFIXES, UNREAD_SUFFIXES
from hitnet.data.reading.entries import Entries, Texts
from hitnet.data.reading.left_out import LIES_OUTSIDE, Skipped, in_words, no_images, unread_type
from hitnet.data.reading.survey import Listing
from hitnet.data.split import NAMES, TRAIN, assign, natural, natural_path
from hitnet.errors import HitNetError
from hitnet.runtime.files import expand, is_unicode, new_folder

log = logging.getLogger("hitnet")
BAD_NAME = "its name is not valid UTF-8; rename it"


class FolderData(FileData):
    """A folder of class folders."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        return isinstance(source, str | Path) and expand(source).is_dir()

    @cached_property
    def path(self) -> Path:
        return expand(self.source)

    @cached_property
    def listing(self) -> Listing:
        return list_folder(self.path)

    @property
    def own_folder(self) -> Path:
        return self.path

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        """Copy each file to the folder of its new class, and all other files (captions, unreadable files) unchanged.

        Links stay links; those that lead out of the set are left out.
        """
        check_target(out, originals=[self.path])
        paths = relabelling.paths
        others = files_below(self.path) - {*paths, *relabelling.dropped}
        targets = dict(zip(paths, _targets(relabelling, others), strict=True))
        with new_folder(out) as folder:
            left_out = copy_set(self.path, targets | {other: PurePosixPath(other) for other in others}, folder)
            left_out += copy_folder_links(self.path, folder, used=paths)
            relabelling.left_out.update({*paths} & {*left_out})
            if set(paths) <= set(left_out):
                raise HitNetError(f"{links_in_words(left_out)}. No image is left; nothing was written.")
        copied = len(others - set(left_out))
        words = [f"other files, copied as they are: {copied}" if copied else "", links_in_words(left_out)]
        return out, "; ".join(filter(None, words))


def list_folder(root: Path) -> Listing:
    """The image files under `root`, in the natural order of their paths."""
    skipped: list[Skipped] = []
    ignored: Counter[str] = Counter()
    labels: list[str] = []
    given: list[str] = []

    def paths() -> Iterator[str]:
        for split, class_folder in _class_folders(root, skipped):
            before = len(skipped)
            files = _image_files(class_folder, root, skipped, ignored)
            name = _relative(class_folder, root)
            if not files and all(item.path != name for item in skipped[before:]):
                readable = " that can be read" if len(skipped) > before else ""
                skipped.append(Skipped(name, f"the class folder holds no image{readable}"))
            labels.extend([class_folder.name] * len(files))
            given.extend([split] * len(files) if split is not None else [])
            yield from files

    texts = Texts.of(paths())
    if not labels:
        raise no_images(root, skipped, ignored)
    if len(set(labels)) == 1 and not given and (inner := _inner_folders(texts)):
        raise HitNetError(
            f"{root} has only one class, {labels[0]!r}; at least two are needed. If the folders in it ({inner}) are "
            f"the classes, give {root / labels[0]}. {in_words(skipped, ignored)}".rstrip()
        )
    entries = Entries.of(root, texts, labels, assign(given or None, texts, labels))
    return Listing(root.resolve().name or str(root), entries, tuple(skipped), dict(ignored))


def _inner_folders(paths: Iterable[str]) -> str:
    """Names of the folders below the class folders, if all images lie in such folders; else nothing."""
    parts = [path.split("/") for path in paths]
    names = list(dict.fromkeys(p[1] for p in parts))
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "") if all(len(p) > 2 for p in parts) else ""


def _class_folders(root: Path, skipped: list[Skipped]) -> list[tuple[str | None, Path]]:
    tops = _subfolders(root, root, skipped, top=True)
    splits = {folder: split for folder in tops if (split := NAMES.get(folder.name.lower())) is not None}
    others = [folder for folder in tops if folder not in splits]
    # "train" and "test" might be classes: they are splits if they hold folders; beside other folders, both must.
    hold_folders = {split for folder, split in splits.items() if _subfolders(folder, root, [])}
    if TRAIN not in hold_folders or (others and len(hold_folders) == 1):
        if TRAIN in hold_folders and all(_subfolders(folder, root, []) for folder in others):
            names = ", ".join(folder.name for folder in tops[:5])
            log.warning("%s: %s are taken as classes. If they are splits, call them train and test.", root, names)
        return [(None, folder) for folder in tops]
    beside = " and ".join(folder.name for folder in splits)
    skipped += [Skipped(folder.name, f"the folder lies beside the splits {beside}, but is none") for folder in others]
    return [(split, folder) for top, split in splits.items() for folder in _subfolders(top, root, skipped)]


def _subfolders(folder: Path, root: Path, skipped: list[Skipped], *, top: bool = False) -> list[Path]:
    """The folders in `folder`; images beside them are left out."""
    try:
        children = sorted(folder.iterdir(), key=lambda child: natural(child.name))
        children = [child for child in children if not child.name.startswith(".")]
        folders = [child for child in children if child.is_dir()]
        beside = [child for child in children if _suffix(child.name) in PICTURE_SUFFIXES and not child.is_dir()]
    except OSError as error:
        if top:
            raise HitNetError(f"{folder} cannot be read: {error.strerror}.") from error
        skipped.append(Skipped(_relative(folder, root), f"the folder cannot be read ({error.strerror})"))
        return []
    good = [child for child in folders if is_unicode(child.name)]
    skipped += [_left_out(child, root, BAD_NAME) for child in folders if not is_unicode(child.name)]
    skipped += [_left_out(child, root, LIES_OUTSIDE) for child in beside]
    return good


def _image_files(class_folder: Path, root: Path, skipped: list[Skipped], ignored: Counter[str]) -> list[str]:
    """The paths of a class's images, from `root` on, in natural order."""
    files: list[str] = []
    # Links to folders are followed; loops end because each folder is entered once, and none above the class.
    entered = {str(folder) for folder in class_folder.resolve().parents}

    def refused(error: OSError) -> None:
        folder = _relative(Path(error.filename), root)
        skipped.append(Skipped(folder, f"the folder cannot be read ({error.strerror})"))

    for here, folders, names in os.walk(class_folder, onerror=refused, followlinks=True):
        real = os.path.realpath(here)
        if real in entered:
            folders.clear()
            continue
        entered.add(real)
        inside = _relative(Path(here), root)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            suffix = _suffix(name)
            if suffix in UNREAD_SUFFIXES:
                skipped.append(_left_out(Path(here, name), root, unread_type(suffix)))
            elif suffix not in SUFFIXES:
                ignored[_printable(suffix) or "without suffix"] += 1
            elif not is_unicode(os.path.join(here, name)):
                skipped.append(_left_out(Path(here, name), root, BAD_NAME))
            else:
                files.append(f"{inside}/{name}")
    return sorted(files, key=natural_path)


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _left_out(path: Path, root: Path, reason: str) -> Skipped:
    return Skipped(_printable(_relative(path, root)), reason)


def _printable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")


def _targets(relabelling: Relabelling, others: Set[str]) -> list[PurePosixPath]:
    """The new path of each image's file, [split/]class/name, with its new class; other files keep their paths."""
    before, after = relabelling.before, relabelling.after
    parts = [inside(path).parts for path in relabelling.paths]
    depth = _class_depth(parts, before, relabelling.images.name)
    for label in set(after):
        check_folder_name(label)
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


def check_folder_name(name: str) -> None:
    """Raise HitNetError if a class cannot have a folder of its name."""
    if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
        raise HitNetError(f"The class name {name!r} cannot be the name of a folder; nothing was written.")
