"""The known sets as data: from their makers' files to images. Two samples ship with the package:

mnist-sample     MNIST's 10,000 test images, and people's judgements of 100 labels. Image i of the original order is a
                 test image where i % 5 == 4: 8,000 train, 2,000 test
clothing-sample  1,201 photographs of clothes in ten classes (CC0), a third of
                 github.com/alexeygrigorev/clothing-dataset-small at 160 pixels; tools/make_clothing_sample.py makes the
                 file. Some labels are wrong: `judgements.csv` says which, by the developers' own judgement
"""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hitnet.data.formats.arrays import ArrayData, part
from hitnet.data.formats.folder import FolderData
from hitnet.data.images import Images
from hitnet.data.known import makers
from hitnet.data.known.catalogue import KNOWN_SETS, SetFiles, data_folder, known_set
from hitnet.data.known.makers import read_idx
from hitnet.data.opened import Check, DataOptions, ImageSet
from hitnet.data.reading.decode import decode
from hitnet.data.reading.stored import StoredFile
from hitnet.errors import HitNetError
from hitnet.runtime.files import shipped

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).with_name("sample")
PHOTOS = FOLDER / "clothing" / "photos.zip"
PHOTOS_SHA256 = KNOWN_SETS["clothing-sample"].files["photos.zip"]
CLOTHING_CLASSES = tuple(KNOWN_SETS["clothing-sample"].classes)
SHAPE = (3, 160, 120)  # of most photographs


def read_mnist_sample(split: str) -> Images:
    """The sample's images; in every split, ids are indices in MNIST's test set."""
    files = {"t10k-images-idx3-ubyte.gz": 3, "t10k-labels-idx1-ubyte.gz": 1}
    images = Images.from_arrays(*(read_idx(FOLDER / file, ndim=n) for file, n in files.items()), name="MNIST sample")
    if split == "all":
        return images
    test = images.ids % 5 == 4
    return images.select(torch.nonzero(test if split == "test" else ~test)[:, 0])


def read_clothing_sample(split: str) -> Images:
    """The sample's images; ids count all photographs in the order of the file, whatever the split."""
    with zipfile.ZipFile(io.BytesIO(shipped(PHOTOS, PHOTOS_SHA256))) as archive:
        names = archive.namelist()
        chosen = [i for i, name in enumerate(names) if split in ("all", name.split("/")[0])]
        files = [StoredFile(names[i], lambda i=i: archive.read(names[i])) for i in chosen]  # type: ignore[misc]
        pixels = np.stack([decode(file, SHAPE) for file in files])
    paths = [names[i] for i in chosen]
    labels = torch.tensor([CLOTHING_CLASSES.index(path.split("/")[1]) for path in paths])
    about = labels, CLOTHING_CLASSES, "clothing sample", torch.tensor(chosen), tuple(paths)
    return Images(torch.from_numpy(pixels), *about, flip=True)


SAMPLES = {"mnist-sample": read_mnist_sample, "clothing-sample": read_clothing_sample}


