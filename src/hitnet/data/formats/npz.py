"""Images in named arrays, as a .npz file holds them: `images` and `labels` (or `X` and `y`), or `x_train`, `y_train`,
`x_test` and `y_test`.

images       (N, H, W), (N, H, W, C) or (N, C, H, W); whole numbers in 0..255, or of 16 bits in 0..65,535, or fractions
             in 0..1
labels       (N,): whole numbers or names; an image whose label is empty or -1 is left out
class_names  optional, one per class; whole-number labels are then indices into it. Without it, each distinct
             label is a class, in natural order
split        optional, (N,): train, test or validation
masks        optional, (N, H, W), (N, H, W, 1) or (N, 1, H, W): 0 on the background, anything else on the object
ids, paths, name, flip   optional; `save_npz` also keeps these, so that `open_data` gives the same set back
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from hitnet.data.images import UNLABELLED, Images, label_name
from hitnet.data.reading import array_files
from hitnet.data.reading.decode import eight_bits
from hitnet.data.reading.entries import Skipped
from hitnet.data.reading.stored import UnreadableImageError
from hitnet.data.split import TEST, TRAIN, natural, split_name
from hitnet.errors import HitNetError
from hitnet.runtime.files import replacing

OPTIONAL = ("class_names", "split", "masks", "ids", "paths", "name", "flip")
NAMES = (("x_train", "y_train", "x_test", "y_test"), ("images", "labels"), ("X", "y"))

Array = npt.NDArray[Any]


class Labelled(NamedTuple):
    """A set, the split of each image where it is given, and the images without a label, which are left out."""

    images: Images
    splits: list[str] | None = None
    unlabelled: tuple[Skipped, ...] = ()


def save_npz(images: Images, path: str | Path, *, split: list[str] | None = None) -> None:
    """Write a set as a .npz file that `open_data` reads back; `split` is that of each image, where it is known."""
    if Path(path).suffix.lower() != ".npz":
        raise HitNetError(f"{path}: the name of a file of arrays ends in .npz.")
    arrays: dict[str, Array] = {
        "images": images.pixels.cpu().numpy(),
        "labels": images.labels.cpu().numpy(),
        "class_names": np.array(images.class_names, np.str_),
        "ids": images.ids.cpu().numpy(),
        "name": np.array(images.name, np.str_),
        "flip": np.array(images.flip),
    }
    if images.paths is not None:
        arrays["paths"] = np.array(images.paths, np.str_)
    if images.masks is not None:
        arrays["masks"] = images.masks.cpu().numpy()
    if split is not None:
        if len(split) != len(images):
            raise HitNetError(f"{path}: {len(images)} images but {len(split)} splits.")
        arrays["split"] = np.array([split_name(s, where=str(path)) for s in split], np.str_)
    with replacing(path) as temporary, temporary.open("wb") as out:
        np.savez_compressed(out, **arrays)  # type: ignore[arg-type]


def read_npz(path: Path) -> Labelled:
    """The set in a .npz file."""
    arrays = array_files.read_npz(path, {*OPTIONAL, *(name for names in NAMES for name in names)})
    if not any(set(names) <= set(arrays) for names in NAMES):
        wanted = ", or ".join(", ".join(names) for names in NAMES)
        with np.load(path, allow_pickle=False) as content:
            raise HitNetError(f"{path} must hold {wanted}; it holds {', '.join(content.files[:20]) or 'nothing'}.")
    return labelled_images(arrays, where=str(path), name=path.stem)


def labelled_images(arrays: Mapping[str, Array], *, where: str, name: str) -> Labelled:
    """A set from arrays with the names of one of NAMES, and perhaps those of OPTIONAL.

    Errors call them `where`. The set is called `name`, unless one of the arrays says what to call it.
    """
    x, y, splits = _parts(arrays, where)
    pixels = _pixels(x, where)
    indices, classes = _classes(y, arrays.get("class_names"), where)
    for what, length in (("labels", len(indices)), ("splits", len(pixels) if splits is None else len(splits))):
        if length != len(pixels):
            raise HitNetError(f"{where}: {len(pixels)} images but {length} {what}.")
    if len(classes) < 2 or len(set(classes)) < len(classes):
        none = " Images whose label is empty or -1 have none." if (indices < 0).any() else ""
        raise HitNetError(
            f"{where} must have at least two classes, each with a name of its own; got {classes[:10]}.{none}"
        )
    images = _images(pixels, np.maximum(indices, 0), classes, arrays, where, name)
    names = images.paths or [f"image {number}" for number in images.ids.tolist()]
    unlabelled = tuple(Skipped(names[i], UNLABELLED) for i in np.flatnonzero(indices < 0))
    if unlabelled:
        labelled = np.flatnonzero(indices >= 0).tolist()
        images = images.select(labelled)
        splits = None if splits is None else [splits[i] for i in labelled]
    return Labelled(images, splits, unlabelled)


def _parts(arrays: Mapping[str, Array], where: str) -> tuple[Array, Array, list[str] | None]:
    """Images, labels and, where they are given, splits."""
    names = next(names for names in NAMES if set(names) <= set(arrays))
    if len(names) == 2:
        x, y = (arrays[name] for name in names)
        given = arrays["split"].reshape(-1).tolist() if "split" in arrays else None
        return x, y, None if given is None else [split_name(s, where=where) for s in given]
    train, y_train, test, y_test = (arrays[name] for name in names)
    if train.ndim < 3 or train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
        raise HitNetError(
            f"{where}: x_train and x_test must hold images of one type and size; "
            f"got {train.dtype} {train.shape} and {test.dtype} {test.shape}."
        )
    splits = [TRAIN] * len(train) + [TEST] * len(test)
    return np.concatenate([train, test]), np.concatenate([y_train.reshape(-1), y_test.reshape(-1)]), splits


def _images(
    pixels: Array, indices: Array, classes: list[str], arrays: Mapping[str, Array], where: str, name: str
) -> Images:
    none = np.empty(0)
    paths = [str(path) for path in arrays["paths"].reshape(-1).tolist()] if "paths" in arrays else None
    images = Images.from_arrays(
        pixels,
        indices,
        class_names=classes,
        name=str(arrays["name"].reshape(-1)[0]) if arrays.get("name", none).size == 1 else name,
        paths=paths,
        flip=arrays.get("flip", none).size == 1 and bool(arrays["flip"].reshape(-1)[0]),
    )
    if "masks" in arrays:
        images = replace(images, masks=_masks(arrays["masks"], images, where))
    if "ids" not in arrays:
        return images
    ids = arrays["ids"]
    if ids.dtype.kind not in "iu":
        raise HitNetError(f"{where}: ids must be whole numbers; got {ids.dtype}.")
    return replace(images, ids=torch.from_numpy(ids.reshape(-1).astype(np.int64)))


def _masks(masks: Array, images: Images, where: str) -> torch.Tensor:
    count, (_, height, width) = len(images), images.shape
    shapes = ((count, height, width), (count, height, width, 1), (count, 1, height, width))
    if masks.dtype.kind not in "biuf" or masks.shape not in shapes:
        raise HitNetError(f"{where}: masks must be numbers of shape {shapes[0]}; got {masks.dtype} {masks.shape}.")
    return torch.from_numpy((masks != 0).astype(np.uint8) * np.uint8(255)).view(shapes[2])


def _pixels(x: Array, where: str) -> npt.NDArray[np.uint8]:
    if x.size == 0:
        raise HitNetError(f"{where} holds no images: their array has the shape {x.shape}.")
    if x.ndim not in (3, 4):
        raise HitNetError(f"{where}: images must be (N, H, W), (N, H, W, C) or (N, C, H, W); got {x.shape}.")
    small = x.dtype == np.uint16 and x.max() <= 255  # 8 bits in a wider type
    try:
        return eight_bits(x, white=255 if small else None, precision=x.dtype if x.dtype.kind == "f" else np.float32)
    except UnreadableImageError as error:
        raise HitNetError(f"{where}: images: {error}.") from error


def _classes(labels: Array, names: Array | None, where: str) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The class of each image as an index, -1 for one without a label, and the names of the classes."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise HitNetError(
            f"{where}: labels must be (N,), one per image; got {labels.shape}. Take the argmax of one-hot."
        )
    if labels.dtype.kind == "O":  # a column of pandas
        labels = np.array([label_name(label) or "" for label in labels.tolist()], np.str_)
    if labels.dtype.kind not in "iuU":
        raise HitNetError(f"{where}: labels must be whole numbers or names; got {labels.dtype}.")
    given = [] if names is None else [str(name) for name in names.reshape(-1).tolist()]
    if names is not None and labels.dtype.kind != "U":
        low, high = (int(labels.min()), int(labels.max())) if len(labels) else (0, -1)
        if not -1 <= low <= high < len(given) and len(labels):
            raise HitNetError(f"{where}: labels run from {low} to {high} but there are {len(given)} class_names.")
        return labels.astype(np.int64), given
    words = [label_name(label) for label in labels.tolist()]
    classes = given if names is not None else sorted({word for word in words if word is not None}, key=natural)
    index: dict[str | None, int] = {None: -1} | {word: k for k, word in enumerate(classes)}
    unknown = next((word for word in words if word not in index), None)
    if unknown is not None:
        raise HitNetError(f"{where}: label {unknown!r} is not one of class_names.")
    return np.array([index[word] for word in words], np.int64), classes
