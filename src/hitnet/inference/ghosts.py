"""The paper's analysis of ghost capsules over M networks (section 3.3): agreement, pairs, distances, hits.

Shapes: distances (M, N, K), labels (N,). The ghost of an image in a network is the capsule nearest to the centre
among those of all classes but the given one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hitnet.capsules import HIT_RADIUS

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ghosts:
    """The ghosts of N images in M networks.

    Attributes:
        models: M.
        class_names: The K classes.
        table: One row per image. Columns: label; ghost (the most frequent class of the M ghosts); classes (N_c, the
            number of different classes among them); mean_distance and std_distance (of the M ghosts); hits (ghosts
            within the hit zone).
    """

    models: int
    class_names: tuple[str, ...]
    table: pd.DataFrame

    def agreement(self) -> pd.DataFrame:
        """Number of images with N_c = 1, 2, … different ghost classes."""
        counts = self.table["classes"].value_counts().sort_index().rename("images").reset_index()
        return counts.assign(share=counts["images"] / len(self.table))

    def agreed(self) -> pd.DataFrame:
        """The images for which all networks agree on the ghost class (N_c = 1)."""
        return self.table[self.table["classes"] == 1]

    def doubtful(self) -> pd.DataFrame:
        """The images with N_c = 1 and a mean distance below the hit radius, sorted by hits as in the paper's figure."""
        agreed = self.agreed()
        return agreed[agreed["mean_distance"] < HIT_RADIUS].sort_values(["hits", "label", "ghost"])

    def pairs(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Counts of (ghost class, true class) in some rows of the table: one row per ghost class, with totals."""
        import pandas as pd

        names = list(self.class_names)
        counts = pd.crosstab(rows["ghost"], rows["label"]).reindex(index=names, columns=names, fill_value=0).to_numpy()
        across = np.column_stack([counts, counts.sum(axis=1)])
        # By position, not by name: a class may be named Total.
        return pd.DataFrame(
            np.vstack([across, across.sum(axis=0)]),
            index=pd.Index([*names, "Total"], name="ghost class"),
            columns=pd.Index([*names, "Total"], name="true class"),
        )


def find_ghosts(distances: Floats, labels: Ints, class_names: tuple[str, ...]) -> Ghosts:
    """Find the ghost of every image in every network, from distances (M, N, K) and labels (N,)."""
    import pandas as pd  # takes long to import

    other_distances = distances.copy()
    other_distances[:, np.arange(len(labels)), labels] = np.inf
    chosen, nearest = other_distances.argmin(axis=2), other_distances.min(axis=2)
    counts = np.stack([(chosen == k).sum(axis=0) for k in range(distances.shape[2])], axis=1)
    names = np.array(class_names, dtype=object)
    table = pd.DataFrame(
        {
            "label": names[labels],
            "ghost": names[counts.argmax(axis=1)],
            "classes": (counts > 0).sum(axis=1),
            "mean_distance": nearest.mean(axis=0),
            "std_distance": nearest.std(axis=0),
            "hits": (nearest <= HIT_RADIUS).sum(axis=0),
        }
    )
    return Ghosts(len(distances), class_names, table)
