"""The summary of an audit: what was judged by whom, and the figures of all labels, of each class and of pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas as pd

from hitnet.data.known import clothing_sample, sample
from hitnet.runtime import schemas

LABEL_ERRORS = {"mnist-sample": sample.label_errors, "clothing-sample": clothing_sample.label_errors}


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
    """The figures of an audit, as summary.json has them.

    Attributes:
        data: Name of the dataset.
        images: Number of images.
        class_names: The K classes.
        source: What was audited, as `open_data` takes it.
        models: Number of judges.
        model: Their kinds.
        expected_errors: Sum of 1 − score: the expected number of wrong labels if the score is a probability.
        flags: Number of images per flag.
        classes: Figures per class.
        pairs: [given, suggested, count] of the images that are flagged as wrong, highest count first.
        error_range: Between which numbers the number of wrong labels probably lies, where judges can tell.
        sentence: The number of wrong labels in words, where judges can tell.
        in_memory: Whether the images were in memory, and cannot be opened again.
        split: train, test or all.
        limit: Most images that were read.
        image_size: Height and width.
        data_dir: Folder of the known datasets.
        networks: What there is to say of each network or backbone.
        in_sample: Share of the judges with capsules that were trained on the labels.
        prototypes: "decoded", or "typical" where they are images of the data.
        verified_errors: Of a sample, how many of its known errors rank in the top 100 and the top 200.
        duplicates: Number of pairs of near-duplicates, and of those with different labels.
        seconds: Duration.
    """

    data: str
    images: int
    class_names: list[str]
    source: str
    models: int
    model: str
    expected_errors: float
    flags: dict[str, int]
    classes: list[ClassHealth]
    pairs: list[list[str | int]]
    error_range: list[float] | None = None
    sentence: str | None = None
    in_memory: bool = False
    split: str = "all"
    limit: int | None = None
    image_size: list[int] = field(default_factory=list)
    data_dir: str | None = None
    networks: list[dict[str, Any]] = field(default_factory=list)
    in_sample: float = 1.0
    prototypes: str = "decoded"
    verified_errors: dict[str, int] | None = None
    duplicates: dict[str, int] | None = None
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any, where: Path) -> Summary:
        """Raises HitNetError for what is no summary."""
        schemas.check(value, schemas.schema_of(cls), where)
        known = {entry.name: value[entry.name] for entry in fields(cls) if entry.name in value}
        return cls(**known | {"classes": [ClassHealth(**each) for each in value["classes"]]})


def summarise(table: pd.DataFrame, class_names: Sequence[str], **about: Any) -> Summary:
    """The summary of an audit's table; `about` are the entries that the table does not tell."""
    wrong = table[table["flag"] == "wrong"]
    pairs = Counter(zip(wrong["given"], wrong["suggested"], strict=True))
    return Summary(
        images=len(table),
        class_names=list(class_names),
        expected_errors=float((1 - table["score"]).sum()),
        flags={str(flag): int(count) for flag, count in table["flag"].value_counts().items()},
        classes=[class_health(name, table[table["given"] == name]) for name in class_names],
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
    wrong = set(LABEL_ERRORS[sample_name]()["id"])
    top = {f"in_top_{count}": int(table["id"].head(count).isin(wrong).sum()) for count in (100, 200)}
    return {"errors": int(table["id"].isin(wrong).sum()), **top}
