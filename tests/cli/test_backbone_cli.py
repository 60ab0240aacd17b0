"""`hitnet train`, `evaluate`, `predict` and `audit` with a pretrained backbone."""

import json
import sys
from types import SimpleNamespace

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import hitnet
from hitnet.models import backbones
from toy import TinyBackbone, colour_images, write_images

pytestmark = pytest.mark.usefixtures("quick_heads")

NEEDS_TIMM = "Error: A backbone of timm needs timm: pip install timm.\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working folder with 24 x 24 photographs of three colours, and a backbone timm:tiny with a file of weights."""
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "photos", colour_images(48, side=24))
    torch.manual_seed(0)
    save_file(TinyBackbone().state_dict(), tmp_path / "w.safetensors")
    return tmp_path


@pytest.fixture
def timm(monkeypatch):
    """timm:tiny can be built, but the hub cannot be reached."""

    def architecture(name):
        module = TinyBackbone()
        module.pretrained_cfg = {"hf_hub_id": f"timm/{name}", "classifier": "fc"}
        return module, backbones.Settings(32, (0.5,) * 3, (0.5,) * 3)

    def offline(*_):
        raise ConnectionError("no network")

    monkeypatch.setattr(backbones, "_timm_architecture", architecture)
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(hf_hub_download=offline))


TINY = ("--backbone", "timm:tiny", "--weights", "w.safetensors", "--device", "cpu")


def test_train_evaluate_and_predict(command, here, timm, monkeypatch):
    trained = command("train", "photos", *TINY, "--epochs", 25, "--backbone-rate", 1, "--out", "run")
    assert (trained.code, trained.err) == (0, "")
    assert trained.out.startswith("hitnet-pretrained on photos: 25 epochs of 39 images in ")
    config = hitnet.open_run("run").config
    assert (config.model_name, config.model.features) == ("hitnet-pretrained", "timm:tiny")
    assert config.model.weights == "w.safetensors"
    assert (config.model.in_shape, config.recipe.backbone_rate) == ((3, 224, 224), 1)
    (here / "w.safetensors").unlink()  # the run has its own
    figures = json.loads(command("evaluate", "run", "--split", "all", "--device", "cpu", "--json").out)
    assert figures["images"] == 48
    assert figures["error"] < 0.1
    pictures = [f"photos/{name}/{i:03}.png" for i, name in enumerate(("red", "green", "blue"))]
    predictions = json.loads(command("predict", "run", *pictures, "--device", "cpu", "--json").out)
    assert [row["label"] for row in predictions] == ["red", "green", "blue"]
    Image.new("L", (100, 80), 255).save("grey.png")  # grey, and of another size
    ended = command("predict", "run", "grey.png", "--device", "cpu")
    assert (ended.code, ended.err) == (0, "")
    said = torch.tensor([[1.2, 0.95, 1.9]]), torch.tensor([1.0])
    monkeypatch.setattr("hitnet.training.runs.distances_and_misfits", lambda *_: said)
    ended = command("predict", "run", "grey.png", "--device", "cpu")
    assert ended.out.splitlines()[1].split() == ["grey.png", "none", "0.950", "miss", "blue", "1.200"]


def test_the_default_folder_and_resume(command, here, timm):
    call = ("train", "photos", *TINY, "--epochs", 1, "--backbone-rate", 0.5)
    ended = command(*call)
    assert ended.out.splitlines()[-1] == "run folder: runs/photos-hitnet-pretrained-fast-0"
    assert command(*call, "--resume").code == 0
    other = command(*call[:-2], "--resume", "--backbone-rate", 1)
    assert other.code == 1
    assert "recipe.backbone_rate was 0.5" in other.err


def test_a_frozen_backbone(command, here, timm):
    assert command("train", "photos", *TINY, "--epochs", 1, "--backbone-rate", 0, "--out", "run").code == 0
    kept = hitnet.open_run("run").model.features.module
    torch.manual_seed(0)
    assert torch.equal(kept.conv.weight, TinyBackbone().conv.weight)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--backbone", "timm:tiny", "--model", "hitnet-small"),
            "--backbone is for hitnet-pretrained, not for hitnet-small. Leave out --model.",
        ),
        (("--weights", "w.safetensors"), "--weights are for a pretrained backbone, not for features 'small'."),
        (("--backbone", "tiny"), "There is no"),
        (("--backbone", "timm:tiny", "--weights", "gone.safetensors"), "there is no file gone.safetensors."),
        ((*TINY[:4], "--backbone-rate", -1), "backbone_rate must be finite and not negative; got -1"),
    ],
)
def test_options_that_do_not_fit(command, here, timm, options, said):
    ended = command("train", "photos", "--device", "cpu", "--out", "run", *options)
    assert ended.code == 1
    assert said in ended.err
    assert not (here / "run").exists()


@pytest.mark.parametrize("call", [("train",), ("audit", "--judges", "features"), ("audit", "--judges", "fine-tuned")])
def test_without_timm(command, here, monkeypatch, call):
    monkeypatch.setitem(sys.modules, "timm", None)  # importing it fails
    options = ("--backbone", "timm:tiny", "--device", "cpu", "--out", "out")
    ended = command(call[0], "photos", *call[1:], *options)
    assert (ended.code, ended.err) == (1, NEEDS_TIMM)


@pytest.mark.parametrize(
    "call",
    [
        ("train", "--epochs", 1),
        ("audit", "--judges", "features"),
        ("audit", "--judges", "fine-tuned", "--networks", 2, "--epochs", 1),
    ],
)
def test_offline_the_error_says_what_to_put_where(command, here, timm, call):
    options = ("--backbone", "timm:tiny", "--device", "cpu", "--out", "out")
    ended = command(call[0], "photos", *call[1:], *options)
    assert ended.code == 1
    assert ended.err == (
        "Error: The weights of the backbone timm:tiny are not in the Hugging Face cache and cannot be downloaded "
        "(ConnectionError). On a machine with a network, download "
        "https://huggingface.co/timm/tiny/resolve/main/model.safetensors, copy it here and give its path as "
        "--weights.\n"
    )
    again = command(call[0], "photos", *call[1:], *options, "--weights", "w.safetensors")  # nothing stands in the way
    assert (again.code, again.err) == (0, "")


def test_audit_with_a_backbone(command, here, timm):
    (here / "photos" / "red" / "000.png").rename(here / "photos" / "blue" / "000.png")
    ended = command("audit", "photos", *TINY, "--out", "out")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("photos: 48 labels judged by 4 judges (heads and neighbours on timm:tiny) in ")
    rows = [line.split() for line in ended.out.splitlines()]
    first = rows.index(["id", "path", "given", "suggested", "score", "votes", "flag"]) + 1
    assert rows[first][:4] == ["0", "blue/000.png", "blue", "red"]
    assert (here / "out" / "duplicates.csv").is_file()
