"""Run folders that are damaged, moved, littered, or resumed on another machine: nothing is lost, nothing passes."""

import json
import logging
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import hitnet
from hitnet import HitNetError, choose_model, choose_recipe
from hitnet.models import features
from hitnet.runtime.progress import Progress
from hitnet.runtime.tensor_files import read_tensors, write_tensors
from hitnet.training import RunFolder, engine
from toy import Interrupting, Stop

EPOCHS = 2
OPTIONS = {
    "model": choose_model("hitnet-small", capsule_dim=4),
    "recipe": choose_recipe(epochs=EPOCHS, batch_size=32),
    "device": "cpu",
}


@pytest.fixture
def finished(toy, tmp_path):
    hitnet.train(toy, out=tmp_path / "run", **OPTIONS)
    return tmp_path / "run"


@pytest.fixture
def begun(toy, tmp_path, monkeypatch):
    """A run that was interrupted in its second epoch."""
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    with pytest.raises(Stop):
        hitnet.train(toy, out=tmp_path / "run", progress=Interrupting(4), **OPTIONS)
    return tmp_path / "run"


class Moving(Progress):
    """Moves a run folder after N steps."""

    def __init__(self, folder, target, after):
        self.folder, self.target, self.after, self.steps = folder, target, after, 0

    def step(self):
        self.steps += 1
        if self.steps == self.after:
            self.folder.rename(self.target)


@pytest.mark.parametrize("after", [4, 6])  # in the middle, and before the weights are written
def test_a_run_folder_that_is_moved_while_it_is_trained(toy, tmp_path, monkeypatch, after):
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)
    old, new = tmp_path / "old", tmp_path / "new"
    whole = hitnet.train(toy, out=tmp_path / "whole", **OPTIONS)
    with pytest.raises(HitNetError, match=r"old was moved to .*new"):
        hitnet.train(toy, out=old, progress=Moving(old, new, after), **OPTIONS)
    assert not old.exists()
    assert RunFolder(new).finished == (after == 6)
    assert RunFolder(new).finished or RunFolder(new).position() == (1, 1)
    resumed = hitnet.train(toy, out=new, resume=True, **OPTIONS)
    for key, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[key])


def test_a_run_folder_that_is_removed_while_it_is_trained(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "CHECKPOINT_SECONDS", 0.0)

    class Removing(Moving):
        def step(self):
            super().step()
            for file in self.target.iterdir() if self.target.exists() else ():
                file.unlink()

    removing = Removing(tmp_path / "old", tmp_path / "new", 4)
    with pytest.raises(HitNetError, match="was moved or removed"):
        hitnet.train(toy, out=tmp_path / "old", progress=removing, **OPTIONS)
    assert not (tmp_path / "old").exists()


def test_a_resumed_run_keeps_its_number_of_threads(toy, begun, caplog):
    recorded = torch.get_num_threads() + 1
    file = begun / "environment.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "threads": recorded}))
    seen = set()

    class Watching(Progress):
        def step(self):
            seen.add(torch.get_num_threads())

    with caplog.at_level(logging.INFO, "hitnet"):
        hitnet.train(toy, out=begun, resume=True, progress=Watching(), **OPTIONS)
    assert seen == {recorded}
    assert torch.get_num_threads() == recorded - 1  # the caller's own
    assert f"begun with {recorded} threads" in caplog.text


