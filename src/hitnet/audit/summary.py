"""Summary of an audit: health of each class, pairs of classes, expected number of errors."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd

from hitnet.data.images import Images
from hitnet.data.known.samples import label_errors


def summarise(table: pd.DataFrame, images: Images, extra: dict[str, Any]) -> dict[str, Any]:
    """Plain values for summary.json.

    `expected_errors` is the sum of 1 − score: the expected number of wrong labels if the score is a probability.
    `pairs` lists [given, suggested, count] of the images that are flagged as wrong, highest count first.

    Args:
        table: The audit's table.
        images: The images of the audit.
        extra: Further entries, e.g. source and models.
    """
    names = list(images.class_names)
    wrong = table[table["flag"] == "wrong"]
    pairs = Counter(zip(wrong["given"], wrong["suggested"], strict=True))
    return {
        "data": images.name,
        "images": len(table),
        "class_names": names,
        **extra,
        "expected_errors": float((1 - table["score"]).sum()),
        "flags": {str(flag): int(count) for flag, count in table["flag"].value_counts().items()},
        "classes": [class_health(name, table[table["given"] == name]) for name in names],
        "pairs": [[given, suggested, count] for (given, suggested), count in pairs.most_common()],
    }


def class_health(name: str, rows: pd.DataFrame) -> dict[str, Any]:
    """The figures of one class, from its rows of the audit's table."""
    return {
        "name": name,
        "images": len(rows),
        "suspects": int((rows["flag"] != "ok").sum()),
        "expected_errors": float((1 - rows["score"]).sum()),
        "mean_score": float(rows["score"].mean()) if len(rows) else None,
    }


def verified_errors(table: pd.DataFrame, sample_name: str | None) -> dict[str, int] | None:
    """For samples that ship with the package: how many of their known label errors are among the worst images."""
    if sample_name is None:
        return None
    wrong = set(label_errors(sample_name)["id"])
    top = {f"in_top_{count}": int(table["id"].head(count).isin(wrong).sum()) for count in (100, 200)}
    return {"errors": int(table["id"].isin(wrong).sum()), **top}
