"""Single pictures of a set for people to look at: its own images and nothing else, upright, at a bounded size."""

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
from PIL import Image
from torch import Tensor

from hitnet.data.images import Images
from hitnet.data.reading import decode
from hitnet.data.reading.copying import is_within
from hitnet.data.reading.entries import Listing
from hitnet.data.reading.stored import Root, UnreadableImageError, is_remote, join
from hitnet.errors import HitNetError

T = TypeVar("T")
# Gives the picture of an image in mode L or RGB, by the image's id, its path where it has one, and the longest side in
# pixels that the picture may have. Raises HitNetError if it cannot be decoded, or is not in the set.
PictureReader = Callable[[int, str, int], Image.Image]


class NotReadyError(HitNetError):
    """A picture cannot be had yet, but soon."""


class Once(Generic[T]):
    """A value that one thread computes; others wait for a second at most, and are then told to come again.

    If they waited longer, pictures would take all connections of a browser, and nothing else would be answered.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self.make, self.lock = make, Lock()
        self.value: T | None = None

    def get(self) -> T:
        if self.value is None:
            if not self.lock.acquire(timeout=1):
                raise NotReadyError("The images of the set are still looked through. Ask again soon.")
            try:
                self.value = self.make() if self.value is None else self.value
            finally:
                self.lock.release()
        return self.value


def loaded_pictures(load: Callable[[], Images]) -> PictureReader:
    """Pictures of images in memory, which are found by their ids."""
    loaded = Once(load)

    def picture(number: int, path: str, longest_side: int) -> Image.Image:
        images = loaded.get()
        places = (images.ids == number).nonzero()
        if not len(places):
            raise HitNetError(f"Image {number} is not in {images.name} any more.")
        return pixel_picture(images.pixels[int(places[0])], longest_side)

    return picture


def pixel_picture(pixels: Tensor, longest_side: int) -> Image.Image:
    """The picture of a uint8 image (C, H, W), without black bars."""
    return decode.shrunk(decode.without_bars(as_picture(pixels)), longest_side)


def as_picture(pixels: Tensor) -> Image.Image:
    """A uint8 image (C, H, W) as a grey or RGB picture."""
    return Image.fromarray(np.ascontiguousarray(pixels.permute(1, 2, 0).squeeze(-1).numpy()))


def file_pictures(root: Root, listing: Callable[[], Listing]) -> PictureReader:
    """Pictures of files, which are found by their paths: in the folder of the set, or among those that it lists."""
    listed = Once(lambda: frozenset(listing().entries.paths))

    def picture(number: int, path: str, longest_side: int) -> Image.Image:
        # A file that stays in the set's folder, links included, needs no list of all files.
        inside = isinstance(root, Path) and not is_remote(path) and is_within(root, path)
        if not inside and path not in listed.get():
            raise HitNetError(f"Image {number} is not in {listing().name} any more.")
        try:
            return decode.picture(join(root, path), longest_side)
        except UnreadableImageError as error:
            raise HitNetError(f"Image {number} cannot be shown: {error}.") from error

    return picture
