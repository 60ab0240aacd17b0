"""The sample of photographs that ships with the package: 1,201 photographs of clothes in ten classes (CC0).

They are a third of github.com/alexeygrigorev/clothing-dataset-small, at 160 pixels; tools/make_clothing_sample.py makes
the file. The labels are those of the data set. Some are wrong: `judgements.csv` says which, by the developers' own
judgement.
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
from PIL import Image

from hitnet.data.images import Images
from hitnet.data.reading.decode import fit
from hitnet.errors import HitNetError

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).with_name("sample") / "clothing"
PHOTOS = FOLDER / "photos.zip"
SHA256 = "a5d9bd86373f12aa69beb73c6a9671158571e73a1f42a96cae6f2ca34e630ad5"
CLASSES = ("dress", "hat", "longsleeve", "outwear", "pants", "shirt", "shoes", "shorts", "skirt", "t-shirt")
HEIGHT, WIDTH = 160, 120  # the shape of most photographs


def read_clothing_sample(split: str) -> Images:
    """The sample's images; ids count all photographs in the order of the file, whatever the split."""
    try:
        content = PHOTOS.read_bytes()
    except OSError as error:
        raise HitNetError(f"{PHOTOS} cannot be read: {error.strerror}. Install hitnet again.") from error
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise HitNetError(f"{PHOTOS} is damaged: its checksum is wrong. Install hitnet again.")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        chosen = [i for i, name in enumerate(names) if split in ("all", name.split("/")[0])]
        pixels = np.stack([_pixels(archive.read(names[i])) for i in chosen])
    labels = [CLASSES.index(names[i].split("/")[1]) for i in chosen]
    images = Images.from_arrays(
        pixels, labels, class_names=CLASSES, name="clothing sample", paths=[names[i] for i in chosen], flip=True
    )
    return replace(images, ids=torch.tensor(chosen))


def label_errors() -> pd.DataFrame:
    """The labels that are wrong in the developers' judgement: id, path, given, judged, verdict, note, ordered by id.

    They looked only at the labels that an audit doubted most, so there may be others.
    """
    import pandas as pd  # takes a second to import

    table = pd.read_csv(FOLDER / "judgements.csv")
    return table[table["verdict"] == "wrong"].reset_index(drop=True)


def _pixels(content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content), formats=("JPEG",)) as image:
        return fit(image.convert("RGB"), HEIGHT, WIDTH)
