"""JPEG files decoded on a GPU through torchvision, where it is installed and its nvJPEG works; all else by Pillow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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


def cropped(images: Tensor, size: int) -> Tensor:
    """The square middle of uint8 pictures (B, C, H, W) at (B, C, size, size), as `photographs.read` does."""
    height, width = photographs.shape_at(images.shape[2], images.shape[3], size)
    if (height, width) != images.shape[2:]:
        scaled = F.interpolate(images.float(), (height, width), mode="bilinear", antialias=True)
        images = scaled.round_().clamp_(0, 255).to(torch.uint8)
    top, left = (height - size) // 2, (width - size) // 2
    return images[:, :, top : top + size, left : left + size]


@dataclass(frozen=True)
class Loaded:
    """Files of a batch, read from disk.

    Attributes:
        contents: Bytes of each JPEG that the GPU is to decode, by its place in the batch.
        orientations: Its EXIF orientation.
        pictures: The other images, decoded by Pillow, uint8 (3, size, size).
    """

    contents: dict[int, Tensor]
    orientations: dict[int, int]
    pictures: dict[int, Tensor]


class GpuReader:
    """Image files → uint8 (B, 3, size, size) on the GPU.

    Threads `load` files. A single thread calls `decode`: torchvision's decoder works for one caller at a time.

    Args:
        decode_jpeg: torchvision's function, in the mode RGB.
        size: Height and width.
        device: A GPU.
    """

    def __init__(self, decode_jpeg: Callable[..., Any], size: int, device: torch.device) -> None:
        self.decode_jpeg, self.size, self.device = decode_jpeg, size, device

    def load(self, paths: Sequence[str | Path]) -> Loaded:
        """Read files from disk."""
        loaded = Loaded({}, {}, {})
        for i, path in enumerate(paths):
            orientation = plain_jpeg(Path(path))
            if orientation:
                loaded.contents[i] = torch.from_numpy(np.fromfile(path, np.uint8))
                loaded.orientations[i] = orientation
            else:
                loaded.pictures[i] = torch.from_numpy(photographs.read(path, self.size))
        return loaded

    def decode(self, loaded: Loaded, paths: Sequence[str | Path]) -> Tensor:
        """Pictures of loaded files (B, 3, size, size); `paths` are read again for those that nvJPEG refuses."""
        images = torch.empty(len(paths), 3, self.size, self.size, dtype=torch.uint8, device=self.device)
        alike: dict[torch.Size, dict[int, Tensor]] = {}
        for i, picture in zip(loaded.contents, self.decoded(list(loaded.contents.values())), strict=True):
            if picture is None:
                loaded.pictures[i] = torch.from_numpy(photographs.read(paths[i], self.size))
            else:
                upright = turned(picture, loaded.orientations[i])
                alike.setdefault(upright.shape, {})[i] = upright
        # Pictures of one shape are scaled at once: most cameras write few shapes.
        for pictures in alike.values():
            images[list(pictures)] = cropped(torch.stack(list(pictures.values())), self.size)
        if loaded.pictures:
            images[list(loaded.pictures)] = torch.stack(list(loaded.pictures.values())).to(self.device)
        return images

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
