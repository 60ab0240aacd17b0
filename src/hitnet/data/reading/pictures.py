"""Single pictures of a set for people to look at: its own images and nothing else, upright, at a bounded size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Generic, Protocol, TypeVar

import numpy as np
from PIL import Image

from hitnet.data.images import Images
from hitnet.data.reading import decode
from hitnet.data.reading.copying import leads_out
from hitnet.data.reading.stored import Root, is_remote, join
from hitnet.data.reading.survey import Listing
from hitnet.errors import HitNetError

T = TypeVar("T")


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
                raise NotReadyError("The images of the set are being listed.")
            try:
                self.value = self.make() if self.value is None else self.value
            finally:
                self.lock.release()
        return self.value


class Pictures(Protocol):
    """The pictures of a set."""

    def prepare(self) -> None:
        """Do what the first picture would otherwise wait for."""

    def picture(self, number: int, path: str, longest_side: int) -> Image.Image:
        """A picture in mode L or RGB; raises HitNetError if it cannot be decoded, or is not in the set.

        Args:
            number: The image's id.
            path: Its path, for images that have one.
            longest_side: Larger pictures are scaled down to this number of pixels.
        """


class LoadedPictures:
    """The pictures of images in memory, which are found by their ids."""

    def __init__(self, load: Callable[[], Images]) -> None:
        self.loaded = Once(lambda: _with_places(load()))

    def prepare(self) -> None:
        self.loaded.get()

    def picture(self, number: int, path: str, longest_side: int) -> Image.Image:
        images, places = self.loaded.get()
        if number not in places:
            raise _not_in_set(number, images.name)
        pixels = images.pixels[places[number]].permute(1, 2, 0).squeeze(-1).numpy()
        return decode.shrunk(Image.fromarray(np.ascontiguousarray(pixels)), longest_side)


class FilePictures:
    """The pictures of files, which are found by their paths: in the folder of the set, or among those it lists."""

    def __init__(self, root: Root, listing: Callable[[], Listing]) -> None:
        self.root = root
        self.listed = Once(lambda: (listing().name, frozenset(listing().entries.paths)))

    def prepare(self) -> None:
        """Nothing: most files are found without a list of all."""

    def picture(self, number: int, path: str, longest_side: int) -> Image.Image:
        if not self._lies_inside(path) and path not in self.listed.get()[1]:
            raise _not_in_set(number, self.listed.get()[0])
        try:
            return decode.picture(join(self.root, path), longest_side)
        except decode.UnreadableImageError as error:
            raise HitNetError(f"Image {number} cannot be shown: {error}.") from error

    def _lies_inside(self, path: str) -> bool:
        """Whether a path stays in the folder of the set, links included."""
        root = self.root
        if not isinstance(root, Path) or leads_out(path) or is_remote(path):
            return False
        return (root / path).resolve().is_relative_to(root.resolve())


def _with_places(images: Images) -> tuple[Images, dict[int, int]]:
    return images, {number: place for place, number in enumerate(images.ids.tolist())}


def _not_in_set(number: int, name: str) -> HitNetError:
    return HitNetError(f"Image {number} is not in {name} any more.")
