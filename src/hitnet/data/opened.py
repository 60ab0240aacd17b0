"""Opened data: one type per kind of source. Nothing else has to know what kind it is.

`open_data` (sources.py) makes it once, with its options; everything else receives the opened data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import torch
from torch import Tensor

from hitnet.data.images import Images, Streamed
from hitnet.data.reading.copying import check_outside
from hitnet.data.reading.decode import LARGEST_SIDE
from hitnet.data.reading.entries import Entries, Skipped, log_skipped
from hitnet.data.reading.findings import Look
from hitnet.data.reading.pictures import PictureReader, loaded_pictures
from hitnet.data.reading.stored import AnyFile, path_or_address
from hitnet.data.split import check_limit
from hitnet.errors import HitNetError, log
from hitnet.runtime.files import expand

if TYPE_CHECKING:
    import pandas as pd

    from hitnet.data.known.catalogue import FileState

LONGEST_SIDE = 64
ImageSet = Images | Streamed
AnySet = TypeVar("AnySet", Images, Streamed, ImageSet)
Room = Callable[[], int]  # gives the number of bytes that images may take in memory


@dataclass(frozen=True)
class DataOptions:
    """How a source is opened.

    Attributes:
        image_size: Scale images to fit this size, centred on black; one number is both height and width. In Python,
            also (height, width). None: their own size, scaled down to a longest side of 64 pixels.
        crop: Scale images to fill `image_size` and keep their middle, instead of centring them on black.
        flip: Whether images may be mirrored to train networks; heads on a frozen backbone ignore it. None: the
            dataset's default (False for your own files).
        limit: Use at most N images of the split that is trained on or audited: an even draw by a fixed rule. Of the
            known sets in random order (all but clothes), the first N.
        strict: Stop at the first file that cannot be used, instead of leaving it out with a warning.
        stream: Read images from disk during training. None: only if the memory is short.
        test: Images to test on, for images in memory.
        data_dir: Folder of the known sets (default: $HITNET_DATA, else the user's cache).
        download: Fetch a known set's missing files.
    """

    image_size: tuple[int, int] | None = None
    flip: bool | None = None
    limit: int | None = None
    strict: bool = False
    stream: bool | None = None
    test: Images | None = None
    data_dir: str | Path | None = None
    download: bool = True
    crop: bool = False

    def __post_init__(self) -> None:
        check_limit(self.limit)
        if self.image_size is not None:
            size = (self.image_size, self.image_size) if isinstance(self.image_size, int) else self.image_size
            height, width = size
            if not (1 <= height <= LARGEST_SIDE and 1 <= width <= LARGEST_SIDE):
                raise HitNetError(f"`image_size` must be from 1 to {LARGEST_SIDE}; got {self.image_size}.")
            object.__setattr__(self, "image_size", (height, width))


@dataclass(frozen=True)
class Report:
    """What reading a source gave."""

    images: Images
    skipped: tuple[Skipped, ...] = ()  # what should have given images but did not
    ignored: dict[str, int] = field(default_factory=dict)  # how many other files were passed over, by suffix


@dataclass(frozen=True)
class Check:
    """What a check of a source gave: the state of a known set's files, or a report on your own data."""

    files: tuple[FileState, ...] = ()
    report: Report | None = None

    @property
    def sound(self) -> bool:
        return all(state.usable for state in self.files) and not (self.report and self.report.skipped)


@dataclass(frozen=True)
class Relabelling:
    """What a corrected copy changes."""

    images: ImageSet  # the set before
    labels: Tensor  # (N,), of each image afterwards: indices into `class_names`
    keep: list[int]  # positions of the images that stay
    class_names: tuple[str, ...]  # the set's classes, perhaps followed by others
    split: str = "all"  # that was audited
    left_out: set[str] = field(default_factory=set)  # paths that stay, but that the copy lacks; its writer adds them

    @property
    def paths(self) -> list[str]:
        """The path of each image that stays; likewise `before` and `after`, the names of its classes."""
        paths = self.images.paths or ()
        return [paths[i] for i in self.keep]

    @property
    def before(self) -> list[str]:
        return [self.images.class_names[k] for k in self.images.labels[self.keep].tolist()]

    @property
    def after(self) -> list[str]:
        return [self.class_names[k] for k in self.labels[self.keep].tolist()]

    @property
    def changed(self) -> dict[str, str]:
        """The new class of each image whose class changes, by its path."""
        triples = zip(self.paths, self.before, self.after, strict=True)
        return {path: after for path, before, after in triples if after != before}

    @property
    def dropped(self) -> set[str]:
        """The paths of the images that do not stay."""
        return set(self.images.paths or ()) - set(self.paths)

    def corrected(self) -> Images:
        """The corrected set in memory."""
        if isinstance(self.images, Streamed):
            raise HitNetError(f"{self.images.name} is read from disk; it has no images in memory.")
        whole = replace(self.images, labels=self.labels.long(), class_names=self.class_names)
        return whole.select(self.keep)


class Data(ABC):
    """Opened data. Subclass it for a new format, and add the class to `hitnet.data.sources.FORMATS`.

    Attributes:
        source: What was opened: a name, a path or images.
        options: How it was opened.
        address: A name or an absolute path under which a run or an audit finds the data again.
        name: What to call the data in folder names and titles.
        train_split, test_split, audit_split: What a training, an evaluation and an audit use by default.
        by_path: Whether images are identified by their paths (else by their ids).
        takes_test: Whether the option `test` may give images to test on.
        sample: The name of the sample of the package that this is, if any.
        size_note: How images of several sizes were read, for work that sees only these pixels; mostly empty.
    """

    train_split: str = "train"
    test_split: str = "test"
    audit_split: str = "all"
    by_path: ClassVar[bool] = False
    takes_test: ClassVar[bool] = False
    sample: str | None = None
    size_note: str = ""

    def __init__(self, source: Any, options: DataOptions) -> None:
        self.source, self.options = source, options
        if self.options.test is not None and not self.takes_test:
            raise HitNetError(f"{self.name} has test images of its own; `test` is for images in memory.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}, {self.address}>"

    @classmethod
    @abstractmethod
    def accepts(cls, source: Any) -> bool:
        """Whether `source` is of this kind."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        path = None if self.in_memory else path_or_address(self.source)
        return self.name if path is None else str(path.absolute() if isinstance(path, Path) else path)

    @property
    def in_memory(self) -> bool:
        """Whether an object was opened: `address` is then only a name, under which nothing is found again."""
        return not isinstance(self.source, str | Path)

    @abstractmethod
    def report(self, split: str = "train") -> Report:
        """One split in memory, with the list of what was left out, which is not logged."""

    @abstractmethod
    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        """Write the corrected data into the new folder `out`, whole or not at all.

        Returns:
            The path that `open_data` reads, and a note on what else to know of it (mostly empty).
        """

    @property
    def own_folder(self) -> Path | None:
        """The folder in which every file belongs to the data, if there is one."""
        return None

    def check_outside(self, out: str | Path | None) -> None:
        """Raise HitNetError if a result at `out` would become a part of the data."""
        if out is not None and self.own_folder is not None:
            check_outside(expand(out), self.own_folder)

    def load(self, split: str = "train") -> Images:
        """One split ("train", "test" or "all") in memory. What was left out or scaled is logged."""
        report = self.report(split)
        self.log_size()
        log_skipped(report.images.name, report.skipped, report.ignored)
        return report.images

    def looked_at(self, split: str, look: Look | None) -> ImageSet:
        """A split in memory or, of files, as `look` sees them in one pass. What was left out is logged."""
        report = self.report(split)
        log_skipped(report.images.name, report.skipped, report.ignored)
        return report.images

    def log_size(self) -> None:
        if self.size_note:
            log.info("%s", self.size_note)

    def image_sets(self, splits: Sequence[str], room: Room) -> list[ImageSet]:
        """The images of each split, in memory or streamed from disk; the option `limit` acts on the first split."""
        if self.options.stream:
            raise HitNetError("Only a folder or a table of image files can be streamed. Leave out `stream`.")
        whole = self.reopen(limit=None)
        reports = [(self if i == 0 else whole).report(split) for i, split in enumerate(splits)]
        log_skipped(self.name, list(dict.fromkeys(item for report in reports for item in report.skipped)), {})
        return [report.images for report in reports]

    def training_sets(self, room: Room) -> tuple[ImageSet, ImageSet | None]:
        """The images to train on, and those to test on where there are any."""
        train, test = self.image_sets(["train", "test"], room)
        return train, test

    def images_to_correct(self, split: str) -> ImageSet:
        """The set that corrections of an audit of `split` apply to: with all images that the copy is to hold."""
        return self.reopen(limit=None, image_size=None, strict=False).load("all")

    @property
    def entries(self) -> Entries | None:
        """All image files, for data that is made of them."""
        return None

    def image_files(self, images: ImageSet) -> Sequence[AnyFile] | None:
        """The file of each image, for data that is made of image files."""
        return None

    def pictures(self, split: str) -> PictureReader:
        """What gives single images of a split as pictures for people to look at."""
        return loaded_pictures(lambda: self.load(split))

    def annotations(self) -> pd.DataFrame | None:
        """Several annotators' labels (see `Table.agreement`); None where there is one label per image."""
        return None

    def check(self) -> Check:
        """Check every file."""
        checked = Check(report=self.report("all"))
        self.log_size()
        return checked

    def reopen(self, **changes: Any) -> Self:
        """The same source, read anew, with other options."""
        return type(self)(self.source, replace(self.options, **changes))

    def at_size(self, size: tuple[int, int], *, crop: bool = False) -> Self:
        """The same source at the size (height, width) that a network takes; see `DataOptions` for `crop`."""
        return self.reopen(image_size=size, crop=crop)

    def _with_flip(self, images: AnySet) -> AnySet:
        flip = self.options.flip
        return images if flip is None else replace(images, flip=flip)


def match_classes(images: AnySet, class_names: tuple[str, ...]) -> AnySet:
    """The images with labels as indices into these class names; raises HitNetError for other classes."""
    if images.class_names == class_names:
        return images
    unknown = [name for name in images.class_names if name not in class_names]
    if unknown:
        raise HitNetError(
            f"{images.name} has classes that the network does not know: {', '.join(unknown[:10])}. "
            f"It knows: {', '.join(class_names[:20])}."
        )
    order = torch.tensor([class_names.index(name) for name in images.class_names])
    return replace(images, labels=order[images.labels], class_names=class_names)
