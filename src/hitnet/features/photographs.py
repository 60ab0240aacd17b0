"""One image file as a backbone sees it: the square middle, upright and in colour.

The shorter side is scaled to the backbone's size and the middle of the longer one is kept. Pillow decodes the files;
for a GPU, torchvision decodes JPEG files on it, where it is installed and its nvJPEG works.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from io import BytesIO
from struct import unpack_from
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from hitnet.data.reading.decode import LARGEST_PICTURE, ORIENTATION, Header, decode
from hitnet.data.reading.stored import AnyFile, UnreadableImageError
from hitnet.errors import log
from hitnet.runtime.device import sent

LONGEST = 16  # times the shorter side: a thinner picture is left to Pillow, which scales only its middle
ENOUGH = 64  # files in a row that the GPU's decoder refuses: then it is asked no more
LAST = b"\xff\xd9"  # how a whole JPEG file ends
TOGETHER = 1 << 26  # pixels that are decoded and scaled at once: about 1.2 GB of a GPU's memory
# Markers of JPEG files: frames that are read, and segments that need a closer look. Others are passed over.
FRAMES, ODD_SEGMENTS = (0xC0, 0xC1, 0xC2), {*range(0xC0), *range(0xC3, 0xDB), 0xE1, 0xFF} - {0xC4}
# What turns a picture of each EXIF orientation upright: t transposes it, then r flips its rows, and c its columns.
TURNS = dict(enumerate(("", "c", "rc", "r", "t", "tc", "trc", "tr"), start=1))


def shape_at(height: int, width: int, size: int) -> tuple[int, int]:
    """Height and width of a picture whose shorter side is scaled to `size`."""
    scale = size / min(height, width)
    return max(size, round(height * scale)), max(size, round(width * scale))


def read(file: AnyFile, size: int) -> Tensor:
    """The middle of a picture, uint8 (3, size, size); raises UnreadableImageError."""
    return torch.from_numpy(decode(file, (3, size, size), crop=True))


def turned(image: Tensor, orientation: int) -> Tensor:
    """A picture (C, H, W) turned upright as its EXIF orientation says."""
    turn = TURNS.get(orientation, "")
    image = image.transpose(1, 2) if "t" in turn else image
    axes = [axis for axis, flip in ((1, "r"), (2, "c")) if flip in turn]
    return image.flip(axes) if axes else image


def cropped(images: Tensor, size: int) -> Tensor:
    """The square middle of uint8 pictures (B, C, H, W) at (B, C, size, size), as `read` does."""
    height, width = shape_at(images.shape[2], images.shape[3], size)
    if (height, width) != images.shape[2:]:
        scaled = F.interpolate(images.float(), (height, width), mode="bilinear", antialias=True)
        images = scaled.round_().clamp_(0, 255).to(torch.uint8)
    top, left = (height - size) // 2, (width - size) // 2
    return images[:, :, top : top + size, left : left + size]


@dataclass
class Jpeg:
    """A JPEG file that a GPU is to decode; the orientation is that of EXIF, and `odd` why it cannot be decoded."""

    file: AnyFile
    orientation: int
    header: Header
    odd: str = ""


def groups(jpegs: dict[int, Jpeg]) -> Iterator[list[int]]:
    """The keys in their order, as many at once as have no more than `TOGETHER` pixels; a larger picture by itself."""
    group: list[int] = []
    pixels = 0
    for key, jpeg in jpegs.items():
        size = jpeg.header.height * jpeg.header.width
        if group and pixels + size > TOGETHER:
            yield group
            group, pixels = [], 0
        group.append(key)
        pixels += size
    if group:
        yield group


class GpuReader:
    """Pictures at the backbone's size, and JPEG files → uint8 (B, 3, size, size) on the GPU.

    What the GPU refuses is decoded by Pillow. `decode_jpeg` is torchvision's, in RGB.
    """

    refused = 0  # files in a row, by the one decoder of this process

    def __init__(self, decode_jpeg: Callable[..., Any], size: int, device: torch.device) -> None:
        self.decode_jpeg, self.size, self.device = decode_jpeg, size, device

    def __call__(self, batch: Sequence[Tensor | Jpeg]) -> Tensor:
        found = torch.empty(len(batch), 3, self.size, self.size, dtype=torch.uint8, device=self.device)
        jpegs = {i: each for i, each in enumerate(batch) if isinstance(each, Jpeg)}
        others = {i: each for i, each in enumerate(batch) if isinstance(each, Tensor)}
        for group in groups(jpegs):
            contents = [torch.from_numpy(np.frombuffer(bytearray(jpegs[i].file.read_bytes()), np.uint8)) for i in group]
            alike: dict[torch.Size, dict[int, Tensor]] = {}
            for i, picture in zip(group, self.decoded(contents), strict=True):
                if picture is not None:
                    upright = turned(picture, jpegs[i].orientation)
                    alike.setdefault(upright.shape, {})[i] = upright
                    continue
                try:
                    others[i] = read(jpegs[i].file, self.size)
                except UnreadableImageError as error:
                    jpegs[i].odd = str(error)
                    others[i] = torch.zeros(3, self.size, self.size, dtype=torch.uint8)
            # Pictures of one shape are scaled at once: most cameras write few shapes.
            for same in alike.values():
                found[list(same)] = cropped(torch.stack(list(same.values())), self.size)
        if others:
            found[list(others)] = sent(torch.stack(list(others.values())), self.device)
        return found

    def decoded(self, contents: list[Tensor]) -> list[Tensor | None]:
        """Pictures on the GPU; None for those that nvJPEG refuses, which are looked for in halves of a refused batch.

        The GPU's decoder writes without waiting for its stream: into memory that PyTorch takes for free as soon as no
        name stands for it, while kernels that were asked for before may still read it. So wait for these first.
        """
        if GpuReader.refused >= ENOUGH:
            return [None] * len(contents)
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        try:
            pictures: list[Tensor | None] = list(self.decode_jpeg(contents, device=self.device))
        except RuntimeError as error:
            if half := len(contents) // 2:
                return self.decoded(contents[:half]) + self.decoded(contents[half:])
            GpuReader.refused += 1
            if GpuReader.refused == ENOUGH:
                reason = str(error).partition("\n")[0]
                log.warning(
                    "The GPU's JPEG decoder refuses one file after the other (%s). From here on, the CPU decodes.",
                    reason,
                )
            return [None]
        GpuReader.refused = 0
        return pictures


def plain_jpeg(file: AnyFile) -> Jpeg | None:
    """A whole JPEG in grey or RGB that is neither too large nor too thin; None: Pillow must read it, or refuse it."""
    try:
        with file.open("rb") as opened:
            content = opened.read()
        if not content.endswith(LAST):  # nvJPEG may take half a file for a picture
            return None
        height, width, grey, orientation = _frame(content) or _frame_by_pillow(content)
    except Exception:  # whatever is odd about it, the usual reader says it in words
        return None
    if height * width > LARGEST_PICTURE or max(height, width) > LONGEST * min(height, width):
        return None
    upright = (width, height) if "t" in TURNS[orientation] else (height, width)
    return Jpeg(file, orientation, Header(*upright, grey))


def _frame(content: bytes) -> tuple[int, int, bool, int] | None:
    """Height, width, whether grey, and orientation of a common JPEG file; None: ask Pillow, which takes much longer.

    A file without metadata (EXIF or XMP, in APP1) is stored upright.
    """
    place = 2
    while content[place] == 0xFF and (marker := content[place + 1]) not in ODD_SEGMENTS:
        if marker in FRAMES:
            bits, height, width, channels = unpack_from(">BHHB", content, place + 4)
            return (height, width, channels == 1, 1) if bits == 8 and channels in (1, 3) and height and width else None
        place += 2 + int.from_bytes(content[place + 2 : place + 4])
    return None


def _frame_by_pillow(content: bytes) -> tuple[int, int, bool, int]:
    """The same of any JPEG file in grey or RGB."""
    with Image.open(BytesIO(content), formats=("JPEG",)) as image:
        if image.mode not in ("L", "RGB"):
            raise UnreadableImageError("it is neither grey nor RGB")
        orientation = int(image.getexif().get(ORIENTATION, 1))
        return image.height, image.width, image.mode == "L", orientation if orientation in TURNS else 1


def gpu_jpeg(file: AnyFile, device: torch.device) -> Jpeg | None:
    """What a GPU decodes of a file: all of it, or nothing."""
    asked = device.type == "cuda" and gpu_reader() is not None and GpuReader.refused < ENOUGH
    return plain_jpeg(file) if asked else None


@cache
def gpu_reader() -> Callable[[int, torch.device], GpuReader] | None:
    """What makes a `GpuReader`, or None where torchvision has no decoder for this GPU."""
    try:
        from torchvision.io import ImageReadMode, decode_jpeg, encode_jpeg

        decode = partial(decode_jpeg, mode=ImageReadMode.RGB)
        decode([encode_jpeg(torch.zeros(3, 16, 16, dtype=torch.uint8))], device="cuda")
    except (ImportError, RuntimeError, AttributeError, TypeError):
        return None
    return partial(GpuReader, decode)
