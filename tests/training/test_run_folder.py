"""Run folders: what of another configuration matters on resuming, and where a training took place."""

import fcntl
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors import SafetensorError

import hitnet
from hitnet import HitNetError, Judges, choose_model, choose_recipe, open_data
from hitnet.runtime import tensor_files
from hitnet.training import run_folder
from toy import write_images

MODEL = choose_model("hitnet-small", capsule_dim=4)
SMALL = {"model": MODEL, "device": "cpu", "recipe": choose_recipe(epochs=1)}


def with_recipe(**changes):
    return SMALL | {"recipe": choose_recipe(epochs=1, **changes)}


@pytest.mark.parametrize("entry", ["flip", "in_memory", "fingerprint", "data_dir"])
def test_a_configuration_that_says_less_of_its_data_is_damaged(toy, tmp_path, entry):
    hitnet.train(toy, out=tmp_path / "run", **SMALL)
    file = tmp_path / "run" / "config.json"
    values = json.loads(file.read_text())
    del values["data"][entry]
    file.write_text(json.dumps(values))
    with pytest.raises(HitNetError, match=rf"config\.json is damaged: data lacks {entry}"):
        hitnet.open_run(tmp_path / "run")


def test_a_configuration_that_is_not_understood_is_named(toy, tmp_path):
    hitnet.train(toy, out=tmp_path / "run", **SMALL)
    file = tmp_path / "run" / "config.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps({**values, "recipe": {**values["recipe"], "speed": 3}}))
    with pytest.raises(HitNetError, match=r"config\.json .* 'speed'"):
        hitnet.open_run(tmp_path / "run")


def test_a_limit_that_changes_nothing_is_no_other_run(toy, tmp_path):
    run = hitnet.train(open_data(toy, limit=1000), out=tmp_path / "run", **SMALL)
    assert hitnet.train(toy, out=tmp_path / "run", resume=True, **SMALL).history == run.history


def test_a_new_default_of_an_option_that_is_off_is_no_other_run(toy, tmp_path):
    run = hitnet.train(toy, out=tmp_path / "run", **with_recipe(augment_share=0.75))
    assert hitnet.train(toy, out=tmp_path / "run", resume=True, **SMALL).history == run.history
    with pytest.raises(HitNetError, match=r"recipe\.shift was 2, now 1"):
        hitnet.train(toy, out=tmp_path / "run", resume=True, **with_recipe(shift=1))


def test_what_was_kept_of_the_data_still_counts(toy, tmp_path):
    hitnet.train(toy, out=tmp_path / "run", **SMALL)
    with pytest.raises(HitNetError, match=r"data\.flip was False, now True"):
        hitnet.train(open_data(toy, flip=True), out=tmp_path / "run", resume=True, **SMALL)


def test_data_that_has_changed_is_said_in_words(toy, tmp_path):
    hitnet.train(toy, out=tmp_path / "run", **SMALL)
    swapped = toy.labels.clone()
    swapped[:2] = swapped[:2].flip(0)
    pixels = toy.pixels.clone()
    pixels[0] = 255 - pixels[0]
    assert not torch.equal(swapped, toy.labels)
    for other in (toy.with_labels(swapped), replace(toy, pixels=pixels)):
        with pytest.raises(HitNetError, match=r"changed .* another `out`") as e:
            hitnet.train(other, out=tmp_path / "run", resume=True, **SMALL)
        assert "fingerprint" not in str(e.value)
        with pytest.raises(HitNetError, match=r"data\.flip was False, now True"):
            hitnet.train(open_data(other, flip=True), out=tmp_path / "run", resume=True, **SMALL)


def test_a_folder_of_seeds_is_no_run_but_names_some(toy, tmp_path):
    hitnet.train_many(toy, seeds=[3, 5], out=tmp_path / "runs", **SMALL)
    with pytest.raises(HitNetError, match=r"2 seeds; .*runs/seed-3\."):
        hitnet.open_run(tmp_path / "runs")


def test_a_finished_run_whose_history_was_lost_still_predicts_but_is_not_taken_as_trained(toy, tmp_path):
    hitnet.train(toy, out=tmp_path / "run", **SMALL)
    (tmp_path / "run" / "history.json").unlink()
    assert hitnet.open_run(tmp_path / "run").history == []
    with pytest.raises(HitNetError, match=r"history\.json .* is missing"):
        hitnet.train(toy, out=tmp_path / "run", resume=True, **SMALL)


def test_a_checkpoint_whose_history_was_lost_is_not_resumed(tmp_path):
    folder = run_folder.RunFolder(tmp_path)
    folder.save({"weights": torch.zeros(1)}, [{"epoch": 1}, {"epoch": 2}], step=1)
    assert folder.saved() is not None
    folder.history_file.write_text('[{"epoch": 1}]')
    with pytest.raises(HitNetError, match=r"history\.json lacks .* 2"):
        folder.saved()
    folder.history_file.unlink()
    with pytest.raises(HitNetError, match=r"history\.json lacks epochs"):
        folder.saved()


