"""A folder of class folders: ROOT/<class>/* or ROOT/{train,test}/<class>/*.

The name of the class folder is the class; files count at any depth inside it. Hidden files and folders are
passed over, and so are files whose suffix is of no image type. Other folders beside train and test are left out.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from hitnet.data.decode import SUFFIXES
from hitnet.data.entries import Entries, Texts
from hitnet.data.listing import Listing, Skipped
from hitnet.data.split import NAMES, TRAIN, assign, natural, natural_path
from hitnet.errors import HitNetError


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
            if not files and len(skipped) == before:
                skipped.append(Skipped(_relative(class_folder, root), "the class folder holds no image"))
            labels.extend([class_folder.name] * len(files))
            given.extend([split] * len(files) if split is not None else [])
            yield from files

    found = Texts.of(paths())
    if not labels:
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in sorted(ignored.items()))
        raise HitNetError(
            f"{root} holds no image in a class folder{f' (found: {kinds})' if kinds else ''}. "
            "Expected ROOT/<class>/<image> or ROOT/{train,test}/<class>/<image>, "
            f"with images of type {' '.join(sorted(SUFFIXES))}."
        )
    entries = Entries.of(root, found, labels, assign(given or None, found, labels))
    return Listing(root.resolve().name or str(root), entries, tuple(skipped), dict(ignored))


def _class_folders(root: Path, skipped: list[Skipped]) -> list[tuple[str | None, Path]]:
    tops = _subfolders(root, root, skipped, top=True)
    splits = {folder: split for folder in tops if (split := NAMES.get(folder.name.lower())) is not None}
    others = [folder for folder in tops if folder not in splits]
    # "train" and "test" might be classes: they are splits if they hold folders, both of them where others lie beside.
    hold_folders = {split for folder, split in splits.items() if _subfolders(folder, root, [])}
    if TRAIN not in hold_folders or (others and len(hold_folders) == 1):
        return [(None, folder) for folder in tops]
    beside = " and ".join(folder.name for folder in splits)
    skipped += [Skipped(folder.name, f"the folder lies beside the splits {beside}, but is none") for folder in others]
    return [(split, folder) for top, split in splits.items() for folder in _subfolders(top, root, skipped)]


def _subfolders(folder: Path, root: Path, skipped: list[Skipped], *, top: bool = False) -> list[Path]:
    try:
        children = sorted(folder.iterdir(), key=lambda child: natural(child.name))
        folders = [child for child in children if not child.name.startswith(".") and child.is_dir()]
    except OSError as error:
        if top:
            raise HitNetError(f"{folder} cannot be read: {error.strerror}.") from error
        skipped.append(Skipped(_relative(folder, root), f"the folder cannot be read ({error.strerror})"))
        return []
    good = [child for child in folders if _is_unicode(child.name)]
    skipped += [_bad_name(child, root) for child in folders if child not in good]
    return good


def _image_files(class_folder: Path, root: Path, skipped: list[Skipped], ignored: Counter[str]) -> list[str]:
    """Paths from `root` on, in their natural order."""
    files: list[str] = []
    # Links to folders are followed, but each folder is entered once, and none above the class: loops end.
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
        for name in names:
            suffix = os.path.splitext(name)[1].lower()
            if name.startswith("."):
                continue
            if suffix not in SUFFIXES:
                ignored[suffix or "(none)"] += 1
            elif not _is_unicode(os.path.join(here, name)):
                skipped.append(_bad_name(Path(here, name), root))
            else:
                files.append(f"{inside}/{name}")
    return sorted(files, key=natural_path)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _is_unicode(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _bad_name(path: Path, root: Path) -> Skipped:
    shown = os.fsencode(path.relative_to(root)).decode("utf-8", "replace")
    return Skipped(shown, "its name is not valid UTF-8; rename it")
