"""The images of a prediction: files, folders, pictures of Pillow, arrays, tensors or opened data, at one shape."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from hitnet.data import Data, Images, read_image
from hitnet.data.formats.items import encoded, picture_of
from hitnet.data.reading.decode import SUFFIXES
from hitnet.data.reading.stored import AnyFile, StoredFile
from hitnet.errors import HitNetError
from hitnet.runtime.device import evaluation_batch
from hitnet.runtime.files import expand
from hitnet.runtime.threads import in_threads

Picture = str | Path | Image.Image | np.ndarray | Tensor
Pictures = Picture | Sequence[Picture] | Images | Data


def batches_of(
    images: Pictures, shape: tuple[int, int, int], *, crop: bool = False
) -> Iterator[tuple[list[str], Tensor]]:
    """Names and pixels, uint8 (B, C, H, W), of all images, a batch at a time.

    Args:
        images: An image file, a folder of them, a picture of Pillow, an array or tensor of several images, a list of
            files, pictures, arrays or tensors of one image each, `Images`, or opened data.
        shape: (C, H, W) that a network takes; images of another shape are scaled to fit, and centred on black.
        crop: Scale them to fill the shape instead, and keep their middle.
    """
    if isinstance(images, Data):
        images = images.at_size(shape[1:], crop=crop).load("all")
    size = evaluation_batch(shape)
    if isinstance(images, Images) and images.shape == shape:
        names = images.paths or tuple(map(str, images.ids.tolist()))
        for start in range(0, len(images), size):
            yield list(names[start : start + size]), images.pixels[start : start + size]
        return
    files, read = listed_files(images), partial(read_image, shape=shape, crop=crop)
    for start in range(0, len(files), size):
        part = files[start : start + size]
        yield list(map(str, part)), torch.stack(list(in_threads(read, part)))


def listed_files(images: Picture | Sequence[Picture] | Images) -> list[AnyFile]:
    """Each image as a file that can be read."""
    if isinstance(images, str | Path):
        return list(files_in(expand(images)))
    if isinstance(images, Image.Image):
        images = [images]
    if isinstance(images, np.ndarray | Tensor) and images.ndim < 3:
        raise HitNetError(
            f"`images` must hold several images, (N, H, W), (N, H, W, C) or (N, C, H, W); got shape "
            f"{tuple(images.shape)}. Give a single image in a list."
        )
    if isinstance(images, Images):
        names = images.paths or tuple(map(str, images.ids.tolist()))
        return [as_file(pixels, name) for pixels, name in zip(images.pixels, names, strict=True)]
    return [as_file(image, f"image {i}") for i, image in enumerate(images)]


def as_file(image: Any, name: str) -> AnyFile:
    """A path as it is; a picture, an array or a tensor as the bytes of a file."""
    if isinstance(image, str | Path):
        return expand(image)
    return StoredFile(name, lambda: encoded(picture_of(image)))


def files_in(path: Path) -> list[Path]:
    """The image files of a folder and the folders in it, sorted; or the file that this is."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        raise HitNetError(f"{path} holds no image files ({' '.join(sorted(SUFFIXES))}).")
    return files
