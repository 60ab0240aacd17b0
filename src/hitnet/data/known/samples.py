"""The samples that ship with the package, and which of their labels people found wrong.

mnist-sample     MNIST's 10,000 test images, and people's judgements of 100 labels. Image i of the original order is a
                 test image where i % 5 == 4: 8,000 train, 2,000 test
clothing-sample  1,201 photographs of clothes in ten classes (CC0), a third of
                 github.com/alexeygrigorev/clothing-dataset-small at 160 pixels; tools/make_clothing_sample.py makes the
                 file. Some labels are wrong: `judgements.csv` says which, by the developers' own judgement
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from hitnet.data.images import Images
from hitnet.data.known.facts import KNOWN_SETS
from hitnet.data.known.makers import read_idx
from hitnet.data.reading.decode import decode
from hitnet.data.reading.stored import StoredFile
from hitnet.errors import HitNetError

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).with_name("sample")
PHOTOS = FOLDER / "clothing" / "photos.zip"
PHOTOS_SHA256 = KNOWN_SETS["clothing-sample"].files["photos.zip"]
CLOTHING_CLASSES = tuple(KNOWN_SETS["clothing-sample"].classes)
SHAPE = (3, 160, 120)  # of most photographs


def read_mnist_sample(split: str) -> Images:
    """The sample's images; in every split, ids are indices in MNIST's test set."""
    images = Images.from_arrays(
        read_idx(FOLDER / "t10k-images-idx3-ubyte.gz", ndim=3),
        read_idx(FOLDER / "t10k-labels-idx1-ubyte.gz", ndim=1),
        name="MNIST sample",
    )
    if split == "all":
        return images
    test = images.ids % 5 == 4
    return images.select(torch.nonzero(test if split == "test" else ~test)[:, 0])


def read_clothing_sample(split: str) -> Images:
    """The sample's images; ids count all photographs in the order of the file, whatever the split."""
    try:
        content = PHOTOS.read_bytes()
    except OSError as error:
        raise HitNetError(f"{PHOTOS} cannot be read: {error.strerror}. Install hitnet again.") from error
    if hashlib.sha256(content).hexdigest() != PHOTOS_SHA256:
        raise HitNetError(f"{PHOTOS} is damaged: its checksum is wrong. Install hitnet again.")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        chosen = [i for i, name in enumerate(names) if split in ("all", name.split("/")[0])]
        files = [StoredFile(names[i], lambda i=i: archive.read(names[i])) for i in chosen]  # type: ignore[misc]
        pixels = np.stack([decode(file, SHAPE) for file in files])
    labels = [CLOTHING_CLASSES.index(names[i].split("/")[1]) for i in chosen]
    paths = [names[i] for i in chosen]
    images = Images.from_arrays(
        pixels, labels, class_names=CLOTHING_CLASSES, name="clothing sample", paths=paths, flip=True
    )
    return replace(images, ids=torch.tensor(chosen))


def judgements() -> pd.DataFrame:
    """100 images of mnist-sample, each judged by five people (Northcutt, Athalye, Mueller 2021), ordered by id.

    The consensus is "error" if fewer than three of them chose only the given label; `corrected_label` is the one they
    agreed on, if they did. The file's other columns are in sample/SOURCES.md.
    """
    import pandas as pd  # takes a second to import

    table = pd.read_csv(FOLDER / "label_judgements.csv", dtype={"corrected_label": "Int64"})
    return table.rename(columns={"index": "id"}).sort_values("id", ignore_index=True)


def label_errors(name: str) -> pd.DataFrame:
    """The labels of a sample that people found wrong, ordered by id.

    mnist-sample: the 15 images of `judgements` with consensus "error". clothing-sample: those that are wrong in the
    developers' judgement (id, path, given, judged, verdict, note); they looked only at the labels that an audit doubted
    most, so there may be others.
    """
    import pandas as pd

    if name == "mnist-sample":
        table = judgements()
        return table[table["consensus"] == "error"].reset_index(drop=True)
    table = pd.read_csv(PHOTOS.with_name("judgements.csv"))
    return table[table["verdict"] == "wrong"].reset_index(drop=True)
