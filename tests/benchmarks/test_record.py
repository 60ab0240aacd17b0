"""What the records of benchmarks have in common."""

import json

import pytest
import torch

import hitnet
from hitnet.errors import HitNetError
from parts import record
from parts.record import about, replace_rows

OLD = [
    {"experiment": "images", "device": "x", "value": 1},
    {"experiment": "head", "device": "x", "value": 2},
    {"experiment": "head", "device": "y", "value": 3},
]


def test_rows_of_the_same_part_and_device_are_replaced(tmp_path):
    path = tmp_path / "records" / "growth.json"
    assert replace_rows(path, OLD, "experiment", "device") == OLD
    new = [{"experiment": "head", "device": "x", "value": value} for value in (4, 5)]
    assert replace_rows(path, new, "experiment", "device") == [OLD[0], OLD[2], *new]
    assert json.loads(path.read_text()) == [OLD[0], OLD[2], *new]
    assert replace_rows(path, [OLD[2]], "experiment") == [OLD[0], OLD[2]]


def test_a_damaged_record_is_not_written_over(tmp_path):
    path = tmp_path / "growth.json"
    path.write_text("[{")
    with pytest.raises(HitNetError, match="not readable JSON"):
        replace_rows(path, OLD, "experiment")
    assert path.read_text() == "[{"


def test_a_row_says_what_it_was_measured_on(monkeypatch):
    monkeypatch.setattr(record.platform, "processor", lambda: "some processor")
    row = about(torch.device("cpu"))
    assert (row["device"], row["threads"]) == ("some processor", torch.get_num_threads())
    assert (row["torch"], row["hitnet"]) == (torch.__version__, hitnet.__version__)
    assert list(row) == ["device", "threads", "torch", "hitnet", "date"]
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card of {device}")
    assert about(torch.device("cuda"))["device"] == "card of cuda"
