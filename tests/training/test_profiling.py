"""A profile says where the time of a step goes, and leaves the training as it was."""

import json

import pytest
import torch

import hitnet
from hitnet import HitNetError, choose_recipe, open_data
from hitnet.training import scheduler
from toy import Interrupting, Stop, toy_images

SMALL = {"model": "hitnet-small", "device": "cpu", "recipe": choose_recipe(epochs=6, batch_size=16)}
SHORT = SMALL | {"recipe": choose_recipe(epochs=2, batch_size=16)}


@pytest.mark.slow
def test_profile_of_a_training(toy, tmp_path):
    plain = hitnet.train(toy, **SMALL)
    run = hitnet.train(toy, out=tmp_path / "run", profile=True, **SMALL)
    assert all(torch.equal(a, b) for a, b in zip(plain.model.parameters(), run.model.parameters(), strict=True))
    profile = json.loads((tmp_path / "run" / "profile.json").read_text())
    assert (profile["steps"], profile["device"]) == (20, "cpu")
    assert profile["images_per_second"] == pytest.approx(16e3 / profile["milliseconds_per_step"])
    parts = {row["name"]: row["percent"] for row in profile["parts"]}
    assert set(parts) == {"batch", "augment", "forward", "loss", "backward", "update", "count"}
    assert 30 < sum(parts.values()) < 101
    costs = [row["milliseconds_per_step"] for row in profile["operators"]]
    assert costs == sorted(costs, reverse=True)
    assert any("conv" in row["name"] for row in profile["operators"])
    table = (tmp_path / "run" / "profile.txt").read_text()
    assert table.startswith("20 steps on cpu: ")
    assert all(name in table for name in parts)


def test_a_short_training_is_watched_to_its_end(toy, tmp_path):
    hitnet.train(toy, out=tmp_path / "run", profile=True, **SHORT)
    assert json.loads((tmp_path / "run" / "profile.json").read_text())["steps"] == 7


def test_a_training_of_the_warm_up_alone_has_no_profile_and_says_so(toy, tmp_path, caplog, capfd):
    options = SMALL | {"recipe": choose_recipe(epochs=1, batch_size=20)}
    hitnet.train(toy, out=tmp_path / "run", profile=True, **options)
    assert not (tmp_path / "run" / "profile.json").exists()
    assert "No profile is written: the first 5 steps only warm up" in caplog.text
    assert capfd.readouterr().err == ""


def test_of_many_the_first_is_watched_with_none_beside_it(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(scheduler.AT_ONCE, "cpu", 2)
    runs = hitnet.train_many(toy, out=tmp_path, seeds=2, profile=True, **SHORT)
    assert {row["beside"] for run in runs for row in run.history} == {1}
    assert [(run.folder / "profile.json").is_file() for run in runs] == [True, False]


def test_no_folder_no_profile(toy):
    with pytest.raises(HitNetError, match=r"`profile` needs .* `out`"):
        hitnet.train(toy, profile=True, **SMALL)


def test_testing_is_no_part_of_a_step(toy, tmp_path):
    options = SMALL | {"recipe": choose_recipe(epochs=30, batch_size=96)}  # one step an epoch
    test = toy_images(600)
    run = hitnet.train(open_data(toy, test=test), out=tmp_path / "run", profile=True, **options)
    profile = json.loads((tmp_path / "run" / "profile.json").read_text())
    assert profile["steps"] == 20
    calls = {row["name"]: row["calls_per_step"] for row in profile["operators"]}
    # The network's four layers of batch-norm, forth and back; testing goes forth alone.
    assert calls["aten::native_batch_norm"] == calls["aten::native_batch_norm_backward"] == 4
    assert len(run.history) == 30


def test_an_interrupted_training_stops_the_profiler(toy, tmp_path):
    with pytest.raises(Stop):
        hitnet.train(toy, out=tmp_path / "run", profile=True, progress=Interrupting(8), **SMALL)
    assert not torch.autograd.profiler._is_profiler_enabled
