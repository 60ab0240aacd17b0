"""The known sets as data: from their makers' files to images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hitnet.data.formats.arrays import ArrayData, part
from hitnet.data.images import Images
from hitnet.data.known import affnist, makers
from hitnet.data.known.catalogue import SetFiles, data_folder
from hitnet.data.known.clothing import fetch_clothing
from hitnet.data.known.facts import KNOWN_SETS, known_set
from hitnet.data.known.samples import read_clothing_sample, read_mnist_sample
from hitnet.data.opened import Check, ImageSet
from hitnet.data.options import DataOptions
from hitnet.errors import HitNetError

DIGITS = tuple("0123456789")
FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
SAMPLES = {"mnist-sample": read_mnist_sample, "clothing-sample": read_clothing_sample}


class KnownData(ArrayData):
    """A set that is known by name.

    Ids are indices within the split. In "all" the test images come after the training images, numbered on.
    """

    def __init__(self, source: str, options: DataOptions | None = None) -> None:
        super().__init__(source, options)
        self.files = SetFiles(known_set(source), data_folder(self.options.data_dir))
        self.sample = source if source in SAMPLES else None
        self.audit_split = "all" if self.sample else "train"

    @classmethod
    def accepts(cls, source: Any) -> bool:
        """A name takes precedence over a folder of that name, which is written "./mnist"."""
        return isinstance(source, str) and source in KNOWN_SETS

    @property
    def address(self) -> str:
        return str(self.source)

    @property
    def name(self) -> str:
        return str(self.source)

    def check(self) -> Check:
        return Check(files=self.files.check())

    def images_to_correct(self, split: str) -> ImageSet:
        """The audited split: the other split has ids of its own."""
        return self.reopen(limit=None, image_size=None).load(split)

    def _read(self, split: str) -> Images:
        return self._read_split(split, self.options.limit)

    def _read_split(self, split: str, limit: int | None) -> Images:
        if self.sample:
            images = SAMPLES[self.sample](split)
            sorted_by_class = self.sample == "clothing-sample"
            return part(images, None, "all", limit) if sorted_by_class else images.first(limit)
        if split != "all":
            return READERS[self.name](self, split, limit).first(limit)
        train = self._read_split("train", limit)
        if limit is not None and len(train) >= limit:
            return train
        test = self._read_split("test", None if limit is None else limit - len(train))
        return replace(
            train,
            pixels=torch.cat([train.pixels, test.pixels]),
            labels=torch.cat([train.labels, test.labels]),
            ids=torch.cat([train.ids, test.ids + len(train)]),
            name=test.name,
        )

    def _splits(self, images: Images, audited: str) -> list[str] | None:
        if audited != "all":
            return None
        if self.sample:
            tested = set(SAMPLES[self.sample]("test").ids.tolist())
        else:
            tested = set(images.ids[images.ids >= len(self._read_split("train", None))].tolist())
        return ["test" if number in tested else "train" for number in images.ids.tolist()]

    def find(self, file_name: str) -> Path:
        return self.files.owner.find(file_name, download=self.options.download)


def _read_cifar(data: KnownData, split: str, limit: int | None) -> Images:
    batches = [f"data_batch_{i}.bin" for i in range(1, 6)] if split == "train" else ["test_batch.bin"]
    pixels, labels = makers.read_cifar([data.find(batch) for batch in batches])
    return Images.from_arrays(pixels, labels, class_names=makers.CIFAR_CLASSES, name="CIFAR-10", flip=True)


def _read_svhn(data: KnownData, split: str, limit: int | None) -> Images:
    pixels, digits = makers.read_svhn(data.find(f"{split}_32x32.mat"))
    return Images.from_arrays(pixels, digits, class_names=DIGITS, name="SVHN")


def _read_mnist(data: KnownData, split: str, limit: int | None, classes: tuple[str, ...] = DIGITS) -> Images:
    part = "train" if split == "train" else "t10k"
    pictures, labels = (data.find(f"{part}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
    x, y = makers.read_idx(pictures, ndim=3), makers.read_idx(labels, ndim=1)
    if len(x) != len(y):
        raise HitNetError(f"{pictures} holds {len(x):,} images but {labels} {len(y):,} labels. Fetch both again.")
    return Images.from_arrays(x, y, class_names=classes, name=data.files.owner.dataset.title)


def _read_fashion(data: KnownData, split: str, limit: int | None) -> Images:
    return replace(_read_mnist(data, split, limit, FASHION_CLASSES), flip=True)


def _read_affnist(data: KnownData, split: str, limit: int | None) -> Images:
    if split == "test" and (files := data.files.original_affnist()):
        parts = [makers.read_affnist(file) for file in files]
        x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Images.from_arrays(x, y, class_names=DIGITS, name="affNIST")
    base = _read_mnist(data, split, None)
    if split == "train":
        return replace(base, pixels=affnist.place(base.pixels), name="affNIST train (MNIST on 40x40)")
    pixels = affnist.rebuild(base.pixels, limit=limit)
    labels = base.labels.repeat(affnist.COPIES)[: len(pixels)]
    return Images.from_arrays(pixels, labels, class_names=DIGITS, name="affNIST (rebuilt)")


READERS: dict[str, Callable[[KnownData, str, int | None], Images]] = {
    "mnist": _read_mnist,
    "fashion-mnist": _read_fashion,
    "cifar10": _read_cifar,
    "svhn": _read_svhn,
    "affnist": _read_affnist,
}


def list_data(data_dir: str | Path | None = None) -> list[dict[str, Any]]:
    """The known datasets: name, whether it is here, what it is, licence and page."""
    rows = []
    for name, dataset in KNOWN_SETS.items():
        files = SetFiles(dataset, data_folder(data_dir))
        here = files.folder.is_dir() if name == "clothing" else all(state.usable for state in files.check())
        rows.append({"name": name, "here": here} | {key: getattr(dataset, key) for key in ("about", "licence", "page")})
    return rows


def fetch_data(name: str, data_dir: str | Path | None = None) -> Path:
    """Download what a known dataset lacks, with checksums.

    Returns:
        The folder that its files lie in.
    """
    files = SetFiles(known_set(name), data_folder(data_dir))
    if name == "clothing":
        fetch_clothing(files.folder)
    return files.fetch()
