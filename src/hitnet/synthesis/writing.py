"""New images on disk, in the two forms that `hitnet.data.load` reads back: a .npz of arrays, or a folder of PNGs (of
two classes or more).

Both are written as the images come, so that a million of them need not fit into memory, and whole or not at all.
"""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from hitnet.data.images import Images
from hitnet.errors import HitNetError
from hitnet.files import check_vacant, new_folder, replacing

log = logging.getLogger("hitnet")
UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f]|^\.|[. ]$|^$')  # in a folder's name, on one system or another


@dataclass(frozen=True)
class ImageStream:
    """Labelled images that are made as they are asked for.

    batches      (split, images), the images of one shape, with labels that index class_names, and with masks all
                 or none of them
    total        how many images will come
    shape        (C, H, W) of each
    name, flip   as in `hitnet.data.Images`
    """

    batches: Iterator[tuple[str, Images]]
    total: int
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]
    name: str
    flip: bool = False


def write_images(stream: ImageStream, out: str | Path, *, on_batch: Callable[[int], None] | None = None) -> None:
    """Write images as they come to a new .npz file or, for any other name, into a new folder.

    A folder gets OUT/<split>/<class>/<number>.png, without masks; a .npz the arrays of `hitnet.data.save_npz`.
    `on_batch` is called with the size of each batch that is written.
    """
    target = Path(out)
    check_new(target)
    counted = _counted(stream.batches, on_batch or (lambda size: None))
    if target.suffix.lower() == ".npz":
        _write_npz(stream, counted, target)
    else:
        _write_folder(stream, counted, target)


def _counted(batches: Iterator[tuple[str, Images]], on_batch: Callable[[int], None]) -> Iterator[tuple[str, Images]]:
    for split, images in batches:
        yield split, images
        on_batch(len(images))


def _write_folder(stream: ImageStream, batches: Iterator[tuple[str, Images]], target: Path) -> None:
    odd = [name for name in stream.class_names if UNSAFE.search(name)]
    if odd:
        raise HitNetError(f"A class named {odd[0]!r} can be no folder. Write to a .npz file instead.")
    number = 0
    with new_folder(target) as folder:
        for split, images in batches:
            if images.masks is not None and not number:
                log.warning("%s: a folder of images holds no masks. Write to a .npz file to keep them.", target)
            for pixels, label in zip(images.pixels, images.labels.tolist(), strict=True):
                place = folder / split / stream.class_names[label]
                place.mkdir(parents=True, exist_ok=True)
                as_picture(pixels).save(place / f"{number:07d}.png")
                number += 1


def check_new(target: Path) -> None:
    """An error where images cannot be written without overwriting something."""
    if target.suffix.lower() == ".npz" and target.exists():
        raise HitNetError(f"{target} exists already. Choose another name, or remove it first.")
    check_vacant(target)


def as_picture(pixels: Tensor) -> Image.Image:
    """uint8 (C, H, W) as a grey or RGB picture."""
    array = pixels.permute(1, 2, 0).contiguous().numpy()
    return Image.fromarray(array[..., 0] if array.shape[2] == 1 else array)


def _write_npz(stream: ImageStream, batches: Iterator[tuple[str, Images]], target: Path) -> None:
    labels, splits = np.empty(stream.total, np.int64), np.empty(stream.total, "<U5")
    masks: list[Tensor] = []
    done = 0
    with (
        replacing(target) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive,
    ):
        with archive.open("images.npy", "w", force_zip64=True) as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": (stream.total, *stream.shape)}
            np.lib.format.write_array_header_1_0(file, header)
            for split, images in batches:
                file.write(images.pixels.contiguous().numpy().data)
                labels[done : done + len(images)] = images.labels.numpy()
                splits[done : done + len(images)] = split
                if images.masks is not None:
                    masks.append(images.masks)
                done += len(images)
        if done != stream.total:
            raise HitNetError(f"{target}: {stream.total:,} images were announced but {done:,} came.")
        rest = {
            "labels": labels,
            "class_names": np.array(stream.class_names, np.str_),
            "split": splits,
            "name": np.array(stream.name, np.str_),
            "flip": np.array(stream.flip),
        }
        if masks:
            rest["masks"] = torch.cat(masks).numpy()
        for key, array in rest.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
