"""The benchmark of a large audit, in small."""

import json
from pathlib import Path

from forked import Forked

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "large_audit.py"


def test_parts_are_timed_and_a_row_is_kept(tmp_path):
    out = tmp_path / "record.json"
    words = ["--images", "200", "--classes", "20", "--dim", "16", "--spread", "1", "--device", "cpu", "--out", str(out)]
    process = Forked(SCRIPT, *words)
    assert process.wait() == 0, process.err
    (row,) = json.loads(out.read_text())
    assert (row["images"], row["classes"], row["device"] != "") == (200, 20, True)
    assert {"nearest", "train_heads", "fit_noise_model", "score_labels", "write"} <= {*row["parts"]}
    assert sum(row["parts"][name] for name in ("judge_features", "nearest", "write")) <= row["seconds"]
    assert 0.5 < row["average_precision"] <= 1
    assert 0 < row["wrong"] < 40
    assert "near_duplicates" in process.out
