"""Runs on the Hugging Face Hub, without a network: what is written, uploaded and opened again."""

import json
import sys

import huggingface_hub
import pytest
import torch

import hitnet
from hitnet import Run, choose_model
from hitnet.errors import HitNetError
from hitnet.training import Recipe, RunConfig
from hitnet.training.run_folder import Calibration
from toy import toy_images

SECRET = "/home/someone/secret"
CALIBRATION = Calibration(0.25, [0.1, 0.2])


@pytest.fixture
def run():
    """A run that was trained with files of this machine."""
    config = choose_model("hitnet-small", decoder="none").config((1, 12, 12), 3)
    torch.manual_seed(0)
    network = hitnet.Network(config).eval()
    data = {
        "source": f"{SECRET}/bands.npz",
        "in_memory": False,
        "name": "bands",
        "images": 1234,
        "test_images": 300,
        "class_names": ["band 0", "band 1", "band 2"],
        "flip": False,
        "fingerprint": "def",
        "limit": None,
        "data_dir": SECRET,
    }
    history = [{"epoch": 1, "test_error": 0.015, "seconds": 1.0}]
    origin = {"run": f"{SECRET}/teacher", "weights": "abc"}
    return Run(network, RunConfig("hitnet-small", config, Recipe(), 7, data, origin), history, calibration=CALIBRATION)


def test_a_saved_run_is_opened_again(run, tmp_path):
    folder = run.save_pretrained(tmp_path / "bands", license="mit")
    opened = Run.from_pretrained(folder)
    images = toy_images(4).pixels / 255
    assert torch.equal(opened.model(images).distances, run.model(images).distances)
    assert (opened.class_names, opened.history, opened.config.seed) == (run.class_names, run.history, 7)
    assert opened.calibration == CALIBRATION
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "calibration.json",
        "config.json",
        "history.json",
        "weights.safetensors",
    ]


def test_nothing_tells_of_this_machine(run, tmp_path):
    folder = run.save_pretrained(tmp_path / "bands")
    for path in folder.iterdir():
        assert SECRET.encode() not in path.read_bytes(), path
    assert json.loads((folder / "config.json").read_text())["data"]["source"] == "bands"


def test_a_saved_run_on_a_known_set_finds_it_again(tmp_path):
    data = hitnet.open_data("mnist-sample", limit=20)
    run = hitnet.train(data, model="hitnet-small", recipe=hitnet.choose_recipe(epochs=1), device="cpu")
    assert hitnet.evaluate(run.save_pretrained(tmp_path / "digits"), device="cpu").images == 2000


def test_the_card_states_data_error_runs_and_licence(run, tmp_path):
    card = huggingface_hub.ModelCard.load(run.save_pretrained(tmp_path / "bands", license="mit") / "README.md")
    assert card.data.license == "mit"
    assert card.data.library_name == "hitnet"
    assert card.data.pipeline_tag == "image-classification"
    (result,) = card.data.eval_results
    assert (result.metric_type, result.metric_value, result.dataset_name) == ("accuracy", 0.985, "bands")
    for words in (
        "**Data:** bands, 1,234 images to train on",
        "**Error:** 1.50 % on 300 test images",
        "one run (seed 7, 1 epochs)",
        "**Licence:** mit",
        "band 0, band 1, band 2",
    ):
        assert words in card.text


def test_a_card_without_test_images_or_licence_says_so(run, tmp_path):
    bare = Run(run.model, run.config, [{"epoch": 1, "seconds": 1.0}])
    text = (bare.save_pretrained(tmp_path / "bands") / "README.md").read_text()
    assert "**Error:** not measured" in text
    assert "**Licence:** not stated" in text
    assert "model-index" not in text


def test_the_card_names_the_licence_of_a_known_set(run, tmp_path):
    run.config.data["name"] = "mnist"
    assert (
        "**Data:** mnist, 1,234 images to train on (licence: "
        in (run.save_pretrained(tmp_path / "x") / "README.md").read_text()
    )


def test_a_folder_in_use_is_not_overwritten(run, tmp_path):
    run.save_pretrained(tmp_path / "bands")
    with pytest.raises(HitNetError, match="not an empty folder"):
        run.save_pretrained(tmp_path / "bands")


def test_an_upload_holds_the_same_files(run, monkeypatch):
    uploads = {}

    def create_repo(self, repo_id, *, private, exist_ok):
        assert (private, exist_ok) == (True, True)
        return huggingface_hub.RepoUrl(f"https://huggingface.co/{repo_id}")

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        uploads[repo_id] = {path.name: path.read_bytes() for path in folder_path.iterdir()}

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", create_repo)
    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", upload_folder)
    address = run.push_to_hub("someone/bands", license="mit", private=True)
    assert address == "https://huggingface.co/someone/bands"
    written = {"README.md", "calibration.json", "config.json", "history.json", "weights.safetensors"}
    assert set(uploads["someone/bands"]) == written
    assert b'from_pretrained("someone/bands")' in uploads["someone/bands"]["README.md"]


def test_a_download_is_opened(run, tmp_path):
    """The Hub's own code finds the files in its cache, laid out as it does itself."""
    repository, commit = tmp_path / "cache" / "models--someone--bands", "0" * 40
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    run.save_pretrained(repository / "snapshots" / commit)
    opened = Run.from_pretrained("someone/bands", cache_dir=tmp_path / "cache", local_files_only=True)
    assert opened.class_names == run.class_names
    with pytest.raises(HitNetError, match="other/bands is not a local"):
        Run.from_pretrained("other/bands", cache_dir=tmp_path / "cache", local_files_only=True)


def test_a_missing_package_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(HitNetError, match="pip install huggingface_hub"):
        run.save_pretrained(tmp_path / "bands")
    assert not list(tmp_path.iterdir())


def test_a_run_without_history_is_saved(run, tmp_path):
    run.history.clear()
    assert Run.from_pretrained(run.save_pretrained(tmp_path / "bands")).history == []
