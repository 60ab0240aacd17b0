"""Write new images to disk, in two forms that `hitnet.open_data` reads: a .npz file, or a folder of PNG files.

A folder needs at least two classes to be read back. Both forms are written batch by batch, so a million images need
not fit into memory, and both are written whole or not at all.
"""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from hitnet.data.images import Images
from hitnet.errors import HitNetError
from hitnet.runtime.bar import shown
from hitnet.runtime.files import check_vacant, expand, new_folder, replacing
from hitnet.runtime.progress import Progress

log = logging.getLogger("hitnet")
UNSAFE = re.compile(r'[<>:"/\\|?*\x00-\x1f]|^\.|[. ]$|^$')  # folder names that fail on some system


@dataclass(frozen=True)
class ImageStream:
    """Labelled images that are made on demand, in pairs (split, images); all or none of them have masks."""

    batches: Iterator[tuple[str, Images]]
    total: int  # number of images
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]  # (C, H, W) of all images
    name: str  # this and `flip` as in `hitnet.data.Images`
    flip: bool = False


def write_images(stream: ImageStream, out: str | Path, *, progress: Progress | bool = True) -> None:
    """Write a stream of images to a new .npz file or a new folder.

    Args:
        stream: The images.
        out: A name that ends in .npz gets the arrays of `hitnet.data.save_npz`. Any other name becomes a folder with
            the files <split>/<class>/<number>.png, without masks.
        progress: True shows a bar in a terminal or a notebook. Or hooks of your own.
    """
    target = expand(out)
    check_new(target)
    with shown(progress, f"Writing {target.name}") as bar:
        bar.part("images", stream.total, "images")
        write = _write_npz if target.suffix.lower() == ".npz" else _write_folder
        write(stream, _counted(stream.batches, bar), target)


def _counted(batches: Iterator[tuple[str, Images]], progress: Progress) -> Iterator[tuple[str, Images]]:
    for split, images in batches:
        yield split, images
        progress.step(len(images))


def _write_folder(stream: ImageStream, batches: Iterator[tuple[str, Images]], target: Path) -> None:
    odd = [name for name in stream.class_names if UNSAFE.search(name)]
    if odd:
        raise HitNetError(f"The class name {odd[0]!r} cannot be a folder name. Write to a .npz file instead.")
    number = 0
    with new_folder(target) as folder:
        for split, images in batches:
            if images.masks is not None and not number:
                log.warning("%s: masks are not written to a folder. Write to a .npz file to keep them.", target)
            for pixels, label in zip(images.pixels, images.labels.tolist(), strict=True):
                class_folder = folder / split / stream.class_names[label]
                class_folder.mkdir(parents=True, exist_ok=True)
                as_picture(pixels).save(class_folder / f"{number:07d}.png")
                number += 1


def check_new(target: Path) -> None:
    """Raise HitNetError if writing to `target` would overwrite something."""
    if target.suffix.lower() == ".npz" and target.exists():
        raise HitNetError(f"{target} exists already. Choose another name, or remove the file first.")
    check_vacant(target)


def as_picture(pixels: Tensor) -> Image.Image:
    """Convert uint8 (C, H, W) to a grey or RGB picture."""
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
            raise HitNetError(f"{target}: the stream announced {stream.total:,} images but gave {done:,}.")
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
