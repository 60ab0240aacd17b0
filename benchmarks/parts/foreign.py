"""Scores that tell images of known classes from foreign ones, and how well they do.

A score is the higher, the more an image looks like one of the classes.
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score
from torch import Tensor

from hitnet.capsules import HIT_RADIUS, MISS_RADIUS
from hitnet.inference.prediction import misfit_limit, misfits
from hitnet.losses import misfit
from parts.record import Row

KEEP = 0.95  # share of the known images that keep their class


def capsule_scores(distances: Tensor) -> dict[str, Tensor]:
    """The misfit, the nearest capsule, and what softmax would say of logits −distance / m, m the hit radius."""
    nearest = -distances.min(dim=1).values
    return {"misfit": -misfit(distances), "nearest capsule": nearest, **softmax_scores(-distances / HIT_RADIUS)}


def softmax_scores(logits: Tensor) -> dict[str, Tensor]:
    """The largest probability (Hendrycks and Gimpel, 2017), and the energy (Liu et al., 2020)."""
    return {
        "largest probability": logits.softmax(dim=1).max(dim=1).values,
        "energy": logits.logsumexp(dim=1),
    }


def detection(known: Tensor, foreign: Tensor) -> Row:
    """AUROC, and the share of foreign images that pass where 95 % of the known ones do."""
    inside, outside = known.double().numpy(), foreign.double().numpy()
    truth = np.concatenate([np.ones(len(inside)), np.zeros(len(outside))])
    lowest_kept = -np.quantile(-inside, KEEP, method="inverted_cdf")
    return {
        "auroc": float(roc_auc_score(truth, np.concatenate([inside, outside]))),
        "fpr95": float((outside >= lowest_kept).mean()),
    }


def answers(known: Tensor, foreign: Tensor) -> Row:
    """How many images get the answer "none": where all capsules miss, and beyond a limit of misfits.

    The first half of the known images sets the limit. Both rules are tried on the second half and on foreign images.
    """
    half = len(known) // 2
    row: Row = {"largest_misfit": misfit_limit(misfits(known[:half].numpy()), KEEP)}
    for kind, distances in (("known", known[half:]), ("foreign", foreign)):
        row[f"{kind}_none_if_all_miss"] = float((distances.min(dim=1).values >= MISS_RADIUS).double().mean())
        row[f"{kind}_none_by_misfit"] = float((misfits(distances.numpy()) > row["largest_misfit"]).mean())
    return row


def score_rows(head: str, known: Tensor, foreign: Tensor, labels: Tensor) -> list[Row]:
    """One row per score of a head.

    Args:
        head: "hit-or-miss", or another name, of a head with logits.
        known: Distances or logits (N, K) of images of known classes that the head was not trained on.
        foreign: The same of images of other things.
        labels: (N,), the classes of the known images.
    """
    capsules = head == "hit-or-miss"
    prediction = known.argmin(dim=1) if capsules else known.argmax(dim=1)
    shared: Row = {"head": head, "error_percent": 100 * float((prediction != labels).double().mean())}
    of_known, of_foreign = (capsule_scores(each) if capsules else softmax_scores(each) for each in (known, foreign))
    rows = [{"arm": f"{head}: {name}", **shared, **detection(of_known[name], of_foreign[name])} for name in of_known]
    if capsules:
        rows[0] |= answers(known, foreign)
    return rows


def show(rows: list[Row]) -> str:
    """One line per row, for the terminal."""
    return "\n".join(
        f"{row['part']} {row['data']} seed {row['seed']}: {row['arm']}, error {row['error_percent']:.2f} %, "
        f"AUROC {row['auroc']:.4f}, FPR95 {row['fpr95']:.4f}"
        for row in rows
    )
