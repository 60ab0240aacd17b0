"""Copy the files of a set for its corrected copy: links stay links, and nothing from outside the set comes in."""

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from hitnet.errors import HitNetError
from hitnet.runtime.files import check_vacant

WINDOWS = os.name == "nt"
RESERVED = re.compile(r"(?is)(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?|.*[<>:\"|?*\x00-\x1f].*|.*[. ]")
SHOWN = 5  # names of links in a message


def inside(path: str) -> PurePosixPath:
    """The path, after a check that it stays below the folder it is joined to."""
    parts = PurePosixPath(path).parts
    if not parts or leads_out(path) or "\0" in path:
        raise HitNetError(f"The file name {path!r} leads out of the data folder; nothing was written.")
    return PurePosixPath(*parts)


def leads_out(path: str) -> bool:
    """Whether a path may lead out of the folder that it is joined to."""
    system = Path(path)  # also knows the system's own separators and drives
    return path.startswith("/") or system.is_absolute() or ".." in system.parts


def is_within(root: Path, path: str) -> bool:
    """Whether a path leads to a file below `root` that lies there itself: neither .. nor a link leads out."""
    return not leads_out(path) and _relative(os.path.realpath(root / path), os.path.realpath(root)) is not None


def check_target(out: Path, *, originals: Sequence[Path]) -> None:
    """Raise HitNetError if the folder for a copy is in use or lies inside the original data."""
    check_vacant(out)
    for original in originals:
        check_outside(out, original)


def check_outside(out: Path, folder: Path, what: str = "the original data") -> None:
    """Raise HitNetError if a result would lie inside a folder that it does not belong to."""
    if out.resolve().is_relative_to(folder.resolve()):
        raise HitNetError(f"{out} lies inside {what} {folder.resolve()}. Choose a place outside it with `out`.")


def copy_set(root: Path, targets: Mapping[str, PurePosixPath], folder: Path) -> list[str]:
    """Copy files below `root` to their targets in `folder`.

    A link to another file of the set becomes a link to that file's copy. If that file has no copy, the link becomes a
    copy of it. Links out of the set, and links to nothing, are left out; they are returned.
    """
    base = os.path.realpath(root)
    own: dict[str, PurePosixPath] = {}  # the targets of files that are no links
    links: dict[str, str] = {}  # what each link stands for, from `root` on
    lost = []
    for path, target in targets.items():
        odd = [part for part in target.parts if WINDOWS and RESERVED.fullmatch(part)]
        if odd:  # Windows would write it under another name
            raise HitNetError(f"Windows has no files or folders named {odd[0]!r}; nothing was written.")
        real = os.path.realpath(root / path)
        relative = _relative(real, base)
        if relative == inside(path).as_posix():
            if not os.path.isfile(real):
                raise HitNetError(f"{root / path} is not there any more. Nothing was written.")
            own[relative] = target
        elif relative is None or not os.path.isfile(real):
            lost.append(path)
        else:
            links[path] = relative
    for relative, target in own.items():
        copy_file(root / relative, folder / target)
    for path, relative in links.items():
        place = folder / targets[path]
        if relative not in own or not _link(folder / own[relative], place):
            copy_file(root / relative, place)
    return lost


def copy_file(original: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(original, copy, follow_symlinks=False)


def copy_folder_links(root: Path, folder: Path, used: Iterable[str]) -> list[str]:
    """Repeat links to folders of the set in its copy; those below which a file was copied are folders there.

    Returns the links that were left out: those out of the set, and those to folders that the copy does not have.
    """
    base, through = os.path.realpath(root), {str(parent) for path in used for parent in PurePosixPath(path).parents}
    lost = []
    for here, names, _ in os.walk(root):
        for name in names:
            path = Path(here, name)
            shown = path.relative_to(root).as_posix()
            if not path.is_symlink() or shown in through:
                continue
            relative = _relative(os.path.realpath(path), base)
            if relative is None or not (folder / relative).is_dir() or not _link(folder / relative, folder / shown):
                lost.append(shown)
    return lost


def files_below(root: Path) -> set[str]:
    """The paths of all files and of all links to files below a folder, without pipes and the like."""
    paths = (Path(folder) / name for folder, _, names in os.walk(root) for name in names)
    return {path.relative_to(root).as_posix() for path in paths if path.is_symlink() or path.is_file()}


def links_note(lost: Sequence[str]) -> str:
    """A note on links that were left out; empty if there are none."""
    if not lost:
        return ""
    shown = ", ".join(sorted(lost)[:SHOWN]) + (" …" if len(lost) > SHOWN else "")
    lead, are = ("link leads", "is") if len(lost) == 1 else ("links lead", "are")
    advice = "To include what they stand for, put the files themselves into the set"
    return f"{len(lost)} {lead} out of the set or to nothing and {are} left out: {shown}. {advice}"


def check_folder_name(name: str) -> None:
    """Raise HitNetError if a class cannot have a folder of its name."""
    if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
        raise HitNetError(f"The class name {name!r} cannot be the name of a folder; nothing was written.")


def _relative(real: str, base: str) -> str | None:
    """The path from `base` on of a file below it; None for other files."""
    below = real != base and Path(real).is_relative_to(base)
    return Path(real).relative_to(base).as_posix() if below else None


def _link(original: Path, link: Path) -> bool:
    """Make a relative link; False where the system makes none."""
    link.parent.mkdir(parents=True, exist_ok=True)
    try:
        link.symlink_to(os.path.relpath(original, link.parent), target_is_directory=original.is_dir())
    except OSError:
        return False
    return True
