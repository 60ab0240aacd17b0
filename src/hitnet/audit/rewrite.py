"""A corrected data set on disk: the same files under other labels, in a folder of their own.

The folder appears whole or not at all, nothing is written outside it, and the original files are only read. What else
lies in a folder of images (captions, files that cannot be read) is taken over as it is. Files that a table names
outside its own folder stay where they are: the corrected table names them too, by their whole paths. Its rows that
give no image are taken over as they are.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence, Set
from pathlib import Path, PurePosixPath

from hitnet.audit.rewrite_table import write_table
from hitnet.data.images import Images
from hitnet.data.npz import read_npz, save_npz
from hitnet.data.split import NAMES
from hitnet.data.table import TABLES, read_table
from hitnet.errors import HitNetError
from hitnet.files import check_vacant, new_folder


def made_of_files(source: Path | None) -> bool:
    """Whether a set is a folder or a table of image files, which are known by their paths."""
    return source is not None and (source.is_dir() or source.suffix.lower() in TABLES)


def write_corrected(
    images: Images,
    before: Sequence[str],
    dropped: Set[str],
    out: Path,
    *,
    source: Path | None,
    split: list[str] | None = None,
) -> tuple[Path, str]:
    """Write `images` into the new folder `out`; return what `hitnet.data.load` reads, and what else to know of it.

    before   the class name that each image had in the original
    dropped  paths of the images that are left out
    source   what the set was read from: a folder and a table are copied file by file (see above for files that lie
             outside a table's folder), any other set is written as `out/images.npz`
    split    of each image, for that file; by default that of the .npz which the set was read from
    """
    if source is not None and source.is_dir():
        _check_target(out, originals=[source])
        others = _files(source) - {*(images.paths or ()), *dropped}
        targets = _folder_targets(images, before, others)
        with new_folder(out) as folder:
            _copy_files(images, targets, source, folder)
            for other in others:
                _copy(source / other, folder / other)
        return out, f"other files, copied as they are: {len(others)}" if others else ""
    if source is not None and source.suffix.lower() in TABLES:
        _check_target(out, originals=_table_folders(images, source))
        with new_folder(out) as folder:
            note = _copy_table(images, before, dropped, source, folder)
        return out / source.name, note
    _check_target(out, originals=[])
    with new_folder(out) as folder:
        save_npz(images, folder / "images.npz", split=split or _npz_split(images, source))
    return out / "images.npz", ""


def _files(root: Path) -> set[str]:
    """All files below a folder, by their paths in it; links that lead nowhere, pipes and the like are none."""
    found = (Path(folder) / name for folder, _, names in os.walk(root) for name in names)
    return {path.relative_to(root).as_posix() for path in found if path.is_file()}


def _table_folders(images: Images, source: Path) -> list[Path]:
    """The folders of the files that a table names; its own is none of them."""
    folders = {(source.parent / path).parent.resolve() for path in images.paths or ()}
    return sorted(folders - {source.parent.resolve()})


def _folder_targets(images: Images, before: Sequence[str], others: Set[str]) -> list[PurePosixPath]:
    """Where each image's file goes: [split/]class/name, under its new class; other files keep their places."""
    if images.paths is None:
        raise HitNetError(f"{images.name} has no file names, so its folder cannot be copied.")
    parts = [_parts(path).parts for path in images.paths]
    depth = _class_depth(parts, before, images.name)
    labels = [images.class_names[k] for k in images.labels.tolist()]
    for name in set(labels):
        _check_folder_name(name)
    moved = [label != old for label, old in zip(labels, before, strict=True)]
    pairs = zip(parts, labels, strict=True)
    targets = [PurePosixPath(*p[:depth], label, *p[depth + 1 :]) for p, label in pairs]
    # Files that stay keep their names; one that moves in beside a namesake takes a number.
    taken = {str(target).casefold() for target, moves in zip(targets, moved, strict=True) if not moves}
    taken |= {other.casefold() for other in others}
    for i, moves in enumerate(moved):
        if moves:
            targets[i] = _free(targets[i], taken)
            taken.add(str(targets[i]).casefold())
    return targets


def _class_depth(parts: Sequence[tuple[str, ...]], before: Sequence[str], name: str) -> int:
    """0 for class/file, 1 for split/class/file; the same for the whole set."""

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


def _leads_out(path: str) -> bool:
    """Whether a file need not lie below the folder that its path is joined to."""
    system = Path(path)  # knows the system's own separators and drives besides
    return path.startswith("/") or system.is_absolute() or ".." in system.parts


def _parts(path: str) -> PurePosixPath:
    """The path, once it is sure that it stays below the folder it is joined to."""
    parts = PurePosixPath(path).parts
    if not parts or _leads_out(path) or "\0" in path:
        raise HitNetError(f"The file name {path!r} leads out of the data folder; nothing was written.")
    return PurePosixPath(*parts)


def _check_folder_name(name: str) -> None:
    if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
        raise HitNetError(f"The class name {name!r} cannot be the name of a folder; nothing was written.")


def _check_target(out: Path, *, originals: Sequence[Path]) -> None:
    """Nothing is written over what is there, nor among the original files."""
    check_vacant(out)
    for original in originals:
        if out.resolve().is_relative_to(original.resolve()):
            raise HitNetError(f"{out} lies inside the original data {original}. Choose a place outside it.")


def _copy_files(images: Images, targets: Sequence[PurePosixPath | None], root: Path, folder: Path) -> None:
    """Copy each file to its target in the folder; those without one stay where they are, if they are there."""
    for path, target in zip(images.paths or (), targets, strict=True):
        original = root / path
        if not original.is_file():
            raise HitNetError(f"{original} is not there any more. Nothing was written.")
        if target is None:
            continue
        _copy(original, folder / target)


def _copy(original: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(original, copy)


def _copy_table(images: Images, before: Sequence[str], dropped: Set[str], source: Path, folder: Path) -> str:
    """Copy a table and the files it names; return what else to know of the copy."""
    table, root, paths = read_table(source), source.parent, images.paths or ()
    targets = [None if _leads_out(path) else _parts(path) for path in paths]
    _copy_files(images, targets, root, folder)
    labels = [images.class_names[k] for k in images.labels.tolist()]
    others = {file for file in table.files() if file} - {*paths, *dropped}
    for file in others:
        if not _leads_out(file) and (root / file).is_file():
            _copy(root / file, folder / file)
    return write_table(
        table,
        folder / source.name,
        labels=dict(zip(paths, labels, strict=True)),
        relabelled={path for path, label, old in zip(paths, labels, before, strict=True) if label != old},
        dropped=dropped,
        renamed={file: os.path.abspath(root / file) for file in {*paths, *others} if _leads_out(file)},
    )


def _npz_split(images: Images, source: Path | None) -> list[str] | None:
    if source is None or source.suffix.lower() != ".npz":
        return None
    original, split = read_npz(source)
    if split is None:
        return None
    of = dict(zip(original.ids.tolist(), split, strict=True))
    return [of[number] for number in images.ids.tolist()]
