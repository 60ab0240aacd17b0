"""The audit's table: one row per image, most doubtful label first.

id, path            the image
given, suggested    its label, and the class to propose
score               0 = surely wrong, 1 = surely right
hits                judges with capsules for which the given class hits
votes, models       judges for the suggested class, and how many there are
margin_mean, _std   by how much another class is nearer than the given one, over the judges with capsules
ghost, _distance    the nearest other capsule, and its distance
flag, rule          one of `scoring.FLAGS`, and why

Where several people labelled an image, also, as the paper proposes:

agreement           share of the votes for the given label
other_label         the class most voted for after the given one; empty where there is none
ghost_is_other      whether the ghost is that class
ghost_hits          whether the ghost lies in the hit zone
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from hitnet.audit.margins import Margins, margins
from hitnet.audit.scoring import Scores, capsule_opinions
from hitnet.capsules import HIT_RADIUS
from hitnet.data import Images
from hitnet.errors import HitNetError
from hitnet.features.opinions import Opinion, all_distances

# Columns by the kinds of their types: i and u whole numbers, f fractions, O text.
COLUMNS = {
    **dict.fromkeys(("id", "hits", "votes", "models"), "iu"),
    **dict.fromkeys(("score", "margin_mean", "margin_std", "ghost_distance"), "fiu"),
    **dict.fromkeys(("path", "given", "suggested", "ghost", "flag", "rule"), "O"),
}
CLASS_COLUMNS = ("given", "suggested", "ghost")


def make_table(images: Images, opinions: Sequence[Opinion], scored: Scores) -> tuple[pd.DataFrame, np.ndarray]:
    """The table, and the mean distances (N, K) of the capsules in its order."""
    labels, names = images.labels.numpy(), np.array(images.class_names, dtype=object)
    shown: Margins = margins(all_distances(capsule_opinions(opinions)), labels)
    nearest = all_distances(opinions).argmin(axis=2)
    table = pd.DataFrame(
        {
            "id": images.ids.numpy(),
            "path": list(images.paths) if images.paths is not None else [""] * len(images),
            "given": names[labels],
            "suggested": names[scored.suggested],
            "score": scored.score,
            "hits": shown.hits,
            "votes": (nearest == scored.suggested).sum(axis=0),
            "models": len(opinions),
            "margin_mean": shown.margin_mean,
            "margin_std": shown.margin_std,
            "ghost": names[shown.ghost],
            "ghost_distance": shown.ghost_distance,
            "flag": scored.flag,
            "rule": scored.rule,
        }
    )
    order = np.lexsort((table["id"], -scored.doubt))
    return table.iloc[order].reset_index(drop=True), shown.mean[order].astype(np.float32)


def add_annotators(table: pd.DataFrame, annotations: pd.DataFrame | None) -> pd.DataFrame:
    """The table with what several annotators said, as `Data.annotations` gives it; the same if there is nothing."""
    if annotations is None:
        return table
    ballots = annotations.filter(regex="^votes_")
    ballots.columns = ballots.columns.str.removeprefix("votes_")
    given = pd.get_dummies(annotations["label"]).reindex(columns=ballots.columns, fill_value=False)
    rest = ballots.mask(given.to_numpy(dtype=bool), 0)
    other = rest.idxmax(axis=1).where(rest.max(axis=1) > 0, "")
    compared = table.copy()
    compared["agreement"] = annotations["agreement"].reindex(compared["id"]).to_numpy()
    compared["other_label"] = other.reindex(compared["id"]).to_numpy()
    compared["ghost_is_other"] = compared["other_label"].eq(compared["ghost"]) & compared["other_label"].ne("")
    compared["ghost_hits"] = compared["ghost_distance"] <= HIT_RADIUS
    return compared


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