def test_a_folder_named_like_a_known_set_is_found_again(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for i, k in enumerate(toy.labels.tolist()):
        folder = Path("mnist-sample") / toy.class_names[k]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(toy.pixels[i, 0].numpy()).save(folder / f"{i}.png")
    run = hitnet.train(Path("mnist-sample"), **SMALL)
    assert run.config.data["source"] == str(tmp_path / "mnist-sample")
    assert hitnet.evaluate(run, split="all", device="cpu").images == len(toy)


def test_the_environment_names_the_device_of_the_training(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device=None: "a GPU")
    assert run_folder.environment(torch.device("cuda"))["device"] == "a GPU"
    assert run_folder.environment(torch.device("cpu"))["device"] != "a GPU"


def test_a_training_on_the_cpu_says_so(toy, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(run_folder, "environment", lambda device: {"device": asked.append(device.type)})
    hitnet.train(toy, out=tmp_path / "run", **SMALL)
    judges = Judges("scratch", networks=1, epochs=1)
    hitnet.audit_labels(toy, judges=judges, out=tmp_path / "audit", device="cpu")
    assert asked == ["cpu", "cpu"]


def train_seeds(toy, out, count, **options):
    return hitnet.train_many(toy, out=out, seeds=count, **SMALL, **options)


def test_a_run_that_another_process_trains_is_left_alone(toy, tmp_path):
    folder = tmp_path / "run" / "seed-1"
    folder.mkdir(parents=True)
    with (folder / ".training").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(HitNetError, match="seed-1: another process"):
            train_seeds(toy, tmp_path / "run", 2)
        assert not (tmp_path / "run" / "seed-0" / ".training").exists()  # the claim on the first one is given up
        assert not run_folder.RunFolder(folder).exists
    train_seeds(toy, tmp_path / "run", 2, resume=True)


def test_claims_are_given_up_once_training_has_ended_or_failed(toy, tmp_path, monkeypatch):
    def broken(self):
        assert run_folder.RunFolder(tmp_path / "run").claim_file.exists()
        raise HitNetError("The wheels came off.")

    with monkeypatch.context() as patched:
        patched.setattr("hitnet.training.engine.Trainer.work", broken)
        with pytest.raises(HitNetError, match="wheels came off"):
            hitnet.train(toy, out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run" / ".training").exists()
    with pytest.raises(HitNetError, match="already holds a run"):
        hitnet.train(toy, out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run" / ".training").exists()
    hitnet.train(toy, out=tmp_path / "run", resume=True, **SMALL)
    assert not (tmp_path / "run" / ".training").exists()


@pytest.mark.parametrize(
    ("file", "text"),
    [("history.json", "3"), ("history.json", '{"a": 1}'), ("config.json", None)],
)
def test_damaged_files_are_named(toy, tmp_path, file, text):
    hitnet.train(toy, out=tmp_path / "run", **SMALL)
    path = tmp_path / "run" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), "data": {}}) if text is None else text)
    with pytest.raises(HitNetError, match=f"{path} is damaged"):
        hitnet.open_run(tmp_path / "run")


def test_a_checkpoint_that_does_not_say_how_far_it_is_is_damaged(tmp_path):
    tensor_files.write_tensors(tmp_path / "state.safetensors", {"a": torch.zeros(2)}, {"step": "3"})
    with pytest.raises(HitNetError, match=r"state.*damaged: it does not"):
        run_folder.RunFolder(tmp_path).position()


def test_a_disk_that_is_full_is_said(tmp_path, monkeypatch):
    def full(*args):
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(tensor_files, "save_file", full)
    with pytest.raises(HitNetError, match=r"weights.*No space left"):
        tensor_files.write_tensors(tmp_path / "weights.safetensors", {"a": torch.zeros(2)}, {})
    assert list(tmp_path.iterdir()) == []


def test_home_is_where_a_run_is_kept(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run = hitnet.train(toy, out="~/run", **SMALL)
    assert run.folder == tmp_path / "run"
    assert hitnet.open_run("~/run").history == run.history
    hybrid = hitnet.train_many(toy, augment_from="~/run", seeds=2, out="~/many", **with_recipe(augment="hybrid"))
    assert hybrid[1].folder == tmp_path / "many" / "seed-1"
    assert hybrid[1].config.augment_from["run"] == str(tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many", "run"]


def test_loading_a_run_leaves_the_callers_random_numbers_alone(toy, tmp_path):
    hitnet.train(toy, out=tmp_path / "run", **SMALL)
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    hitnet.open_run(tmp_path / "run")
    assert torch.equal(torch.rand(2), expected)


def test_a_run_is_resumed_after_its_data_was_renamed(toy, tmp_path):
    write_images(tmp_path / "photos", toy)
    run = hitnet.train(tmp_path / "photos", out=tmp_path / "run", **SMALL)
    (tmp_path / "photos").rename(tmp_path / "renamed")
    assert hitnet.train(tmp_path / "renamed", out=tmp_path / "run", resume=True, **SMALL).history == run.history
