"""The features of a dataset: of its files, which are kept, of its images in memory, or those that a user has."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hitnet.data import Data, ImageSet, Source, open_data
from hitnet.data.images import Streamed
from hitnet.data.reading.array_files import read_npy, read_npz, read_numbers
from hitnet.errors import HitNetError, MissingFileError
from hitnet.features.cache import kept_features
from hitnet.features.extraction import extract
from hitnet.features.one_pass import OnePass, cached_features
from hitnet.models.backbones import DEFAULT, Backbone, open_backbone
from hitnet.runtime import Progress, check_schema, expand, read_json, replacing, shown, write_json
from hitnet.runtime.device import Device, pick_device
from hitnet.runtime.ranks import SINGLE, Ranks, connect, watched

USER_FILES = (".npy", ".npz", ".parquet")  # of features
BLOCK, COLUMNS = 4096, 64  # rows that are checked at once, and columns that are arranged at once


def extract_features(
    data: Source,
    *,
    out: str | Path,
    backbone: str | Backbone = DEFAULT,
    weights: str | Path | None = None,
    split: str | None = None,
    device: Device = "auto",
    progress: Progress | bool = True,
) -> Tensor:
    """Compute the features of all images of a data set, (N, D) in float16, in the order of their ids.

    The features of image files are also kept, so that an audit of the same files finds them. Under torchrun, the
    processes share the files.

    Args:
        data: Opened data, or what `open_data` takes.
        out: The .npy file to write. The result is mapped to it: features and images are not kept in memory.
        backbone: "efficientnet-lite0" (in the package), "timm:NAME", or a `Backbone`.
        weights: A .safetensors file with the backbone's weights. None: its published weights.
        split: train, test or all. None: what an audit looks at.
        device: auto, cpu, cuda, cuda:1, or a torch.device.
        progress: True shows a bar in a terminal or a notebook. Or hooks of your own.
    """
    target = expand(out)
    if target.suffix != ".npy":
        raise HitNetError(f"`out` must be an .npy file; got {out}.")
    where = pick_device(device)
    ranks = connect(where)
    with watched(ranks):
        opened = open_data(data)
        opened.check_outside(target)
        network = open_backbone(backbone, weights)
        with shown(progress, f"Features of {opened.name}") as bar:
            look = OnePass(network, device=where, progress=bar, ranks=ranks)
            images = opened.looked_at(split or opened.audit_split, look)
            features = features_of(opened, images, network, out=target, device=where, progress=bar, ranks=ranks)
        if ranks.first and opened.by_path:
            write_json(names_of(target), list(images.paths or ()))
        return features


def names_of(features: Path) -> Path:
    """The file that names the rows of a file of features."""
    return features.with_suffix(".paths.json")


def features_of(
    data: Data,
    images: ImageSet,
    backbone: Backbone,
    *,
    device: torch.device,
    out: Path | None = None,
    progress: Progress = Progress(),
    ranks: Ranks = SINGLE,
) -> Tensor:
    """Features of images of opened data, (N, D) in float16, mapped to the file `out` where one is given."""
    if images.checksums is not None:  # a pass with this backbone has looked at them
        return kept_features(images.checksums, backbone, out=out, ranks=ranks)
    files = data.image_files(images)
    if files is not None:
        return cached_features(files, backbone, device=device, out=out, progress=progress, ranks=ranks)
    progress.part("features", len(images), "images")
    if isinstance(images, Streamed):
        raise HitNetError(f"{images.name} is read from disk, but not from image files.")
    features = ranks.from_first(lambda: extract(images.pixels, backbone, device=device, progress=progress))
    if out is not None and ranks.first:
        with replacing(out) as temporary:
            np.save(temporary, features.numpy(), allow_pickle=False)
    return features


def read_features(path: str | Path, images: ImageSet) -> Tensor:
    """Features (N, D) of the images, in their order, as float32, or float16 if the file has that.

    An .npy has one row per image, in the order of ids; for files, `extract_features` writes their names beside it, and
    they must fit. An .npz has the arrays `features` and `id` or `path`. A .parquet, or a folder of its parts, has a
    column `id` or `path`; all its other columns of numbers are features.
    """
    file = expand(path)
    kind = ".parquet" if file.is_dir() else file.suffix.lower()
    if kind not in USER_FILES:
        raise HitNetError(f"{file}: `features` must be a file of type {', '.join(USER_FILES)}.")
    if not file.exists():
        raise MissingFileError(f"`features`: there is no file {file}.")
    values, keys, key_name = _read(file, kind)
    sound = values.ndim == 2 and values.shape[1] and values.dtype.kind in "fiu"
    parts = (values[start : start + BLOCK] for start in range(0, len(values), BLOCK)) if sound else ()
    if not sound or not all((np.abs(part) <= np.finfo(np.float32).max).all() for part in parts):
        raise HitNetError(f"{file}: features must be finite numbers (N, D); got {values.dtype} {values.shape}.")
    floats = np.ascontiguousarray(values, np.float16 if values.dtype.type is np.float16 else np.float32)
    return torch.from_numpy(_arranged(floats, _rows(file, keys, key_name, images, len(values))))


def _arranged(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of features in another order, without a copy of all if they are most of them: some columns at a time."""
    if not len(values) // 2 < len(rows) <= len(values):
        return values[rows]
    if (rows != np.arange(len(rows))).any():
        for start in range(0, values.shape[1], COLUMNS):
            values[: len(rows), start : start + COLUMNS] = values[rows, start : start + COLUMNS]
    return values[: len(rows)]


