"""The benchmark of training: what each measurement may round to TF32, whatever was measured before it."""

import json
from types import SimpleNamespace

import pytest
import torch

import hitnet
import training

DEFAULT, EXACT = (False, True), (False, False)  # for matrix products and convolutions


def flags():
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("chosen", [(True, True), (False, False)])
def test_flags_are_set_and_restored_even_after_an_error(chosen):
    before = flags()

    def fail():
        with training.tf32(products=chosen[0], convolutions=chosen[1]):
            seen.append(flags())
            raise KeyError

    seen = []
    with pytest.raises(KeyError):
        fail()
    assert seen == [chosen]
    assert flags() == before


def test_parity_is_to_float32_without_tf32(monkeypatch):
    seen = []

    def losses(train, *, capture, mixed):
        seen.append((capture, mixed, flags()))
        return torch.ones(3)

    monkeypatch.setattr(training, "losses", losses)
    with training.tf32(convolutions=True):
        (row,) = training.parity(None, None)
    assert seen == [(True, True, DEFAULT), (False, True, DEFAULT), (False, False, EXACT)]
    assert row["largest_relative_difference_to_float32"] == 0


def test_errors_in_float32_are_without_tf32(monkeypatch):
    def fast(train, test, *, precision, **options):
        yield {"seen": flags()}

    monkeypatch.setattr(training, "fast", fast)
    rows = list(training.float32(None, None))
    assert rows == [{"seen": EXACT, "precision": "float32"}, {"seen": DEFAULT, "precision": "mixed"}]


def test_no_part_depends_on_another_and_rows_of_others_stay(monkeypatch, tmp_path):
    def part(name):
        def make(train, test):
            yield {"experiment": name, "seen": flags()}
            torch.backends.cuda.matmul.allow_tf32 = not flags()[0]
            torch.backends.cudnn.allow_tf32 = not flags()[1]

        return make

    before, path = flags(), tmp_path / "training.json"
    monkeypatch.setattr(hitnet, "open_data", lambda *args, **options: SimpleNamespace(load=lambda split: None))
    monkeypatch.setattr(training, "about", lambda device: {"device": device.type})
    monkeypatch.setattr(training, "PARTS", {name: part(name) for name in ("ladder", "parity")})
    kept = {"experiment": "speed"}
    path.write_text(json.dumps([{"experiment": "parity", "old": True}, kept]))
    training.main(["--out", str(path)])
    seen = [{"experiment": name, "seen": list(DEFAULT), "device": "cuda"} for name in ("ladder", "parity")]
    assert json.loads(path.read_text()) == [kept, *seen]
    assert flags() == before
