"""The benchmark of a large audit, in small."""

import argparse
import importlib
import json
from pathlib import Path

import numpy as np
import torch

import hitnet
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


def test_photographs_lie_in_the_folders_of_their_labels(tmp_path, monkeypatch):
    monkeypatch.setenv("HITNET_CACHE", "set back after the test")
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    script = importlib.import_module("large_audit")
    args = argparse.Namespace(images=40, classes=5, seed=0, photos=tmp_path)
    given, truth = script.make(args, None)
    folder = script.photographs(args, given, truth)
    images = hitnet.open_data(folder).load("all")
    assert images.labels.tolist() == [given[int(Path(path).stem)] for path in images.paths]
    assert (len(images), images.shape) == (40, (3, 64, 64))
    pixels = images.pixels.flatten(1).float()
    likeness = torch.corrcoef(pixels)[0]
    numbers = np.array([int(Path(path).stem) for path in images.paths])
    same = torch.from_numpy(truth[numbers] == truth[numbers[0]])
    assert likeness[same].mean() > likeness[~same].mean()
    before = (tmp_path / "made").stat()
    script.photographs(args, given, truth)
    assert (tmp_path / "made").stat() == before
