"""How a data source is opened: the options that every kind of source takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hitnet.data.images import Images
from hitnet.data.reading.decode import LARGEST_SIDE
from hitnet.data.split import check_limit
from hitnet.errors import HitNetError

LONGEST_SIDE = 64


@dataclass(frozen=True)
class DataOptions:
    """How a source is opened.

    Attributes:
        image_size: Scale images to fit this size, centred on black; one number is both height and width. In Python,
            also (height, width).
        longest_side: Without `image_size`, larger images are scaled down until their longest side has N pixels.
        flip: Whether images may be mirrored. None: the dataset's default (False for your own files).
        limit: Use at most N images of the split that is trained on or audited: an even draw by a fixed rule. Of the
            known sets in random order (all but clothes), the first N.
        strict: Stop at the first file that cannot be used, instead of leaving it out with a warning.
        stream: Read images from disk during training. None: only if the memory is short.
        test: Images to test on, for images in memory.
        data_dir: Folder of the known sets (default: $HITNET_DATA, else the user's cache).
        download: Fetch a known set's missing files.
    """

    image_size: tuple[int, int] | None = None
    longest_side: int = LONGEST_SIDE
    flip: bool | None = None
    limit: int | None = None
    strict: bool = False
    stream: bool | None = None
    test: Images | None = None
    data_dir: str | Path | None = None
    download: bool = True

    def __post_init__(self) -> None:
        check_limit(self.limit)
        if self.image_size is not None:
            size = (self.image_size, self.image_size) if isinstance(self.image_size, int) else self.image_size
            height, width = size
            if not (1 <= height <= LARGEST_SIDE and 1 <= width <= LARGEST_SIDE):
                raise HitNetError(f"`image_size` must be from 1 to {LARGEST_SIDE}; got {self.image_size}.")
            object.__setattr__(self, "image_size", (height, width))
