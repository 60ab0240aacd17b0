"""Several annotators' labels beside the ghosts, as the paper proposes.

The networks are trained on the label most people chose; where people disagreed, the question is whether the ghost
is the class that the others chose, and whether it makes a hit.
"""

from __future__ import annotations

import pandas as pd

from hitnet.capsules import HIT_RADIUS
from hitnet.data import Images
from hitnet.data import table as tables
from hitnet.data.load import Source
from hitnet.files import expand


def compare_annotators(source: Source, audited: pd.DataFrame) -> pd.DataFrame:
    """The audit's table with what the annotators said; the table itself where the data has one label an image.

    agreement       share of the votes for the given label
    other_label     the class most voted for after the given one; empty where there is none
    ghost_is_other  whether the ghost is that class
    ghost_hits      whether the ghost lies in the hit zone
    """
    path = None if isinstance(source, Images) else expand(source)
    if path is None or path.suffix.lower() not in tables.TABLES or not path.is_file():
        return audited
    said = tables.annotations(path)
    if int(said["votes"].max()) < 2:
        return audited
    ballots = said.filter(regex="^votes_")
    ballots.columns = ballots.columns.str.removeprefix("votes_")
    given = pd.get_dummies(said["label"]).reindex(columns=ballots.columns, fill_value=False)
    rest = ballots.mask(given.to_numpy(dtype=bool), 0)
    other = rest.idxmax(axis=1).where(rest.max(axis=1) > 0, "")
    found = audited.copy()
    found["agreement"] = said["agreement"].reindex(found["id"]).to_numpy()
    found["other_label"] = other.reindex(found["id"]).to_numpy()
    found["ghost_is_other"] = found["other_label"].eq(found["ghost"]) & found["other_label"].ne("")
    found["ghost_hits"] = found["ghost_distance"] <= HIT_RADIUS
    return found
