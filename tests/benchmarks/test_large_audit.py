"""The benchmark of a large audit, in small."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "large_audit.py"


def test_parts_are_timed_and_a_row_is_kept(tmp_path):
    out = tmp_path / "record.json"
    words = ["--images", "400", "--classes", "40", "--dim", "16", "--spread", "1", "--device", "cpu", "--out", str(out)]
    ended = subprocess.run([sys.executable, SCRIPT, *words], check=True, capture_output=True, text=True)
    (row,) = json.loads(out.read_text())
    assert (row["images"], row["classes"], row["device"] != "") == (400, 40, True)
    assert {"nearest", "train_heads", "fit_noise_model", "score_labels", "write"} <= {*row["parts"]}
    assert sum(row["parts"][name] for name in ("judge_features", "nearest", "write")) <= row["seconds"]
    assert 0.5 < row["average_precision"] <= 1
    assert 0 < row["wrong"] < 80
    assert "near_duplicates" in ended.stdout
