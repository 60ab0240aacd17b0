"""Tensors in safetensors files, with a checksum that is compared when they are read."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from hitnet.errors import HitNetError
from hitnet.runtime import files, schemas

ENTRY = "hitnet"  # the only entry of the file's metadata: safetensors writes several in random order
CHECKSUM = "checksum"
LARGEST = 64 << 30  # bytes


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and texts, whole or not at all."""
    kept = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    try:
        with files.replacing(path) as temporary:
            save_file(kept, temporary, {ENTRY: about(kept, metadata)})
    except SafetensorError as error:  # hides the system's own error, e.g. of a full disk
        raise HitNetError(f"Cannot write {path}: {error}. Choose another place.") from error


def about(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """Texts and checksum as one text: the same tensors and texts always give the same file."""
    return json.dumps({**metadata, CHECKSUM: tensor_checksum(tensors, metadata)}, sort_keys=True)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The open file; what goes wrong with it is a HitNetError."""
    files.check_regular(path, largest=LARGEST)
    try:
        with safe_open(path, framework="pt") as opened:
            yield opened
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise HitNetError(f"{path} is damaged or no safetensors file: {error}") from error


def read_metadata(path: Path) -> dict[str, str]:
    """The texts beside the tensors, and their checksum; whether the tensors are sound is not checked."""
    with _opened(path) as opened:
        metadata: dict[str, str] = json.loads((opened.metadata() or {}).get(ENTRY, "{}"))
        schemas.check_schema(metadata, {CHECKSUM: str, str: str}, path)
    return metadata


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor, from the file's header; the tensors are not read."""
    with _opened(path) as opened:
        return {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the texts beside them; raises HitNetError if a single bit has changed since they were written."""
    metadata = read_metadata(path)
    with _opened(path):
        tensors = load_file(path)
    if metadata.pop(CHECKSUM) != tensor_checksum(tensors, metadata):
        raise HitNetError(f"{path} is damaged: its checksum does not match. Restore a copy, or train again.")
    return tensors, metadata


def tensor_checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """A hash of names, types, shapes, values and texts."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr(sorted(metadata.items())).encode("utf-8", "surrogatepass"))
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode("utf-8", "surrogatepass"))
        digest.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
