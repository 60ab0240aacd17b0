"""The sample that ships with the package: MNIST's 10,000 test images, and people's judgements of 100 labels.

Image i of the original order is a test image where i % 5 == 4: 8,000 train, 2,000 test.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from hitnet.data.images import Images
from hitnet.data.known.idx import read_idx

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path(__file__).with_name("sample")


def read_sample(split: str) -> Images:
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


def judgements() -> pd.DataFrame:
    """100 images of the sample, each judged by five people (Northcutt, Athalye, Mueller 2021), ordered by id.

    Returns:
        A table with these columns:

        id: Index in MNIST's test set, as the sample's `ids`.
        given_label: MNIST's label.
        guessed_label: The label that a model proposed, mostly another.
        votes_given, votes_guessed, votes_neither: How many of the five people chose which.
        consensus: "error" if fewer than three of them chose only the given label, otherwise "ok".
        category: Of an error "correctable", "neither" or "non-agreement"; otherwise "non-error".
        corrected_label: The label they agreed on; missing if they did not agree.
    """
    import pandas as pd  # takes a second to import

    table = pd.read_csv(FOLDER / "label_judgements.csv", dtype={"corrected_label": "Int64"})
    table = table.rename(columns={"index": "id"}).sort_values("id", ignore_index=True)
    columns = [
        "id",
        "given_label",
        "guessed_label",
        "votes_given",
        "votes_guessed",
        "votes_neither",
        "consensus",
        "category",
        "corrected_label",
    ]
    return table[columns]


def label_errors() -> pd.DataFrame:
    """The 15 judged images whose label people found wrong: `judgements` with consensus "error"."""
    table = judgements()
    return table[table["consensus"] == "error"].reset_index(drop=True)
