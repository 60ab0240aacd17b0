from collections import Counter
from unittest import mock

import numpy as np
from audit_samples import make_audit

from hitnet.audit import rows as module
from hitnet.audit.rows import Rows


def test_the_overview_names_the_most_frequent_pairs():
    table, distances, *_ = make_audit(200)
    names = tuple(sorted({*table["given"], *table["suggested"]}))
    rows = Rows(table, distances, names)
    pairs = Counter((a, b) for a, b in zip(rows.given.tolist(), rows.suggested.tolist(), strict=True) if a != b)
    expected = sorted(([*pair, count] for pair, count in pairs.items()), key=lambda each: (-each[2], each))
    every = np.arange(len(rows))
    assert rows.overview(every)["pairs"] == expected
    with mock.patch.object(module, "FREQUENT_PAIRS", 2):
        shown = rows.overview(every)
    assert shown["pairs"] == expected[:2]
    assert shown["all_pairs"] == len(expected) > 2
