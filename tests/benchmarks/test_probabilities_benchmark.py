"""What benchmarks/probabilities.py counts."""

import numpy as np
import pandas as pd

import probabilities
from hitnet.data.known import datasets as samples


def test_what_cleanlab_finds_is_compared_with_what_people_said():
    judged = samples.judgements()
    ids = np.concatenate([judged["id"], np.setdiff1d(np.arange(2000), judged["id"])[:900]])
    labels = np.arange(1000) % 10
    chances = np.full((1000, 10), 0.01)
    chances[np.arange(1000), labels] = 0.91
    wrong = np.flatnonzero(judged["consensus"] == "error")[:12]
    right = np.flatnonzero(judged["consensus"] == "ok")[:3]
    for i in (*wrong, *right, 500, 501):
        chances[i] = np.roll(chances[i], 1)
    counted = probabilities.cleanlab_finds(chances, pd.DataFrame({"id": ids, "label": labels}))
    assert counted == {"issues": 17, "known_errors": 12, "known_right": 3}
