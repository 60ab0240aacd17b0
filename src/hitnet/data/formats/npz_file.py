"""Arrays in a .npz file: `images` and `labels`, or `x_train`, `y_train`, `x_test` and `y_test`.

images       (N, H, W), (N, H, W, C) or (N, C, H, W); whole numbers in 0..255, or fractions in 0..1, which
             are multiplied by 255
labels       (N,): whole numbers or names; an image whose label is empty or -1 is left out
class_names  optional, one per class; whole-number labels are then indices into it. Without it, each distinct
             label is a class, in natural order
split        optional, (N,): train, test or validation
masks        optional, (N, H, W), (N, H, W, 1) or (N, 1, H, W): 0 on the background, anything else on the object
ids, paths, name, flip   optional; `save_npz` also keeps these, so that `open_data` gives the same set back
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from hitnet.data.images import Images
from hitnet.data.label_names import UNLABELLED, label_name
from hitnet.data.reading import array_files
from hitnet.data.reading.left_out import Skipped
from hitnet.data.split import TEST, TRAIN, natural, split_name
from hitnet.errors import HitNetError
from hitnet.runtime.files import replacing

KNOWN = ("images", "labels", "class_names", "split", "masks", "ids", "paths", "name", "flip")
PAIRS = ("x_train", "y_train", "x_test", "y_test")

Array = npt.NDArray[Any]


def save_npz(images: Images, path: str | Path, *, split: list[str] | None = None) -> None:
    """Write a set so that `open_data` reads it back.

    Args:
        images: The set.
        path: A file whose name ends in .npz.
        split: The split of each image (train, test or validation).
    """
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


def read_npz(path: Path) -> tuple[Images, list[str] | None, tuple[Skipped, ...]]:
    """The set, the split of each image where the file gives it, and the images without a label, which are left out."""
    arrays = array_files.read_npz(path, (*KNOWN, *PAIRS))
    if set(PAIRS) <= set(arrays):
        x, split = _pairs(arrays, path)
        labels = np.concatenate([arrays["y_train"].reshape(-1), arrays["y_test"].reshape(-1)])
    elif {"images", "labels"} <= set(arrays):
        x, labels = arrays["images"], arrays["labels"]
        split = None
        if "split" in arrays:
            split = [split_name(s, where=str(path)) for s in arrays["split"].reshape(-1).tolist()]
    else:
        raise HitNetError(
            f"{path} must hold images and labels, or {', '.join(PAIRS)}; "
            f"it holds {', '.join(arrays) or 'none of these'}."
        )
    pixels = _pixels(x, path)
    indices, classes = _classes(labels, arrays.get("class_names"), path)
    for what, length in (("labels", len(indices)), ("splits", len(pixels) if split is None else len(split))):
        if length != len(pixels):
            raise HitNetError(f"{path}: {len(pixels)} images but {length} {what}.")
    if len(classes) < 2 or len(set(classes)) < len(classes):
        unlabelled = " Images whose label is empty or -1 have none." if (indices < 0).any() else ""
        raise HitNetError(
            f"{path} must have at least two classes, each with a name of its own; got {classes[:10]}.{unlabelled}"
        )
    images = _images(pixels, np.maximum(indices, 0), classes, arrays, path)
    labelled = np.flatnonzero(indices >= 0)
    names = images.paths or [f"image {number}" for number in images.ids.tolist()]
    skipped = tuple(Skipped(names[i], UNLABELLED) for i in np.flatnonzero(indices < 0))
    if skipped:
        images = images.select(labelled.tolist())
        split = None if split is None else [split[i] for i in labelled]
    return images, split, skipped


def _images(pixels: Array, indices: Array, classes: list[str], arrays: dict[str, Array], path: Path) -> Images:
    paths = arrays["paths"].reshape(-1).tolist() if "paths" in arrays else None
    images = Images.from_arrays(
        pixels,
        indices,
        class_names=classes,
        name=str(arrays["name"].reshape(-1)[0]) if arrays.get("name", np.empty(0)).size == 1 else path.stem,
        paths=[str(p) for p in paths] if paths is not None else None,
        flip=arrays.get("flip", np.empty(0)).size == 1 and bool(arrays["flip"].reshape(-1)[0]),
    )
    if "masks" in arrays:
        images = replace(images, masks=_masks(arrays["masks"], images, path))
    if "ids" not in arrays:
        return images
    ids = arrays["ids"]
    if ids.dtype.kind not in "iu":
        raise HitNetError(f"{path}: ids must be whole numbers; got {ids.dtype}.")
    return replace(images, ids=torch.from_numpy(ids.reshape(-1).astype(np.int64)))


def _masks(masks: Array, images: Images, path: Path) -> torch.Tensor:
    count, (_, height, width) = len(images), images.shape
    shapes = ((count, height, width), (count, height, width, 1), (count, 1, height, width))
    if masks.dtype.kind not in "biuf" or masks.shape not in shapes:
        raise HitNetError(f"{path}: masks must be numbers of shape {shapes[0]}; got {masks.dtype} {masks.shape}.")
    return torch.from_numpy((masks != 0).astype(np.uint8) * np.uint8(255)).view(shapes[2])


def _pairs(arrays: dict[str, Array], path: Path) -> tuple[Array, list[str]]:
    train, test = arrays["x_train"], arrays["x_test"]
    if train.ndim < 3 or train.shape[1:] != test.shape[1:] or train.dtype != test.dtype:
        raise HitNetError(
            f"{path}: x_train and x_test must hold images of one type and size; "
            f"got {train.dtype} {train.shape} and {test.dtype} {test.shape}."
        )
    return np.concatenate([train, test]), [TRAIN] * len(train) + [TEST] * len(test)


def _pixels(x: Array, path: Path) -> npt.NDArray[np.uint8]:
    if x.size == 0:
        raise HitNetError(f"{path} holds no images: their array has the shape {x.shape}.")
    if x.ndim not in (3, 4):
        raise HitNetError(f"{path}: images must be (N, H, W), (N, H, W, C) or (N, C, H, W); got {x.shape}.")
    if x.dtype == np.uint8:
        return x
    if x.dtype.kind == "b":
        return x.astype(np.uint8) * np.uint8(255)
    if x.dtype.kind not in "iuf":
        raise HitNetError(f"{path}: images must be numbers; got {x.dtype}.")
    low, high = float(x.min()), float(x.max())
    top = 255 if x.dtype.kind in "iu" else 1
    if not (low >= 0 and high <= top):
        raise HitNetError(
            f"{path}: images must be whole numbers in 0..255 or fractions in 0..1; got {x.dtype} "
            f"from {low:g} to {high:g}."
        )
    scaled: npt.NDArray[np.uint8] = (np.rint(x * 255.0) if top == 1 else x).astype(np.uint8)
    return scaled


def _classes(labels: Array, names: Array | None, path: Path) -> tuple[npt.NDArray[np.int64], list[str]]:
    """The class of each image as an index, -1 for one without a label, and the names of the classes."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise HitNetError(
            f"{path}: labels must be (N,), one per image; got {labels.shape}. Take the argmax of one-hot."
        )
    if labels.dtype.kind not in "iuU":
        raise HitNetError(f"{path}: labels must be whole numbers or names; got {labels.dtype}.")
    if names is not None and labels.dtype.kind != "U":
        classes = [str(name) for name in names.reshape(-1).tolist()]
        if len(labels) and not -1 <= int(labels.min()) <= int(labels.max()) < len(classes):
            raise HitNetError(
                f"{path}: labels run from {labels.min()} to {labels.max()} but there are {len(classes)} class_names."
            )
        return labels.astype(np.int64), classes
    words = [label_name(label) for label in labels.tolist()]
    known = sorted({word for word in words if word is not None}, key=natural)
    classes = known if names is None else [str(n) for n in names.reshape(-1).tolist()]
    index: dict[str | None, int] = {None: -1} | {word: k for k, word in enumerate(classes)}
    unknown = next((word for word in words if word not in index), None)
    if unknown is not None:
        raise HitNetError(f"{path}: label {unknown!r} is not one of class_names.")
    return np.array([index[word] for word in words], np.int64), classes
