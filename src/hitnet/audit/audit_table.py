"""The audit's table, and its summary: the figures of all labels, of each class and of pairs.

The table has one row per image, most doubtful label first; docs/audit.md lists its columns and files.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from pandas.api.types import infer_dtype
from torch import Tensor

from hitnet.audit.margins import margins
from hitnet.audit.scoring import FLAGS, Scores, capsule_opinions
from hitnet.capsules import HIT_RADIUS
from hitnet.data import Data, ImageSet
from hitnet.data.known.datasets import label_errors
from hitnet.data.reading.stored import file_checksum
from hitnet.errors import HitNetError, log
from hitnet.features.neighbours import (
    MOST_DUPLICATES,
    Directions,
    Neighbours,
    most_similar,
    near_duplicates,
    strangeness,
)
from hitnet.features.opinions import Opinion, all_distances, column_of
from hitnet.runtime import schemas
from hitnet.runtime.threads import in_threads

MOST_PAIRS = {"cpu": 5e9, "cuda": 1e12}  # of images of one class, to compare
# Columns by the kinds of their types: i and u whole numbers, f fractions, O text.
COLUMNS = {
    **dict.fromkeys(("id", "hits", "votes", "models"), "iu"),
    **dict.fromkeys(("score", "margin_mean", "margin_std", "ghost_distance"), "fiu"),
    **dict.fromkeys(("path", "given", "suggested", "ghost", "flag", "rule"), "O"),
}
CLASS_COLUMNS = ("given", "suggested", "ghost")
FORMAT = 1  # of a summary


def make_table(
    images: ImageSet, opinions: Sequence[Opinion], scored: Scores
) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """The table, the mean distances (N, k) of the capsules in its order, and the place (N,) of each row's image."""
    labels, names = images.labels.numpy(), np.array(images.class_names, dtype=object)
    classes = opinions[0].classes
    shown = margins(all_distances(capsule_opinions(opinions)), labels, classes)
    nearest, suggested = all_distances(opinions).argmin(axis=2), column_of(scored.suggested, classes)
    table = pd.DataFrame(
        {
            "id": images.ids.numpy(),
            "path": list(images.paths) if images.paths is not None else [""] * len(images),
            "given": names[labels],
            "suggested": names[scored.suggested],
            "score": scored.score,
            "hits": shown.hits,
            "votes": (nearest == suggested).sum(axis=0),
            "models": len(opinions),
            "margin_mean": shown.margin_mean,
            "margin_std": shown.margin_std,
            "ghost": names[shown.ghost],
            "ghost_distance": shown.ghost_distance,
            "flag": scored.flag,
            "rule": [FLAGS[flag] for flag in scored.flag],
        }
    )
    order = np.lexsort((table["id"], -scored.doubt))
    return table.iloc[order].reset_index(drop=True), shown.mean[order].astype(np.float32), order


def add_checksums(table: pd.DataFrame, data: Data, images: ImageSet, places: np.ndarray) -> pd.DataFrame:
    """The table with the checksum of each file; the same if there are none here. `places` (N,) are those of rows."""
    files = data.image_files(images)
    if files is None or not isinstance(files[0], Path):
        return table
    known = images.checksums
    if known is None:
        return table.assign(checksum=list(in_threads(lambda place: file_checksum(files[place]), places.tolist())))
    rows = ((files[place], known[place]) for place in places.tolist())
    return table.assign(checksum=[key.tobytes().hex() if isinstance(file, Path) else "" for file, key in rows])


def add_annotators(table: pd.DataFrame, annotations: pd.DataFrame | None) -> pd.DataFrame:
    """The table with what several annotators said, as `Data.annotations` gives it; the same if there is nothing."""
    if annotations is None:
        return table
    ballots = annotations.filter(regex="^votes_")
    ballots.columns = ballots.columns.str.removeprefix("votes_")
    given = pd.get_dummies(annotations["label"]).reindex(columns=ballots.columns, fill_value=False)
    rest = ballots.mask(given.to_numpy(dtype=bool), 0)
    other = rest.idxmax(axis=1).where(rest.max(axis=1) > 0, "").reindex(table["id"]).to_numpy()
    return table.assign(
        agreement=annotations["agreement"].reindex(table["id"]).to_numpy(),
        other_label=other,
        ghost_is_other=(table["ghost"] == other) & (other != ""),
        ghost_hits=table["ghost_distance"] <= HIT_RADIUS,
    )