def _read(file: Path, kind: str) -> tuple[np.ndarray, np.ndarray | None, str]:
    """Values (N, D), the key of each row (None: the order of ids), and whether keys are ids or paths."""
    if kind == ".npy":
        values, names = read_npy(file), names_of(file)
        if not names.exists():
            return values, None, "id"
        paths = read_json(names)
        check_schema(paths, [str], names)
        return values, np.array(paths, dtype=object), "path"
    if kind == ".npz":
        arrays = read_npz(file, ("features", "id", "path"))
        name = next((name for name in ("id", "path") if name in arrays), None)
        if name is None or "features" not in arrays:
            held = ", ".join(arrays) or "none of these"
            raise HitNetError(f"{file} must hold `features` and `id` or `path`; it holds {held}.")
        return arrays["features"], arrays[name], name
    parts = sorted(file.glob("[!._]*.parquet")) if file.is_dir() else [file]
    if not parts:
        raise HitNetError(f"{file} holds no .parquet files. Give a file of features, or a folder of parts in Parquet.")
    return read_numbers(parts, ("id", "path"))


def _rows(file: Path, keys: np.ndarray | None, key_name: str, images: ImageSet, count: int) -> np.ndarray:
    """The row of each image."""
    if keys is None:
        if images.paths is not None:
            raise HitNetError(
                f"{file} does not tell which row is which file: {names_of(file).name} is not beside it. Give an .npz "
                "with the arrays features and path, or compute the features with `hitnet extract`."
            )
        ids = images.ids.numpy()
        if count != len(images) and (not len(ids) or ids.max() >= count):
            raise HitNetError(f"{file} has {count:,} rows, but there are {len(images):,} images.")
        return np.argsort(np.argsort(ids)) if count == len(images) else ids
    if key_name == "path" and images.paths is None:
        raise HitNetError(f"{file} names its rows by path, but {images.name} has no paths. Use `id`.")
    if keys.shape != (count,):
        one_each = f"must have one entry per row of features, ({count},)"
        raise HitNetError(f"{file}: `{key_name}` {one_each}; got {keys.shape}.")
    names, by_path = keys.tolist(), key_name == "path"
    if not (all(isinstance(key, str) for key in names) if by_path else keys.dtype.kind in "iuf"):
        raise HitNetError(f"{file}: `{key_name}` must hold {'text' if by_path else 'whole numbers'}.")
    wanted = list(images.paths or ()) if by_path else images.ids.tolist()
    place: dict[Any, int] = {}
    for i, key in enumerate(names):
        if place.setdefault(key, i) != i:
            raise HitNetError(f"{file} has two rows for the {key_name} {key!r}.")
    missing = [key for key in wanted if key not in place]
    if missing:
        which = f"{len(missing):,} of {len(images):,} images; the first is {missing[0]!r}"
        raise HitNetError(f"{file} has no features of {which}.")
    return np.array([place[key] for key in wanted])
