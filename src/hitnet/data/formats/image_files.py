"""Data made of image files: what folders and tables have in common."""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from hitnet.data.opened import Data, ImageSet, Report, Room
from hitnet.data.reading.entries import Lazy
from hitnet.data.reading.left_out import log_left_out
from hitnet.data.reading.remote import RemotePath, join, path_or_address
from hitnet.data.reading.stored import AnyFile, Root
from hitnet.data.reading.survey import Listing, Survey, read_survey, stream_survey, survey
from hitnet.data.split import check_split

log = logging.getLogger("hitnet")


class FileData(Data):
    """A folder or a table of image files. Images are identified by their paths, and can be streamed."""

    by_path: ClassVar[bool] = True

    @cached_property
    def path(self) -> Path | RemotePath:
        return path_or_address(self.source)

    @property
    def address(self) -> str:
        return str(self.path.absolute() if isinstance(self.path, Path) else self.path)

    @property
    def root(self) -> Root:
        """Where the paths of the images start."""
        return self.path

    @cached_property
    @abstractmethod
    def listing(self) -> Listing:
        """The files, in the set's order."""

    @property
    def name(self) -> str:
        return self.listing.name

    def report(self, split: str = "train") -> Report:
        check_split(split)
        images, skipped = read_survey(self._survey(split))
        return Report(self._with_flip(images), skipped, self.listing.ignored)

    def image_sets(self, splits: Sequence[str], room: Room) -> list[ImageSet]:
        """As in `Data`; the headers of the files are read once for all splits."""
        for split in splits:
            check_split(split)
        first, *others = splits
        surveyed = self._survey(first)
        surveys = [surveyed, *(surveyed.other(split) for split in others)]
        return [self._with_flip(self._read(each, room())) for each in surveys]

    def images_to_correct(self, split: str) -> ImageSet:
        """All files of all splits that can be read; their pixels stay on disk."""
        fresh = self.reopen(limit=None, image_size=None, strict=False)
        streamed, skipped = stream_survey(fresh._survey("all"))
        log_left_out(streamed.name, skipped, fresh.listing.ignored)
        return streamed

    def image_files(self, images: ImageSet) -> Sequence[AnyFile] | None:
        paths = images.paths
        assert paths is not None  # images of files have paths
        return Lazy(lambda i: self.file(paths[i]), range(len(paths)))

    def file(self, path: str) -> AnyFile:
        """The file at a path of the set."""
        return join(self.root, path)

    def _survey(self, split: str) -> Survey:
        options = self.options
        return survey(
            self.listing,
            split,
            limit=options.limit,
            image_size=options.image_size,
            longest_side=options.longest_side,
            strict=options.strict,
        )

    def _read(self, surveyed: Survey, room: int) -> ImageSet:
        """The images that a survey chose: streamed with the option `stream`, or if it is None and they need more than
        `room` bytes of memory.
        """
        stream = self.options.stream
        size = len(surveyed.chosen) * math.prod(surveyed.shape)
        if stream is None and size > room:
            log.info(
                "%s: %d %s images would take %.1f GB of memory, so they are read from disk during training. "
                "`stream` = False keeps them in memory.",
                surveyed.listing.name,
                len(surveyed.chosen),
                surveyed.split,
                size / 1e9,
            )
            stream = True
        images: ImageSet
        images, skipped = stream_survey(surveyed) if stream else read_survey(surveyed)
        log_left_out(surveyed.listing.name, skipped, surveyed.listing.ignored)
        return images
