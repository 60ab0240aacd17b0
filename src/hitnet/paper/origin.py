"""Where and when a run was worked on: on which device, with which torch and which version of this code."""

from __future__ import annotations

import hashlib
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import hitnet
from hitnet import files
from hitnet.errors import HitNetError

FILE = "origin.json"  # in a run folder


def note_origin(folder: Path, device: str) -> None:
    """Add this machine and this code to those that worked on a run."""
    file = folder / FILE
    before = files.read_json(file) if file.is_file() else []
    here = {"device": device, "torch": torch.__version__, "code": code_version()}
    if here not in before:
        files.write_json(file, [*before, here])


def read_origin(folder: Path) -> dict[str, str]:
    """Device, torch and code of a run; several where it was continued elsewhere."""
    if not (folder / FILE).is_file():
        raise HitNetError(
            f"{folder} has no {FILE}, which says where a run was trained: this one cannot be recorded. If it was "
            "copied, copy all files of its folder; else move it away, and the run is made again."
        )
    found: list[dict[str, Any]] = files.read_json(folder / FILE)
    return {key: ", then ".join(dict.fromkeys(one[key] for one in found)) for key in ("device", "torch", "code")}


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def code_version() -> str:
    """The version of the package and the commit of a checkout, with "+" where the package's sources were changed since
    (its ledger is none of them); there, and where there is no commit to name, a checksum of these sources."""
    root = source_root()
    try:
        if root is None:
            raise FileNotFoundError
        commit = git(root, "describe", "--always", "--abbrev=12", "--exclude=*")
        changed = git(root, "status", "--porcelain", "--", "src/hitnet/*.py")
    except (OSError, subprocess.SubprocessError):
        return f"{hitnet.__version__} sources {source_checksum()}"
    return f"{hitnet.__version__} {commit}" + (f"+ sources {source_checksum()}" if changed else "")


def git(root: Path, *arguments: str) -> str:
    said = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True, timeout=20)
    return said.stdout.strip()


def source_checksum() -> str:
    package = Path(hitnet.__file__).parent
    digest = hashlib.blake2b(digest_size=6)
    for file in sorted(package.rglob("*.py")):
        digest.update(str(file.relative_to(package)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def source_root() -> Path | None:
    """The repository that this package is run from, if it is."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "pyproject.toml").is_file() and (root / "src" / "hitnet").is_dir() else None