def test_no_flipped_bit_passes_as_weights(finished):
    file = finished / "weights.safetensors"
    sound = file.read_bytes()
    # Copies: the tensors are mapped to the file, and would change with it.
    tensors = {name: value.clone() for name, value in read_tensors(file)[0].items()}
    places = np.random.default_rng(0).integers(0, 8 * len(sound), 40)
    silent = 0
    for place in places.tolist():
        content = bytearray(sound)
        content[place // 8] ^= 1 << place % 8
        file.write_bytes(content)
        try:
            opened, _ = read_tensors(file)
        except HitNetError:
            continue
        silent += not all(torch.equal(value, opened[name]) for name, value in tensors.items())
    assert silent == 0


def test_the_same_tensors_give_the_same_file(tmp_path):
    texts = {name: name for name in "abcdefgh"}
    for file in ("first", "second"):
        write_tensors(tmp_path / file, {"x": torch.arange(3)}, texts)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    assert read_tensors(tmp_path / "first")[1] == texts


def test_weights_without_a_checksum_are_damaged(finished):
    file = finished / "weights.safetensors"
    save_file(load_file(file), file, {"epoch": str(EPOCHS)})
    with pytest.raises(HitNetError, match=r"safetensors is damaged"):
        hitnet.open_run(finished)


@pytest.mark.parametrize("what", ["missing", "misshapen", "no totals", "random"])
def test_a_checkpoint_that_does_not_fit_is_named(toy, begun, what):
    tensors, metadata = read_tensors(begun / "state.safetensors")
    name = {"no totals": "totals", "random": "random.cpu"}.get(what, next(iter(tensors)))
    if what in ("missing", "no totals"):
        del tensors[name]
    else:
        tensors[name] = torch.zeros(7)
    write_tensors(begun / "state.safetensors", tensors, metadata)
    with pytest.raises(HitNetError, match=rf"state\.safetensors does not fit this training: {name} is missing or of"):
        hitnet.train(toy, out=begun, resume=True, **OPTIONS)


@pytest.mark.parametrize(
    ("file", "path", "value"),
    [
        ("config.json", ("data", "class_names"), [1, 2, 3]),
        ("config.json", ("data", "class_names"), ["a", "a", "b"]),
        ("config.json", ("seed",), 10**400),
        ("config.json", ("model", "in_shape"), [1, "12", 12]),
        ("config.json", ("model", "capsule_dim"), 10**9),
        ("config.json", ("recipe", "epochs"), [3]),
        ("history.json", (0, "epoch"), "first"),
        ("history.json", (0, "loss"), {}),
    ],
)
def test_odd_values_are_refused_with_the_name_of_the_file(finished, file, path, value):
    target = finished / file
    values = json.loads(target.read_text())
    inner = values
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    target.write_text(json.dumps(values))
    with pytest.raises(HitNetError, match=file):
        hitnet.open_run(finished)


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, '{"a": 1e999}', "\ufeff{}"])
def test_json_that_no_reader_survives_is_refused(finished, text):
    (finished / "config.json").write_text(text)
    with pytest.raises(HitNetError, match=r"config\.json is not"):
        hitnet.open_run(finished)


def test_what_a_killed_training_left_is_removed_by_the_next(toy, begun):
    litter = [".state.0a1b2c3d.safetensors", ".history.0a1b2c3d.json", ".tmpAb3dE9"]
    for name in litter:
        (begun / name).write_text("half")
    (begun / ".mine").write_text("kept")
    hitnet.train(toy, out=begun, resume=True, **OPTIONS)
    assert not [name for name in litter if (begun / name).exists()]
    assert (begun / ".mine").read_text() == "kept"


def changed_model(folder, **changes):
    """A run folder whose configuration is a stranger's."""
    config = json.loads((folder / "config.json").read_text())
    config["model"] |= changes
    (folder / "config.json").write_text(json.dumps(config))


def test_a_strangers_configuration_contacts_nobody_and_builds_nothing(source, tmp_path, monkeypatch):
    """Of timm only its own networks; the header of the weights is compared before a tensor is read or made."""
    timm = pytest.importorskip("timm")
    folder = shutil.copytree(source.folder, tmp_path / "run")
    asked = []
    monkeypatch.setattr(timm, "create_model", lambda name, **options: asked.append(name) or 1 / 0)
    for name in ("hf-hub:attacker/model", "hf_hub:attacker/model", f"local-dir:{tmp_path}", "attacker/model"):
        changed_model(folder, features=f"timm:{name}")
        with pytest.raises(HitNetError, match=r"only networks of timm itself are built by name"):
            hitnet.open_run(folder)
    assert asked == []


def test_weights_that_do_not_fit_are_refused_by_their_header(source, tmp_path, monkeypatch):
    folder = shutil.copytree(source.folder, tmp_path / "run")
    changed_model(folder, capsule_dim=5)
    monkeypatch.setattr("hitnet.training.run_folder.read_tensors", lambda path: pytest.fail("the weights were read"))
    with pytest.raises(HitNetError, match=r"does not fit the network in config\.json"):
        hitnet.open_run(folder)


def test_images_of_any_size_are_not_tried(source, tmp_path, monkeypatch):
    """Weights of a backbone fit images of all sizes, so that only the configuration says how large they are."""
    folder = shutil.copytree(source.folder, tmp_path / "run")
    changed_model(folder, in_shape=[3, 5000, 32])
    with pytest.raises(HitNetError, match=r"sides of 1 to 4096; got \(3, 5000, 32\)"):
        hitnet.open_run(folder)
    tried = []
    monkeypatch.setattr(
        features.backbones, "count_features", lambda module, name, size, advice: tried.append(size) or 7
    )
    features.BackboneFeatures((3, 4096, 200), "efficientnet-lite0")
    assert tried == [(512, 200)]


def test_data_at_an_address_that_only_the_run_names_is_not_fetched(source):
    there = replace(source, config=replace(source.config, data={**source.config.data, "source": "https://x.invalid/d"}))
    there.config.data["in_memory"] = False
    with pytest.raises(HitNetError, match=r"https://x\.invalid/d is on another machine.* Name other data"):
        there.evaluate()
