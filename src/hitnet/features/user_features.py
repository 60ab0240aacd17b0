"""Features that a user already has: an .npy, .npz or .parquet file with one row per image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hitnet.data import Images
from hitnet.data.reading.array_files import read_npy, read_npz
from hitnet.data.reading.parquet import read_parquet
from hitnet.errors import HitNetError
from hitnet.runtime.files import expand

KINDS = (".npy", ".npz", ".parquet")


def read_features(path: str | Path, images: Images) -> Tensor:
    """Features (N, D) of the images, in their order, as float32.

    An .npy has one row per image, in the order of ids. An .npz has the arrays `features` and `id` or `path`. A .parquet
    has a column `id` or `path`; all its columns of numbers are features.

    Raises:
        HitNetError: The file cannot be read, has other rows, or has values that are not finite.
    """
    file = expand(path)
    kind = file.suffix.lower()
    if kind not in KINDS:
        raise HitNetError(f"{file}: `features` must be a file of type {', '.join(KINDS)}.")
    if not file.is_file():
        raise HitNetError(f"`features`: there is no file {file}.")
    values, keys, key_name = _read(file, kind)
    if values.ndim != 2 or not values.shape[1] or values.dtype.kind not in "fiu" or not _finite(values):
        raise HitNetError(f"{file}: features must be finite numbers (N, D); got {values.dtype} {values.shape}.")
    return torch.from_numpy(np.ascontiguousarray(values[_rows(file, keys, key_name, images, len(values))], np.float32))


def _finite(values: np.ndarray) -> bool:
    """Whether all values are finite in float32 too."""
    return bool((np.abs(values) <= np.finfo(np.float32).max).all())


def _read(file: Path, kind: str) -> tuple[np.ndarray, np.ndarray | None, str]:
    """Values (N, D), the key of each row (None: the order of ids), and whether keys are ids or paths."""
    if kind == ".npy":
        return read_npy(file), None, "id"
    if kind == ".npz":
        arrays = read_npz(file, ("features", "id", "path"))
        name = next((name for name in ("id", "path") if name in arrays), None)
        if name is None or "features" not in arrays:
            held = ", ".join(arrays) or "none of these"
            raise HitNetError(f"{file} must hold `features` and `id` or `path`; it holds {held}.")
        return arrays["features"], arrays[name], name
    frame = read_parquet(file)
    name = next((name for name in ("id", "path") if name in frame), None)
    if name is None:
        raise HitNetError(f"{file} must have a column `id` or `path`; it has {', '.join(map(str, frame.columns))}.")
    numbers = frame.drop(columns=["id", "path"], errors="ignore").select_dtypes("number")
    return numbers.to_numpy(), frame[name].to_numpy(), name


def _rows(file: Path, keys: np.ndarray | None, key_name: str, images: Images, count: int) -> np.ndarray:
    """The row of each image."""
    if keys is None:
        ids = images.ids.numpy()
        if count != len(images) and (not len(ids) or ids.max() >= count):
            raise HitNetError(f"{file} has {count:,} rows, but there are {len(images):,} images.")
        return np.argsort(np.argsort(ids)) if count == len(images) else ids
    if key_name == "path" and images.paths is None:
        raise HitNetError(f"{file} names its rows by path, but {images.name} has no paths. Use `id`.")
    if keys.shape != (count,):
        raise HitNetError(
            f"{file}: `{key_name}` must have one entry per row of features, ({count},); got {keys.shape}."
        )
    names = keys.tolist()
    sound = all(isinstance(key, str) for key in names) if key_name == "path" else keys.dtype.kind in "iuf"
    if not sound:
        raise HitNetError(f"{file}: `{key_name}` must hold {'text' if key_name == 'path' else 'whole numbers'}.")
    wanted = list(images.paths or ()) if key_name == "path" else images.ids.tolist()
    place: dict[Any, int] = {}
    for i, key in enumerate(names):
        if place.setdefault(key, i) != i:
            raise HitNetError(f"{file} has two rows for the {key_name} {key!r}.")
    missing = [key for key in wanted if key not in place]
    if missing:
        raise HitNetError(
            f"{file} has no features of {len(missing):,} of {len(images):,} images; the first is {missing[0]!r}."
        )
    return np.array([place[key] for key in wanted])
