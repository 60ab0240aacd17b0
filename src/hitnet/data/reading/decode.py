"""Read an image file: every kind of picture becomes 8 bits, grey or RGB, upright.

The orientation in EXIF is applied. Of an animation, the first frame is read. Transparent parts become white. In grey
pictures of more than 8 bits white is 65,535, in those of floating-point numbers 1; pictures with larger values are
refused. A picture of another shape than the wanted one is scaled with its aspect ratio: to fit, centred on black, or to
fill the shape, cropped to the middle.
"""

import stat
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageFile, UnidentifiedImageError
from torch import Tensor

from hitnet.data.reading.stored import AnyFile, StoredFile, UnreadableImageError, as_file
from hitnet.errors import HitNetError, MissingFileError

# Pillow knows more formats, but some of those start other programs (EPS runs Ghostscript).
FORMATS = ["PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM"]
SUFFIXES = {
    *(".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"),
    *(".pbm", ".pnm"),
}
# Types of pictures that are not read: JPEG's successors, cameras' raw files, scans, drawings.
UNREAD_SUFFIXES = {
    *(".heic", ".heif", ".hif", ".avif", ".jxl", ".jp2", ".j2k", ".jpf", ".jpx", ".j2c", ".jls", ".jxr"),
    *(".mpo", ".raw", ".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".sr2", ".srf", ".orf"),
    *(".rw2", ".raf", ".pef", ".srw", ".x3f", ".erf", ".kdc", ".dcr", ".mrw", ".3fr", ".iiq", ".rwl"),
    *(".dcm", ".dicom", ".svs", ".ndpi", ".fits", ".exr", ".tga", ".pcx", ".dds", ".ico", ".psd", ".xcf"),
    *(".svg", ".eps", ".apng", ".icns", ".qoi", ".bpg"),
}
HEIF, AVIF = (".heic", ".heif", ".hif"), (".avif",)
Pixels = npt.NDArray[np.uint8]
NEEDED = dict.fromkeys(HEIF, "the package pillow-heif (pip install pillow-heif)") | dict.fromkeys(
    AVIF, "a newer Pillow (pip install 'pillow>=11.3')"
)
with suppress(ImportError):
    from pillow_heif import register_heif_opener

    register_heif_opener()
    FORMATS, SUFFIXES = [*FORMATS, "HEIF"], SUFFIXES.union(HEIF)
with suppress(ImportError):
    from PIL import AvifImagePlugin

    if AvifImagePlugin.SUPPORTED:
        FORMATS, SUFFIXES = [*FORMATS, "AVIF"], SUFFIXES.union(AVIF)
UNREAD_SUFFIXES -= SUFFIXES

LARGEST_SIDE = 4096  # pixels, of images as they are read
LARGEST_FILE = 1 << 30  # bytes; some formats are read into memory whole
USUAL_FILE = 1 << 17  # bytes: few photographs of datasets have more
LARGEST_FETCHED = 1 << 25  # bytes; of a larger file, each use reads what it needs
LARGEST_PICTURE = 100_000_000  # pixels; a small file could be made to claim more and fill the memory
IN_FLIGHT = LARGEST_PICTURE  # pixels that all threads together hold decoded at full size
STRIP = 4_000_000  # pixels of a large picture that are converted at a time
REASONS = {
    UnidentifiedImageError: "it is not an image, or of a kind that is not read",
    Image.DecompressionBombError: f"it claims more than {LARGEST_PICTURE:,} pixels",
    FileNotFoundError: "there is no such file",
    NotADirectoryError: "there is no such file",
    PermissionError: "there is no permission to read it",
    MemoryError: "it does not fit into memory",
}
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


@dataclass(frozen=True)
class Header:
    height: int
    width: int
    grey: bool


def unread_reason(suffix: str) -> str:
    """Why a picture of a type that is not read is left out."""
    what = f"need {NEEDED[suffix]}, or" if suffix in NEEDED else "are not read;"
    return f"images of type {suffix} {what} convert it to PNG or JPEG"


def read_image(path: str | AnyFile, shape: tuple[int, int, int], *, crop: bool = False) -> Tensor:
    """Read an image file as uint8 (C, H, W), exactly as the folder and table readers do; see `fit` for `crop`."""
    check_shape(shape)
    try:
        return torch.from_numpy(decode(as_file(path), shape, crop=crop))
    except UnreadableImageError as error:
        raise refusal(path, error) from error


def refusal(path: str | AnyFile, reason: object) -> HitNetError:
    """The error for a file that cannot be read as an image."""
    kind = HitNetError if not isinstance(path, str | Path) or Path(path).exists() else MissingFileError
    return kind(f"{path}: {reason}. Give an image file (PNG, JPEG, WebP, BMP, GIF or TIFF).")


def check_shape(shape: tuple[int, int, int]) -> None:
    channels, height, width = shape
    if channels not in (1, 3) or not (1 <= height <= LARGEST_SIDE and 1 <= width <= LARGEST_SIDE):
        raise HitNetError(f"An image's shape is (1 or 3, height, width), sides of 1 to {LARGEST_SIDE}; got {shape}.")


def header(file: AnyFile) -> Header:
    """Size and colour of a picture, without its pixels."""
    with _opened(file) as image:
        width, height = image.size
        if _orientation(image) >= 5:
            width, height = height, width
        return Header(height, width, _is_grey(image))


def decode(file: AnyFile, shape: tuple[int, int, int], *, crop: bool = False) -> Pixels:
    """The picture as (C, H, W); see `fit` for `crop`."""
    channels, height, width = shape
    with _decoded(file, max(height, width), grey=channels == 1) as image:
        return fit(image, height, width, crop=crop)


def picture(file: AnyFile, longest_side: int) -> Image.Image:
    """The picture for people to look at: with its own shape, but no side longer than `longest_side` pixels."""
    with _decoded(file, longest_side) as image:
        return shrunk(image, longest_side)


def shrunk(image: Image.Image, longest_side: int) -> Image.Image:
    image.thumbnail((longest_side, longest_side), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return image


def fit(image: Image.Image, height: int, width: int, *, crop: bool = False) -> Pixels:
    """An "L" or "RGB" picture as (C, height, width): scaled to fit, centred on black; with `crop`, only its middle."""
    if image.size != (width, height) and crop:
        scale = max(width / image.width, height / image.height)
        left, top = (image.width - width / scale) / 2, (image.height - height / scale) / 2
        box = (max(0, left), max(0, top), image.width - max(0, left), image.height - max(0, top))
        image = image.resize((width, height), Image.Resampling.BILINEAR, box=box)
    elif image.size != (width, height):
        scale = min(width / image.width, height / image.height)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        scaled = image.resize(size, Image.Resampling.BILINEAR) if size != image.size else image
        image = Image.new(image.mode, (width, height))
        image.paste(scaled, ((width - size[0]) // 2, (height - size[1]) // 2))
    array = np.array(image, np.uint8)
    return array[None] if array.ndim == 2 else np.ascontiguousarray(array.transpose(2, 0, 1))


def without_bars(image: Image.Image) -> Image.Image:
    """A colour picture without the black bars of `fit`, which are on two opposite sides."""
    box = image.getbbox() if image.mode == "RGB" else None
    if box is None or (box[2] - box[0] < image.width and box[3] - box[1] < image.height):
        return image
    return image.crop(box)


def eight_bits(array: npt.NDArray[Any], *, white: int | None = None, precision: npt.DTypeLike = np.float64) -> Pixels:
    """Numbers of any type as uint8: the one rule for files, arrays and items of datasets.

    `white` is the value that becomes 255; None: 1 for fractions and booleans, 65,535 for uint16, else 255. Values are
    scaled in `precision`.
    """
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind not in "biuf":
        raise UnreadableImageError(f"its pixels must be numbers; got {array.dtype}")
    if white is None:
        white = 1 if array.dtype.kind in "bf" else 65_535 if array.dtype == np.uint16 else 255
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    if not (low >= 0 and high <= white):  # or not a number
        raise UnreadableImageError(f"its {array.dtype} pixels run from {low:g} to {high:g}, outside 0 to {white:,}")
    scaled = array if white == 255 else np.rint(np.multiply(array, 255 / white, dtype=precision))
    return scaled.astype(np.uint8)


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
def _decoded(file: AnyFile, side: int, *, grey: bool | None = None) -> Iterator[Image.Image]:
    """The picture, upright, in mode L or RGB; a large JPEG file at a smaller size, but at least twice `side`."""
    with _opened(file) as image:
        image.draft(None, (2 * side, 2 * side))  # type: ignore[arg-type]
        with _in_flight(image.width * image.height):
            image.load()
            turn = TURNS.get(_orientation(image))
            flat = _flat(image, grey=_is_grey(image) if grey is None else grey)
            if flat is not image:
                image.close()  # frees its pixels
            yield flat.transpose(turn) if turn is not None else flat


def fetched(file: AnyFile) -> AnyFile:
    """The file with its bytes in memory, for work that reads it more than once; a large one stays where it is."""
    with _stream(file) as stream:
        content = stream.read(USUAL_FILE)  # memory for all that is asked for is taken at once
        if len(content) == USUAL_FILE:
            content += stream.read(LARGEST_FETCHED + 1 - USUAL_FILE)
    return file if len(content) > LARGEST_FETCHED else StoredFile(str(file), lambda: content)


@contextmanager
def _opened(file: AnyFile) -> Iterator[ImageFile.ImageFile | Image.Image]:
    # Given a path, Pillow maps some TIFFs into memory and mixes up the pixels of those that must be turned.
    with _stream(file) as stream, Image.open(stream, formats=FORMATS) as image:
        if image.width * image.height > LARGEST_PICTURE:
            claim = f"{image.width} x {image.height}"
            raise UnreadableImageError(f"it claims {claim} pixels, more than {LARGEST_PICTURE:,}")
        yield image


@contextmanager
def _stream(file: AnyFile) -> Iterator[BinaryIO]:
    """The open file; what goes wrong with it is an UnreadableImageError."""
    try:
        if isinstance(file, Path):
            status = file.stat()
            if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for without end
                raise UnreadableImageError("it is not a regular file")
            if status.st_size == 0:
                raise UnreadableImageError("it is empty")
            if status.st_size > LARGEST_FILE:
                raise UnreadableImageError(f"it has {status.st_size:,} bytes, more than {LARGEST_FILE:,}")
        with file.open("rb") as stream:
            yield stream
    except UnreadableImageError:
        raise
    except Exception as error:  # a damaged file makes Pillow's decoders raise almost anything
        known = (reason for kind, reason in REASONS.items() if isinstance(error, kind))
        raise UnreadableImageError(next(known, f"it is damaged ({error or type(error).__name__})")) from error


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
    return image.mode in ("1", "L", "LA", "La") or _is_deep(image)


def _is_deep(image: Image.Image) -> bool:
    """Whether a grey picture has more than 8 bits: Pillow reads some of 16 bits as 32, but never at another scale."""
    return image.mode in ("I", "F") or image.mode.startswith("I;16")


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
    if _is_deep(image):
        image = Image.fromarray(eight_bits(np.asarray(image), white=1 if image.mode == "F" else 65_535))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        layer = image.convert("RGBA")
        image = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        image.alpha_composite(layer)
        image = image.convert("RGB")
    return image.convert("L" if grey else "RGB")
