"""Read an image file as an array: every kind of picture becomes uint8, grey or RGB, at one size.

The orientation in EXIF is applied. Of an animation, the first frame is read. Transparent parts become white. In grey
pictures of more than 8 bits white is 65,535, in those of floating-point numbers 1; pictures with larger values are
refused. A picture of another shape is scaled to fit, with its aspect ratio, and centred on black.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageFile, UnidentifiedImageError
from torch import Tensor

from hitnet.data.reading.stored import AnyFile, as_file
from hitnet.errors import HitNetError

SUFFIXES = frozenset(
    (
        *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"),
        *(".pbm", ".pnm"),
    )
)
# Types of pictures that are not read: JPEG's successors, cameras' raw files, scans, drawings.
UNREAD_SUFFIXES = frozenset(
    (
        *(".heic", ".heif", ".hif", ".avif", ".jxl", ".jp2", ".j2k", ".jpf", ".jpx", ".j2c", ".jls", ".jxr"),
        *(".mpo", ".raw", ".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".sr2", ".srf", ".orf"),
        *(".rw2", ".raf", ".pef", ".srw", ".x3f", ".erf", ".kdc", ".dcr", ".mrw", ".3fr", ".iiq", ".rwl"),
        *(".dcm", ".dicom", ".svs", ".ndpi", ".fits", ".exr", ".tga", ".pcx", ".dds", ".ico", ".psd", ".xcf"),
        *(".svg", ".eps", ".apng", ".icns", ".qoi", ".bpg"),
    )
)
PICTURE_SUFFIXES = SUFFIXES | UNREAD_SUFFIXES
# Pillow knows more, but some of those start other programs (EPS runs Ghostscript).
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
LARGEST_SIDE = 4096  # pixels, of images as they are read
LARGEST_PICTURE = 100_000_000  # pixels; a small file could be made to claim more and fill the memory
IN_FLIGHT = LARGEST_PICTURE  # pixels that all threads together hold decoded at full size
STRIP = 4_000_000  # pixels of a large picture that are converted at a time
ORIENTATION = 0x0112
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class OddFileError(Exception):
    """Why a file cannot be used as an image; the reader decides whether to skip it or to stop."""


@dataclass(frozen=True)
class Header:
    height: int
    width: int
    grey: bool


def read_image(path: str | AnyFile, shape: tuple[int, int, int]) -> Tensor:
    """Read an image file as uint8 (C, H, W), exactly as the folder and table readers do."""
    check_shape(shape)
    try:
        return torch.from_numpy(decode(as_file(path), shape))
    except OddFileError as error:
        raise HitNetError(f"{path}: {error}. Give an image file (PNG, JPEG, WebP, BMP, GIF or TIFF).") from error


def check_shape(shape: tuple[int, int, int]) -> None:
    channels, height, width = shape
    if channels not in (1, 3) or not (1 <= height <= LARGEST_SIDE and 1 <= width <= LARGEST_SIDE):
        raise HitNetError(
            f"An image's shape is (1 or 3, height, width) with sides of 1 to {LARGEST_SIDE}; got {shape}."
        )


def header(path: AnyFile) -> Header:
    """Size and colour of a picture, without its pixels."""
    with _opened(path) as image:
        width, height = image.size
        if _orientation(image) >= 5:
            width, height = height, width
        return Header(height, width, _is_grey(image))


def decode(path: AnyFile, shape: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    """The picture as (C, H, W)."""
    channels, height, width = shape
    with _opened(path) as image:
        # JPEG can be decoded at 1/2, 1/4 or 1/8 of its size: at least twice the wanted size is left to scale down.
        image.draft(None, (2 * max(height, width), 2 * max(height, width)))  # type: ignore[arg-type]
        with _in_flight(image.width * image.height):
            image.load()
            turn = TURNS.get(_orientation(image))
            flat = _flat(image, grey=channels == 1)
            if flat is not image:
                image.close()  # frees its pixels
            return fit(flat.transpose(turn) if turn is not None else flat, height, width)


def fit(image: Image.Image, height: int, width: int) -> npt.NDArray[np.uint8]:
    """An "L" or "RGB" picture as (C, height, width): scaled to fit, centred on black."""
    if image.size != (width, height):
        scale = min(width / image.width, height / image.height)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        scaled = image.resize(size, Image.Resampling.BILINEAR) if size != image.size else image
        image = Image.new(image.mode, (width, height))
        image.paste(scaled, ((width - size[0]) // 2, (height - size[1]) // 2))
    array = np.array(image, np.uint8)
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


# What matters of Pillow's warnings about odd files is raised as an error. The filter stands for the whole process:
# files are decoded in threads, which have no filters of their own.
warnings.filterwarnings("ignore", module=r"PIL\.")

_turn = threading.Condition()
_held = 0  # pixels in flight


@contextmanager
def _in_flight(pixels: int) -> Iterator[None]:
    """Wait until this number of pixels fits into memory beside those of other threads; a single picture always fits."""
    global _held
    with _turn:
        _turn.wait_for(lambda: _held == 0 or _held + pixels <= IN_FLIGHT)
        _held += pixels
    try:
        yield
    finally:
        with _turn:
            _held -= pixels
            _turn.notify_all()


@contextmanager
def _opened(path: AnyFile) -> Iterator[ImageFile.ImageFile | Image.Image]:
    try:
        if isinstance(path, Path):
            _check_local(path)
        # Given a path, Pillow maps some TIFFs into memory and mixes up the pixels of those that must be turned.
        with path.open("rb") as file, Image.open(file, formats=FORMATS) as image:
            if image.width * image.height > LARGEST_PICTURE:
                raise OddFileError(f"it claims {image.width} x {image.height} pixels, more than {LARGEST_PICTURE:,}")
            yield image
    except OddFileError:
        raise
    except UnidentifiedImageError:
        raise OddFileError("it is not an image, or of a kind that is not read") from None
    except Image.DecompressionBombError:
        raise OddFileError(f"it claims more than {LARGEST_PICTURE:,} pixels") from None
    except FileNotFoundError:
        raise OddFileError("there is no such file") from None
    except PermissionError:
        raise OddFileError("there is no permission to read it") from None
    except MemoryError:
        raise OddFileError("it does not fit into memory") from None
    # A damaged file makes Pillow's decoders raise almost anything.
    except Exception as error:
        raise OddFileError(f"it is damaged ({error or type(error).__name__})") from error


def _check_local(path: Path) -> None:
    if not path.exists():
        raise OddFileError("there is no such file")
    if not path.is_file():
        raise OddFileError("it is not a regular file")
    if path.stat().st_size == 0:
        raise OddFileError("it is empty")


def _orientation(image: Image.Image) -> int:
    # A PNG may have its EXIF after its pixels, and reading it would decode them first. Pillow turns TIFFs itself.
    if image.format == "TIFF" or (image.format == "PNG" and "exif" not in image.info):
        return 1
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # a picture with damaged EXIF can still be read
        return 1


def _is_grey(image: Image.Image) -> bool:
    if image.mode in ("P", "PA"):
        palette = np.asarray(image.getpalette("RGB") or [0], np.uint8)
        return len(palette) % 3 == 0 and bool((palette.reshape(-1, 3) == palette.reshape(-1, 3)[:, :1]).all())
    return image.mode in ("1", "L", "LA", "La", "I", "F") or image.mode.startswith("I;16")


def _flat(image: Image.Image, *, grey: bool) -> Image.Image:
    """The picture in mode L or RGB: eight bits, nothing transparent. Large ones are converted in strips."""
    if image.mode == ("L" if grey else "RGB") and "transparency" not in image.info:
        return image
    rows = max(1, STRIP // image.width)
    if image.height <= rows:
        return _flat_strip(image, grey=grey)
    flat = Image.new("L" if grey else "RGB", image.size)
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        flat.paste(_flat_strip(strip, grey=grey), (0, top))
    return flat


def _flat_strip(image: Image.Image, *, grey: bool) -> Image.Image:
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        image = Image.fromarray(_eight_bits(np.asarray(image)))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        layer = image.convert("RGBA")
        image = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        image.alpha_composite(layer)
        image = image.convert("RGB")
    return image.convert("L" if grey else "RGB")


def _eight_bits(array: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """Scale grey values of another type to 8 bits: white is 65,535 for whole numbers and 1 for floats.

    Pillow reads some files of 16 bits as 32 bits, but never at another scale.
    """
    white = 1 if array.dtype.kind == "f" else 65_535
    values = array.astype(np.float64)
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= white):  # or not a number
        raise OddFileError(f"its {array.dtype.name} pixels run from {low:g} to {high:g}, outside 0 to {white:,}")
    rounded: npt.NDArray[np.uint8] = np.rint(values * (255 / white)).astype(np.uint8)
    return rounded
