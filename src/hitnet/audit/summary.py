"""The summary of an audit: what was judged by whom, and the figures of all labels, of each class and of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas as pd

from hitnet.audit.audit_table import class_codes
from hitnet.data.known.datasets import label_errors
from hitnet.runtime import schemas


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
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any, where: Path) -> Summary:
        """Raises HitNetError for what is no summary."""
        schemas.check_schema(value, schemas.schema_of(cls), where)
        known = {entry.name: value[entry.name] for entry in fields(cls) if entry.name in value}
        return cls(**known | {"classes": [ClassHealth(**each) for each in value["classes"]]})


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
    return ClassHealth(
        name,
        len(rows),
        int((rows["flag"] != "ok").sum()),
        float((1 - rows["score"]).sum()),
        float(rows["score"].mean()) if len(rows) else None,
    )


def verified_errors(table: pd.DataFrame, sample_name: str | None) -> dict[str, int] | None:
    """For samples that ship with the package: how many of their known label errors are among the worst images."""
    if sample_name is None:
        return None
    wrong = set(label_errors(sample_name)["id"])
    top = {f"in_top_{count}": int(table["id"].head(count).isin(wrong).sum()) for count in (100, 200)}
    return {"errors": int(table["id"].isin(wrong).sum()), **top}