def check_table(table: pd.DataFrame, class_names: Sequence[str], where: str | Path) -> None:
    """Raise HitNetError unless a table is that of an audit over these classes."""
    missing = [column for column in COLUMNS if column not in table.columns]
    if missing:
        raise HitNetError(f"{where} is damaged: it lacks the columns {', '.join(missing)}. Run the audit again.")
    for column, kinds in COLUMNS.items():
        values = table[column]
        text = kinds == "O" and infer_dtype(values, skipna=True) in ("string", "empty")
        if not text and values.dtype.kind not in kinds.replace("O", ""):
            expected = "text" if kinds == "O" else "numbers"
            raise HitNetError(f"{where} is damaged: the column {column} must hold {expected}. Run the audit again.")
    if table["id"].duplicated().any():
        raise HitNetError(f"{where} is damaged: two images have the same id. Run the audit again.")
    unknown = {name for column in CLASS_COLUMNS for name in table[column].unique()} - set(class_names)
    if unknown:
        raise HitNetError(f"{where} names a class that the audit does not have: {min(map(repr, unknown))}.")


def class_codes(names: pd.Series, class_names: Sequence[str]) -> np.ndarray:
    """The index of each name among the classes; −1 for one that is not there."""
    codes, different = pd.factorize(names)  # −1 for a name that is missing: the last code below
    known, asked = (pd.Index(each, dtype="object") for each in (list(class_names), different))
    return np.append(known.get_indexer(asked), -1)[codes]


def nearest_with_label(rows: Directions, labels: Tensor, wanted: Tensor, num_classes: int) -> Tensor:
    """For each image, the most similar other image that has the label `wanted` (N,) of it; −1 where there is none."""
    nearest = torch.full((len(rows),), -1, dtype=torch.int64, device=rows.device)
    by_label, by_wanted = (
        each.to(rows.device).argsort(stable=True).split(torch.bincount(each, minlength=num_classes).tolist())
        for each in (labels, wanted)
    )
    for members, asking in zip(by_label, by_wanted, strict=True):
        nearest[asking] = most_similar(rows, asking, members, 1)[1][:, 0]
    return nearest.cpu()


def add_likeness(table: pd.DataFrame, rows: Directions, neighbours: Neighbours, images: ImageSet) -> pd.DataFrame:
    """The table with what features and neighbours (N, k) show of each image, all in one order."""
    compared, ids = table.assign(unlike=strangeness(neighbours).cpu().numpy()), np.append(images.ids.numpy(), -1)
    members = np.bincount(images.labels, minlength=images.num_classes)
    asked = {column: class_codes(table[column], images.class_names) for column in ("given", "suggested")}
    if sum(float(members[wanted].sum()) for wanted in asked.values()) > MOST_PAIRS[rows.device.type]:
        log.info("Similar images are not looked for: %d images are too many for this device.", len(images))
        return compared
    for at, (column, wanted) in enumerate(asked.items()):
        nearest = nearest_with_label(rows, images.labels, torch.from_numpy(wanted), images.num_classes)
        compared.insert(len(table.columns) + at, f"like_{column}", ids[nearest.numpy()])
    return compared


def duplicate_table(rows: Directions, neighbours: Neighbours, images: ImageSet) -> pd.DataFrame:
    """Pairs of images that show the same: ids, paths, labels, similarity, and whether the labels differ.

    Pairs under different labels come first: at most one of the two labels is right. Each image is paired with at most
    10 others that it chooses, those under other labels first.
    """
    pairs, similarity = near_duplicates(rows, labels=images.labels, neighbours=neighbours)
    if len(pairs) and np.bincount(pairs.cpu().flatten()).max() >= MOST_DUPLICATES:
        listed = f"At least {MOST_DUPLICATES} of each are listed, those under other labels first."
        log.info("Some images have many near-duplicates. %s", listed)
    given = np.array(images.class_names, dtype=object)[images.labels.numpy()]
    paths = images.paths or [""] * len(images)
    about = pd.DataFrame({"id": images.ids.numpy(), "path": paths, "given": given})
    sides = [about.iloc[pairs[:, side].cpu().numpy()].reset_index(drop=True) for side in (0, 1)]
    table = sides[0].add_suffix("_a").join(sides[1].add_suffix("_b"))
    table = table.assign(similarity=similarity.cpu().numpy(), labels_differ=table["given_a"] != table["given_b"])
    return table.sort_values(["labels_differ", "similarity"], ascending=False, kind="stable", ignore_index=True)


