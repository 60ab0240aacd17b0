"""Several annotators' labels beside the ghosts, as the paper proposes.

The networks are trained on the label that most people chose. Where people disagreed, the question is whether the ghost
is the class that the others chose, and whether it makes a hit.
"""

from __future__ import annotations

import pandas as pd

from hitnet.capsules import HIT_RADIUS


def compare_annotators(annotations: pd.DataFrame | None, audited: pd.DataFrame) -> pd.DataFrame:
    """The audit's table with what the annotators said; the table itself where there is one label per image.

    agreement       share of the votes for the given label
    other_label     the class most voted for after the given one; empty where there is none
    ghost_is_other  whether the ghost is that class
    ghost_hits      whether the ghost lies in the hit zone

    Args:
        annotations: As `Data.annotations` gives them.
        audited: The audit's table.
    """
    if annotations is None:
        return audited
    ballots = annotations.filter(regex="^votes_")
    ballots.columns = ballots.columns.str.removeprefix("votes_")
    given = pd.get_dummies(annotations["label"]).reindex(columns=ballots.columns, fill_value=False)
    rest = ballots.mask(given.to_numpy(dtype=bool), 0)
    other = rest.idxmax(axis=1).where(rest.max(axis=1) > 0, "")
    compared = audited.copy()
    compared["agreement"] = annotations["agreement"].reindex(compared["id"]).to_numpy()
    compared["other_label"] = other.reindex(compared["id"]).to_numpy()
    compared["ghost_is_other"] = compared["other_label"].eq(compared["ghost"]) & compared["other_label"].ne("")
    compared["ghost_hits"] = compared["ghost_distance"] <= HIT_RADIUS
    return compared
