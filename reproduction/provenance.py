"""Where a run comes from: device, PyTorch and sources; and which lines name sources that no commit holds."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path, PurePosixPath

import torch

import hitnet
from hitnet import HitNetError
from hitnet.runtime import check_schema, read_json, write_json

ORIGIN_FILE = "origin.json"  # in a run folder
ORIGIN = [{"device": str, "torch": str, "code": str}]
# Sources of old runs that no commit holds, as `--check-sources` finds them.
UNHELD = ("dcad48aec78e", "535fc52e37fc", "140cec21f5e5", "93309301808b")
LABORATORY = Path(__file__).resolve().parent
PACKAGE, WATCHED = "src/hitnet", ("src/hitnet/*.py", "reproduction/*.py", ":!reproduction/tests")


def note_origin(folder: Path, device: str) -> None:
    """Add this machine and this code to those that worked on the run in a folder."""
    file = folder / ORIGIN_FILE
    origins = _origins(file) if file.is_file() else []
    current = {"device": device, "torch": torch.__version__, "code": code_version()}
    if current not in origins:
        write_json(file, [*origins, current])


def _origins(file: Path) -> list[dict[str, str]]:
    origins: list[dict[str, str]] = read_json(file)
    check_schema(origins, ORIGIN, file)
    return origins


def read_origin(folder: Path) -> dict[str, str]:
    """Device, torch and code of the run in a folder; several of each where it was continued elsewhere."""
    if not (folder / ORIGIN_FILE).is_file():
        raise HitNetError(
            f"{folder} has no {ORIGIN_FILE}, which says where a run was trained, so it cannot be recorded. If the run "
            "was copied, copy all files of its folder; otherwise move the folder away, and the run is made again."
        )
    origins = _origins(folder / ORIGIN_FILE)
    return {
        key: ", then ".join(dict.fromkeys(origin[key] for origin in origins)) for key in ("device", "torch", "code")
    }


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def code_version() -> str:
    """The version of the package, and the commit of its repository.

    Without a commit to name, as on a machine that got only the sources, a checksum of the sources stands in its place.
    Where the sources were changed since the commit, the checksum follows it, with a "+" at the end.
    """
    root = source_root()
    try:
        if root is None:
            raise FileNotFoundError
        commit = run_git(root, "describe", "--always", "--abbrev=12", "--exclude=*")
        changes = run_git(root, "status", "--porcelain", "--", *WATCHED)
    except (OSError, subprocess.SubprocessError):
        return f"{hitnet.__version__} sources {source_checksum()}"
    return f"{hitnet.__version__} {commit}" + (f" sources {source_checksum()}+" if changes else "")


def is_held(code: str) -> bool:
    """Whether it can be shown here that commits of this repository hold the sources of a version."""
    try:
        return not unheld_sources([code])
    except HitNetError:
        return False


def run_git(root: Path, *arguments: str) -> str:
    process = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return process.stdout.strip()


def source_checksum() -> str:
    """A checksum of all Python files of the package and of the laboratory, without tests."""
    package = Path(hitnet.__file__).parent
    own = {file.relative_to(package).as_posix(): file.read_bytes() for file in package.rglob("*.py")}
    return digest_of(own, {file.name: file.read_bytes() for file in LABORATORY.glob("*.py")})


def digest_of(package: Mapping[str, bytes], laboratory: Mapping[str, bytes]) -> str:
    """A checksum of files by their names; the first lines of the ledger have one of the package alone."""
    digest = hashlib.blake2b(digest_size=6)
    for prefix, files in (("", package), ("reproduction/", laboratory)):
        for name in sorted(files, key=lambda name: PurePosixPath(name).parts):
            digest.update((prefix + name).encode() + b"\0" + files[name])
    return digest.hexdigest()


def source_root() -> Path | None:
    """The repository that contains this package; None without one."""
    root = LABORATORY.parent
    return root if (root / "pyproject.toml").is_file() and (root / PACKAGE).is_dir() else None


def unheld_sources(codes: Iterable[str]) -> list[str]:
    """Those versions whose sources no commit of this repository holds.

    Raises:
        HitNetError: There is no repository to look into.
    """
    root = source_root()
    try:
        if root is None:
            raise FileNotFoundError
        commits = frozenset(commit[:12] for commit in run_git(root, "rev-list", "--all").split())
    except (OSError, subprocess.SubprocessError) as error:
        raise HitNetError("The sources' history cannot be read: this needs git and the repository itself.") from error
    wanted = [code for code in dict.fromkeys(codes) if not _are_held(code, commits)]
    return [code for code in wanted if not _are_held(code, commits | _checksums_of_commits(root, commits))]


def _are_held(code: str, known: frozenset[str]) -> bool:
    """Whether all sources of a version are known: by their checksum if they have one, else by their commit."""
    parts = code.split(", then ")
    checksums = [re.search(r" sources ([0-9a-f]{12})", part) for part in parts]
    return all(
        (found[1] if found else part.split(" ")[-1]) in known for part, found in zip(parts, checksums, strict=True)
    )


@cache
def _checksums_of_commits(root: Path, commits: frozenset[str]) -> frozenset[str]:
    """The checksums of the sources at each commit: of the package, and of package and laboratory."""
    trees: list[dict[str, str]] = []  # by path, the blob of each Python file
    for commit in run_git(root, "rev-list", "--all", "--", PACKAGE, "reproduction").split():
        rows = run_git(root, "ls-tree", "-r", commit, "--", PACKAGE, "reproduction").splitlines()
        trees.append({line.split("\t")[1]: line.split()[2] for line in rows if line.endswith(".py")})
    contents = _read_blobs(root, sorted({blob for tree in trees for blob in tree.values()}))
    checksums: set[str] = set()
    for tree in trees:
        files = {path: contents[blob] for path, blob in tree.items()}
        package = {path.removeprefix(f"{PACKAGE}/"): file for path, file in files.items() if path.startswith(PACKAGE)}
        laboratory = {Path(path).name: file for path, file in files.items() if path.count("/") == 1}
        checksums |= {digest_of(package, {}), digest_of(package, laboratory)}
    return frozenset(checksums)


def _read_blobs(root: Path, blobs: Sequence[str]) -> dict[str, bytes]:
    """The contents of files in the repository's history, by their names there; one call of git for all of them."""
    process = subprocess.run(
        ["git", "-C", str(root), "cat-file", "--batch"],
        input="".join(f"{blob}\n" for blob in blobs).encode(),
        capture_output=True,
        check=True,
        timeout=60,
    )
    output, contents, place = process.stdout, {}, 0
    for blob in blobs:  # each has a line "name kind size" before it, and a line's end after it
        start = output.index(b"\n", place) + 1
        place = start + int(output[place:start].split()[-1])
        contents[blob] = output[start:place]
        place += 1
    return contents