@dataclass(frozen=True)
class ClassHealth:
    """The figures of one class; `mean_score` is None for a class without images."""

    name: str
    images: int
    suspects: int
    expected_errors: float
    mean_score: float | None


@dataclass(frozen=True)
class Summary:
    """The figures of an audit, as summary.json has them."""

    data: str  # name of the dataset
    images: int  # number of images
    class_names: list[str]
    source: str  # what was audited, as `open_data` takes it
    models: int  # number of judges
    model: str  # their kinds
    expected_errors: float  # sum of 1 − score: the expected number of wrong labels if the score is a probability
    flags: dict[str, int]  # number of images per flag
    classes: list[ClassHealth]
    pairs: list[list[str | int]]  # [given, suggested, count] of the images flagged as wrong, highest count first
    error_range: list[float] | None = None  # between which numbers that of the wrong labels lies, where judges can tell
    sentence: str | None = None  # the number of wrong labels in words, where judges can tell
    in_memory: bool = False  # whether the images were in memory, and cannot be opened again
    split: str = "all"
    limit: int | None = None  # most images that were read
    image_size: list[int] = field(default_factory=list)  # height and width
    data_dir: str | None = None  # folder of the known datasets
    networks: list[dict[str, Any]] = field(default_factory=list)  # what there is to say of each network or backbone
    in_sample: float = 1.0  # share of the judges with capsules that were trained on the labels
    prototypes: str = "decoded"  # or "typical", where they are images of the data
    verified_errors: dict[str, int] | None = None  # of a sample's known errors: all, and those in the top 100 and 200
    duplicates: dict[str, int] | None = None  # pairs of near-duplicates, and those with different labels
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **vars(self), "classes": [vars(each) for each in self.classes]}

    @classmethod
    def from_json(cls, value: Any, where: Path) -> Self:
        """Raises HitNetError for what is no summary."""
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise HitNetError(f"{where} is not the summary of an audit that this version of hitnet can read.")
        schemas.check_schema(value, schemas.schema_of(cls), where)
        classes = [ClassHealth(**_known(ClassHealth, each)) for each in value["classes"]]
        return cls(**_known(cls, value) | {"classes": classes})


def _known(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    return {entry.name: values[entry.name] for entry in fields(kind) if entry.name in values}


def summarise(table: pd.DataFrame, class_names: Sequence[str], **about: Any) -> Summary:
    """The summary of an audit's table; `about` are the entries that the table does not tell."""
    rows_of: dict[Any, pd.DataFrame] = dict(iter(table.groupby(class_codes(table["given"], class_names))))
    wrong = table[table["flag"] == "wrong"]
    pairs = Counter(zip(wrong["given"], wrong["suggested"], strict=True))
    return Summary(
        images=len(table),
        class_names=list(class_names),
        expected_errors=float((1 - table["score"]).sum()),
        flags={str(flag): int(count) for flag, count in table["flag"].value_counts().items()},
        classes=[class_health(name, rows_of.get(k, table[:0])) for k, name in enumerate(class_names)],
        pairs=[[given, suggested, count] for (given, suggested), count in pairs.most_common()],
        **about,
    )


def class_health(name: str, rows: pd.DataFrame) -> ClassHealth:
    """The figures of one class, from its rows of the audit's table."""
    suspects, expected = int((rows["flag"] != "ok").sum()), float((1 - rows["score"]).sum())
    return ClassHealth(name, len(rows), suspects, expected, float(rows["score"].mean()) if len(rows) else None)


def verified_errors(table: pd.DataFrame, sample_name: str | None) -> dict[str, int] | None:
    """For samples that ship with the package: how many of their known label errors are among the worst images."""
    if sample_name is None:
        return None
    wrong = set(label_errors(sample_name)["id"])
    top = {f"in_top_{count}": int(table["id"].head(count).isin(wrong).sum()) for count in (100, 200)}
    return {"errors": int(table["id"].isin(wrong).sum()), **top}
