"""Data made of image files: what folders, tables and datasets of rows have in common."""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from hitnet.data.opened import Data, ImageSet, Report, Room
from hitnet.data.reading.entries import Lazy
from hitnet.data.reading.pictures import PictureReader, file_pictures
from hitnet.data.reading.skipped import log_skipped
from hitnet.data.reading.stored import AnyFile, AnyPath, Root, join, path_or_address
from hitnet.data.reading.survey import Listing, Survey, read_survey, stream_survey, survey
from hitnet.data.split import check_split

log = logging.getLogger("hitnet")


class FileData(Data):
    """A folder or a table of image files. Images are identified by their paths, and can be streamed."""

    by_path: ClassVar[bool] = True

    @cached_property
    def path(self) -> AnyPath:
        return path_or_address(self.source)

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
        images, skipped = read_survey(survey(self.listing, split, self.options))
        return Report(self._with_flip(images), skipped, self.listing.ignored)

    def image_sets(self, splits: Sequence[str], room: Room) -> list[ImageSet]:
        """As in `Data`; the headers of the files are read once for all splits."""
        for split in splits:
            check_split(split)
        first, *others = splits
        surveyed = survey(self.listing, first, self.options)
        surveys = [surveyed, *(surveyed.other(split) for split in others)]
        return [self._with_flip(self._read(each, room())) for each in surveys]

    def images_to_correct(self, split: str) -> ImageSet:
        """All files of all splits that can be read; their pixels stay on disk."""
        fresh = self.reopen(limit=None, image_size=None, strict=False)
        streamed, skipped = stream_survey(survey(fresh.listing, "all", fresh.options))
        log_skipped(streamed.name, skipped, fresh.listing.ignored)
        return streamed

    def image_files(self, images: ImageSet) -> Sequence[AnyFile] | None:
        paths = images.paths
        assert paths is not None  # images of files have paths
        return Lazy(lambda i: self.file(paths[i]), range(len(paths)))

    def pictures(self, split: str) -> PictureReader:
        return file_pictures(self.root, lambda: self.listing)

    def file(self, path: str) -> AnyFile:
        """The file at a path of the set."""
        return join(self.root, path)

    def _read(self, surveyed: Survey, room: int) -> ImageSet:
        """The images that a survey chose: streamed with the option `stream`, or if it is None and they need more than
        `room` bytes of memory.
        """
        stream = self.options.stream
        size = len(surveyed.chosen) * math.prod(surveyed.shape)
        if stream is None and size > room:
            sentence = "%s: %d %s images would take %.1f GB of memory, so they are read from disk during training. "
            advice = "`stream` = False keeps them in memory."
            log.info(sentence + advice, surveyed.listing.name, len(surveyed.chosen), surveyed.split, size / 1e9)
            stream = True
        images: ImageSet
        images, skipped = stream_survey(surveyed) if stream else read_survey(surveyed)
        log_skipped(surveyed.listing.name, skipped, surveyed.listing.ignored)
        return images
