"""JPEG files decoded on a GPU through torchvision, where it is installed and its nvJPEG works; all else by Pillow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from hitnet.data.decode import LARGEST, ORIENTATION
from hitnet.features import photographs

# Of each EXIF orientation: transpose first?, then flip the rows?, the columns?
TURNS = {
    1: (False, False, False),
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, False, True),
    7: (True, True, True),
    8: (True, True, False),
}


def turned(image: Tensor, orientation: int) -> Tensor:
    """A picture (C, H, W) turned upright as its EXIF orientation says."""
    transpose, rows, columns = TURNS.get(orientation, TURNS[1])
    image = image.transpose(1, 2) if transpose else image
    axes = [axis for axis, wanted in ((1, rows), (2, columns)) if wanted]
    return image.flip(axes) if axes else image


def cropped(image: Tensor, size: int) -> Tensor:
    """The square middle of a uint8 picture (C, H, W) at (C, size, size), as `hitnet.features.photographs.read` does."""
    height, width = photographs.shape_at(image.shape[1], image.shape[2], size)
    if (height, width) != image.shape[1:]:
        scaled = F.interpolate(image[None].float(), (height, width), mode="bilinear", antialias=True)[0]
        image = scaled.round_().clamp_(0, 255).to(torch.uint8)
    top, left = (height - size) // 2, (width - size) // 2
    return image[:, top : top + size, left : left + size]


class GpuReader:
    """Image files → uint8 (B, 3, size, size) on the GPU. Threads may call it at the same time.

    Args:
        decode_jpeg: torchvision's function, in the mode RGB.
        size: Height and width.
        device: A GPU.
    """

    def __init__(self, decode_jpeg: Callable[..., Any], size: int, device: torch.device) -> None:
        self.decode_jpeg, self.size, self.device = decode_jpeg, size, device

    def __call__(self, paths: Sequence[str | Path] | Tensor) -> Tensor:
        if isinstance(paths, Tensor):
            return paths
        images: list[Tensor | None] = [None] * len(paths)
        contents, orientations = {}, {}
        for i, path in enumerate(paths):
            orientation = plain_jpeg(Path(path))
            if orientation:
                contents[i] = torch.from_numpy(np.fromfile(path, np.uint8))
                orientations[i] = orientation
        for i, picture in zip(contents, self.decoded(list(contents.values())), strict=True):
            if picture is not None:
                images[i] = cropped(turned(picture, orientations[i]), self.size)
        for i, path in enumerate(paths):
            if images[i] is None:
                images[i] = torch.from_numpy(photographs.read(path, self.size)).to(self.device)
        return torch.stack([image for image in images if image is not None])

    def decoded(self, contents: list[Tensor]) -> list[Tensor | None]:
        """Pictures on the GPU; None for those that nvJPEG refuses, each asked for by itself once one is refused."""
        if not contents:
            return []
        try:
            return list(self.decode_jpeg(contents, device=self.device))
        except RuntimeError:
            return [None] if len(contents) == 1 else [self.decoded([content])[0] for content in contents]


def plain_jpeg(path: Path) -> int:
    """The EXIF orientation of a JPEG in grey or RGB that is not too large; 0: Pillow must read it, or refuse it."""
    try:
        with Image.open(path, formats=("JPEG",)) as image:
            if image.mode not in ("L", "RGB") or image.width * image.height > LARGEST:
                return 0
            orientation = int(image.getexif().get(ORIENTATION, 1))
            return orientation if orientation in TURNS else 1
    except Exception:  # whatever is odd about it, the usual reader says it in words
        return 0


def gpu_reader() -> Callable[[int, torch.device], GpuReader] | None:
    """What makes a `GpuReader`, or None where torchvision has no decoder for this GPU."""
    try:
        from torchvision.io import ImageReadMode, decode_jpeg, encode_jpeg

        decode = partial(decode_jpeg, mode=ImageReadMode.RGB)
        decode([encode_jpeg(torch.zeros(3, 16, 16, dtype=torch.uint8))], device="cuda")
    except (ImportError, RuntimeError, AttributeError, TypeError):
        return None
    return partial(GpuReader, decode)