class KnownData(ArrayData):
    """A set that is known by name.

    Ids are indices within the split. In "all" the test images come after the training images, numbered on.
    """

    unlabelled = ()

    def __init__(self, source: str, options: DataOptions) -> None:
        super().__init__(source, options)
        self.files = SetFiles(known_set(source), data_folder(self.options.data_dir))
        self.sample = source if source in SAMPLES else None
        self.audit_split = "all" if self.sample else "train"

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """A name takes precedence over a folder of that name, which is written "./mnist"."""
        return isinstance(source, str) and source in KNOWN_SETS

    @property
    def name(self) -> str:
        return str(self.source)

    address = name

    def check(self) -> Check:
        return Check(files=self.files.check())

    def images_to_correct(self, split: str) -> ImageSet:
        """The audited split: the other split has ids of its own."""
        return self.reopen(limit=None, image_size=None).load(split)

    def _read(self, split: str, limit: int | None) -> Images:
        if self.sample:
            images = SAMPLES[self.sample](split)
            sorted_by_class = self.sample == "clothing-sample"
            return part(images, None, "all", limit) if sorted_by_class else images.first(limit)
        if split != "all":
            return self._read_original(split).first(limit)
        train = self._read("train", limit)
        if limit is not None and len(train) >= limit:
            return train
        test = self._read("test", None if limit is None else limit - len(train))
        return replace(
            train,
            pixels=torch.cat([train.pixels, test.pixels]),
            labels=torch.cat([train.labels, test.labels]),
            ids=torch.cat([train.ids, test.ids + len(train)]),
        )

    def _splits(self, images: Images, audited: str) -> list[str] | None:
        if audited != "all":
            return None
        if self.sample:
            tested = set(SAMPLES[self.sample]("test").ids.tolist())
        else:
            tested = set(images.ids[images.ids >= len(self._read("train", None))].tolist())
        return ["test" if number in tested else "train" for number in images.ids.tolist()]

    def _read_original(self, split: str) -> Images:
        """A split from its makers' files."""
        dataset = self.files.dataset
        x: Any
        y: Any
        if self.source == "cifar10":
            batches = [f"data_batch_{i}.bin" for i in range(1, 6)] if split == "train" else ["test_batch.bin"]
            x, y = makers.read_cifar([self._find(batch) for batch in batches])
        elif self.source == "svhn":
            x, y = makers.read_svhn(self._find(f"{split}_32x32.mat"))
        else:
            part = "train" if split == "train" else "t10k"
            images, labels = (self._find(f"{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
            x, y = read_idx(images, ndim=3), read_idx(labels, ndim=1)
            if len(x) != len(y):
                raise HitNetError(f"{images} holds {len(x):,} images but {labels} {len(y):,} labels. Fetch both again.")
        return Images.from_arrays(x, y, class_names=dataset.classes, name=dataset.title, flip=dataset.flip)

    def _find(self, file_name: str) -> Path:
        return self.files.find(file_name, download=self.options.download)


class ClothingData(FolderData):
    """The folder `clothing` in the data folder, fetched if it is not there: the photographs of the sample, and more."""

    def __init__(self, source: str, options: DataOptions) -> None:
        super().__init__(source, replace(options, flip=True if options.flip is None else options.flip))

    @classmethod
    def accepts(cls, source: Any) -> bool:
        return isinstance(source, str) and source == "clothing"

    @property
    def address(self) -> str:
        return str(self.path.absolute())

    @cached_property
    def path(self) -> Path:
        files = SetFiles(known_set("clothing"), data_folder(self.options.data_dir))
        if not files.folder.is_dir() and not self.options.download:
            raise HitNetError(
                f"clothing: {files.folder} is missing. Clone {files.dataset.page} to that place, allow the download, "
                "or name the folder that holds your sets with `data_dir` or $HITNET_DATA."
            )
        return files.fetch()


def list_data(data_dir: str | Path | None = None) -> list[dict[str, Any]]:
    """The known datasets: name, whether it is here, what it is, licence and page."""
    rows = []
    for name, dataset in KNOWN_SETS.items():
        files = SetFiles(dataset, data_folder(data_dir))
        here = files.folder.is_dir() if name == "clothing" else all(state.usable for state in files.check())
        rows.append({"name": name, "here": here} | {key: getattr(dataset, key) for key in ("about", "licence", "page")})
    return rows


def fetch_data(name: str, data_dir: str | Path | None = None) -> Path:
    """Download what a known dataset lacks, with checksums; returns the folder that its files lie in."""
    return SetFiles(known_set(name), data_folder(data_dir)).fetch()


def judgements() -> pd.DataFrame:
    """100 images of mnist-sample, each judged by five people, ordered by id; see sample/SOURCES.md for the columns."""
    import pandas as pd  # takes a second to import

    table = pd.read_csv(FOLDER / "label_judgements.csv", dtype={"corrected_label": "Int64"})
    return table.rename(columns={"index": "id"}).sort_values("id", ignore_index=True)


def label_errors(name: str) -> pd.DataFrame:
    """The labels of a sample that people found wrong, ordered by id: 15 of mnist-sample (see `judgements`).

    Of clothing-sample, the developers looked only at the labels that an audit doubted most: there may be others.
    """
    import pandas as pd

    if name == "mnist-sample":
        table = judgements()
        return table[table["consensus"] == "error"].reset_index(drop=True)
    table = pd.read_csv(PHOTOS.with_name("judgements.csv"))
    return table[table["verdict"] == "wrong"].reset_index(drop=True)
