"""Reading the known sets: from their makers' files to images."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from hitnet.data import affnist
from hitnet.data.catalogue import find, original_affnist
from hitnet.data.cifar import CLASSES as CIFAR_CLASSES
from hitnet.data.cifar import read_batches
from hitnet.data.idx import read_idx
from hitnet.data.images import Images
from hitnet.data.mat import read_affnist, read_svhn
from hitnet.data.sample import read_sample
from hitnet.data.sources import get
from hitnet.errors import HitNetError

DIGITS = tuple("0123456789")
FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def read_set(
    name: str,
    split: str,
    *,
    data_dir: str | Path | None = None,
    limit: int | None = None,
    download: bool = True,
) -> Images:
    """One split of a known set, or its first `limit` images.

    Ids are indices within the split; in "all" the test images come after the training images, numbered on.
    """
    source = get(name)
    if name == "mnist-sample":
        return read_sample(split).first(limit)
    if split == "all":
        train = read_set(name, "train", data_dir=data_dir, limit=limit, download=download)
        if limit is not None and len(train) >= limit:
            return train
        rest = None if limit is None else limit - len(train)
        test = read_set(name, "test", data_dir=data_dir, limit=rest, download=download)
        return _join(train, test)
    if name == "affnist":
        return _affnist(split, data_dir=data_dir, limit=limit, download=download)
    if name == "cifar10":
        batches = [f"data_batch_{i}.bin" for i in range(1, 6)] if split == "train" else ["test_batch.bin"]
        x, y = read_batches([find(name, batch, data_dir=data_dir, download=download) for batch in batches])
        images = Images.from_arrays(x, y, class_names=CIFAR_CLASSES, name=source.title, flip=True)
    elif name == "svhn":
        pixels, digits = read_svhn(find(name, f"{split}_32x32.mat", data_dir=data_dir, download=download))
        images = Images.from_arrays(pixels, digits, class_names=DIGITS, name=source.title)
    else:
        images = _idx(name, split, data_dir=data_dir, download=download)
    return images.first(limit)


def _idx(name: str, split: str, *, data_dir: str | Path | None, download: bool) -> Images:
    part = "train" if split == "train" else "t10k"
    pictures = find(name, f"{part}-images-idx3-ubyte.gz", data_dir=data_dir, download=download)
    labels = find(name, f"{part}-labels-idx1-ubyte.gz", data_dir=data_dir, download=download)
    x, y = read_idx(pictures, ndim=3), read_idx(labels, ndim=1)
    if len(x) != len(y):
        raise HitNetError(f"{pictures} holds {len(x):,} images but {labels} {len(y):,} labels. Fetch both again.")
    fashion = name == "fashion-mnist"
    classes = FASHION_CLASSES if fashion else DIGITS
    return Images.from_arrays(x, y, class_names=classes, name=get(name).title, flip=fashion)


def _affnist(split: str, *, data_dir: str | Path | None, limit: int | None, download: bool) -> Images:
    if split == "test" and (files := original_affnist(data_dir)):
        parts = [read_affnist(file) for file in files]
        x, y = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Images.from_arrays(x, y, class_names=DIGITS, name="affNIST").first(limit)
    base = _idx("mnist", split, data_dir=data_dir, download=download)
    if split == "train":
        name = "affNIST train (MNIST on 40x40)"
        return replace(base, pixels=affnist.place(base.pixels), name=name).first(limit)
    pixels = affnist.rebuild(base.pixels, limit=limit)
    labels = base.labels.repeat(affnist.COPIES)[: len(pixels)]
    return Images.from_arrays(pixels, labels, class_names=DIGITS, name="affNIST (rebuilt)")


def _join(train: Images, test: Images) -> Images:
    return replace(
        train,
        pixels=torch.cat([train.pixels, test.pixels]),
        labels=torch.cat([train.labels, test.labels]),
        ids=torch.cat([train.ids, test.ids + len(train)]),
        name=test.name,
    )
