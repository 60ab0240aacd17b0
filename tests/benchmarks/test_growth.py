"""The benchmark of growth, in small."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import growth
from forked import Forked
from parts import streamed

ROOT = Path(__file__).parents[2]


class Quick(Forked):
    """A forked process with what the benchmark asks of a `Popen`."""

    def __init__(self, command, **options):
        super().__init__(*command[1:])

    def poll(self):
        with suppress(TimeoutError):
            return self.wait(0.001)

    def communicate(self):
        self.wait()
        return self.out, self.err


@pytest.mark.slow
def test_every_part_measures_something(tmp_path, monkeypatch):
    out = tmp_path / "growth.json"
    (tmp_path / "torchvision.py").write_text("raise ImportError('no part of growth needs it')")  # nor its processes
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{tmp_path}")
    monkeypatch.setitem(sys.modules, "torchvision", None)
    words = ["--tiny", "--device", "cpu", "--repeats", "1", "--steps", "2", "--out", str(out)]
    monkeypatch.setattr(growth, "BATCH", 32)
    monkeypatch.setattr(streamed, "subprocess", SimpleNamespace(Popen=Quick, PIPE=None))
    monkeypatch.setattr(sys, "argv", ["growth.py", *words])
    growth.main()
    images, small, large, head = json.loads(out.read_text())
    assert images["time_an_image_relative_to_smallest"]["1"] == 1
    assert all(seconds > 0 for seconds in images["seconds_an_epoch_by_multiple"].values())
    assert (small["files"], large["files"], small["steps"], large["steps"]) == (400, 800, 2, 2)
    # Two processes of their own: each has its own peak, that of a process with PyTorch and a network at least.
    assert small["peak_bytes"] != large["peak_bytes"]
    assert min(small["peak_bytes"], large["peak_bytes"]) > 100 * 2**20
    assert 0 <= large["share_of_time_waiting_for_a_batch"] <= 1
    assert head["hit_or_miss_relative_to_softmax"] > 0


def test_a_tiny_run_leaves_the_record_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["growth.py", "--tiny", "--parts", "head", "--repeats", "1", "--device", "cpu"])
    monkeypatch.setattr(growth, "RECORDS", tmp_path / "growth.json")
    growth.main()
    assert list(tmp_path.iterdir()) == []
