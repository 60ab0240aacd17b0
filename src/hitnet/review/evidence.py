"""What a page shows of an image: its picture, and why its label is doubted."""

import io
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from PIL import Image

from hitnet.audit.audit_folder import Kept
from hitnet.audit.rows import Rows
from hitnet.data import Data
from hitnet.data.reading.pictures import Once
from hitnet.features.neighbours import MOST_DUPLICATES, Directions, most_similar, most_typical
from hitnet.features.opinions import Ints

NEIGHBOURS = 5
TYPICAL = 5
SIDE = 320  # pixels of a thumbnail's longest side: sharp in the grid and in the list on most screens
LARGE_SIDE = 4096  # pixels of the longest side of a picture to zoom into
EXACT = 512 * 512  # pixels up to which that is sent without loss
KEPT = 2000  # thumbnails in memory, of about 10 kB each


class Evidence:
    """Evidence on the images of an audit, from what it kept and its near-duplicates, where it has them."""

    def __init__(self, rows: Rows, kept: Kept | None, duplicates: pd.DataFrame | None, data: Data) -> None:
        self.rows, self.duplicates, self.data = rows, duplicates, data
        self.opinions = () if kept is None else kept.opinions
        self.features = None if kept is None else kept.features
        self._typical = Once(self._find_typical)

    @cached_property
    def _directions(self) -> Directions | None:
        return None if self.features is None else Directions(self.features)

    def _find_typical(self) -> list[list[int]]:
        """Rows of the most typical images of each class: nearest to the mean of its features, or to its capsule."""
        given, classes = self.rows.given, len(self.rows.class_names)
        if self.features is not None:
            labels = torch.from_numpy(given).long()
            return [nearest.tolist() for nearest in most_typical(self.features, labels, classes, TYPICAL)]
        order = np.lexsort((self.rows.given_distances, given))
        members = np.split(order, np.bincount(given, minlength=classes).cumsum()[:-1])
        return [own[:TYPICAL].tolist() for own in members]

    def typical(self, k: int) -> list[int]:
        """Rows of the most typical images of a class, most typical first."""
        typical = self._typical.get()
        return typical[k] if 0 <= k < len(typical) else []

    def similar(self, row: int, label: int, labels: Ints) -> list[tuple[int, float]]:
        """The most similar other images that have a label: rows and similarities, highest first."""
        if self._directions is None:
            return []
        members = torch.from_numpy(np.flatnonzero(labels == label))
        values, which = most_similar(self._directions, torch.tensor([row]), members, NEIGHBOURS)
        pairs = zip(which[0].tolist(), values[0].tolist(), strict=True)
        return [(other, round(value, 3)) for other, value in pairs if other >= 0]

    def copies(self, row: int) -> list[tuple[int, float]]:
        """Near-duplicates of an image, those under other labels first: rows and similarities."""
        if self.duplicates is None:
            return []
        number, pairs = int(self.rows.ids[row]), self.duplicates
        mine = pairs[(pairs["id_a"] == number) | (pairs["id_b"] == number)].head(MOST_DUPLICATES)
        others = mine["id_a"].where(mine["id_a"] != number, mine["id_b"])
        places = zip(map(self.rows.row_of, others.tolist()), mine["similarity"].tolist(), strict=True)
        return [(place, round(value, 3)) for place, value in places if place is not None]

    @cached_property
    def _annotations(self) -> pd.DataFrame | None:
        return self.data.annotations() if "agreement" in self.rows.table else None

    def annotators(self, row: int) -> dict[str, int]:
        """How many annotators chose each class, where several labelled the image."""
        number = int(self.rows.ids[row])
        if self._annotations is None or number not in self._annotations.index:
            return {}
        ballots = self._annotations.loc[number].filter(regex="^votes_")
        return {str(name).removeprefix("votes_"): int(count) for name, count in ballots.items() if count}

    def of(self, row: int, labels: Ints) -> dict[str, Any]:
        """All evidence on an image; `labels` (N,) are as they are now, with what was decided."""
        given, suggested = int(self.rows.given[row]), int(self.rows.suggested[row])

        def shown(pairs: list[tuple[int, float]]) -> list[dict[str, Any]]:
            ids = self.rows.ids
            return [{"id": int(ids[i]), "label": int(labels[i]), "similarity": value} for i, value in pairs]

        roles = {"given": given} if given == suggested else {"given": given, "suggested": suggested}
        return {
            "similar": {role: shown(self.similar(row, k, labels)) for role, k in roles.items()},
            "typical": {role: [int(self.rows.ids[other]) for other in self.typical(k)] for role, k in roles.items()},
            "copies": shown(self.copies(row)),
            "judges": self.judges(row),
            "annotators": self.annotators(row),
        }

    def judges(self, row: int) -> list[dict[str, Any]]:
        """What each kind of judge says: its nearest classes with their distances, and how its members vote."""
        kinds = []
        for kind in dict.fromkeys(opinion.kind for opinion in self.opinions):
            members = [opinion.distances[row] for opinion in self.opinions if opinion.kind == kind]
            distances, at = np.stack(members).astype(np.float32), self.opinions[0].classes
            named = np.arange(distances.shape[1]) if at is None else at[row, :-1]
            distances = distances[:, : len(named)]
            mean, votes = distances.mean(axis=0), np.bincount(distances.argmin(axis=1), minlength=len(named))
            nearest = np.argsort(mean, kind="stable")[:3]
            shown = [[int(named[k]), round(float(mean[k]), 2), int(votes[k])] for k in nearest]
            kinds.append({"kind": kind, "judges": len(members), "nearest": shown})
        return kinds


class Picture(NamedTuple):
    """A picture as it is sent."""

    content: bytes
    kind: str


class Pictures:
    """Pictures of the audited split of the data, by row; thumbnails that were asked for last are kept."""

    def __init__(self, data: Data, rows: Rows, split: str) -> None:
        self.read, self.rows = data.pictures(split), rows
        self.thumbnail = lru_cache(KEPT)(lambda row: _encoded(self._picture(row, SIDE), "webp", quality=82))

    def original(self, row: int) -> Picture:
        """The picture at its own size, where that is not too large to send."""
        picture = self._picture(row, LARGE_SIDE)
        if picture.width * picture.height <= EXACT:
            return _encoded(picture, "png")
        return _encoded(picture, "jpeg", quality=92)

    def _picture(self, row: int, longest_side: int) -> Image.Image:
        return self.read(int(self.rows.ids[row]), self.rows.paths[row], longest_side)


def _encoded(picture: Image.Image, kind: str, **options: int) -> Picture:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return Picture(file.getvalue(), f"image/{kind}")
