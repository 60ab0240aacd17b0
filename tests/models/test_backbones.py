"""Backbones: by name, by module, their settings, fingerprints and errors."""

import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from hitnet.errors import HitNetError
from hitnet.models.backbones import open_backbone
from hitnet.models.efficientnet_lite import WEIGHTS, cells


class Tiny(nn.Module):
    """Three features: the mean of each channel, through a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 5)

    def forward(self, images):
        return self.linear(images.mean(dim=(2, 3)))


def test_the_one_that_ships():
    backbone = open_backbone("efficientnet-lite0")
    assert (backbone.input_size, backbone.num_features, backbone.name) == (224, 3568, "efficientnet-lite0")
    assert not backbone.module.training
    assert open_backbone(backbone) is backbone
    assert open_backbone("efficientnet-lite0", WEIGHTS, input_size=160).fingerprint == backbone.fingerprint


def test_the_one_that_ships_sees_at_two_depths():
    module = open_backbone("efficientnet-lite0").module
    images = torch.randn(1, 3, 96, 64)  # last maps of three rows and two columns, those of the fifth stage of 6 x 4
    with torch.inference_mode():
        maps = list(module.maps(images))
        features = module(images)[0].double()
    last, middle = maps[-1][0].double().numpy(), maps[4][0].double().numpy()
    halves = np.concatenate([last[:, rows].mean(axis=(1, 2)) for rows in ([0, 1], [1, 2])])
    columns = ([0, 1], [1, 2], [2, 3])
    cells = np.concatenate([middle[:, 2 * i : 2 * i + 2][:, :, c].mean(axis=(1, 2)) for i in range(3) for c in columns])
    expected = np.concatenate([part / np.sqrt((part**2).mean()) for part in (halves, cells)])
    torch.testing.assert_close(features.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_cells_of_maps_smaller_than_the_grid():
    maps = torch.arange(4.0).view(1, 2, 1, 2)
    torch.testing.assert_close(cells(maps, 2, 1), torch.tensor([[0.5, 2.5, 0.5, 2.5]]))
    assert cells(maps, 3, 3).shape == (1, 18)
    torch.testing.assert_close(cells(maps, 1, 3)[0], torch.tensor([0.0, 2.0, 0.5, 2.5, 1.0, 3.0]))


def test_a_module_with_its_own_settings():
    backbone = open_backbone(Tiny(), input_size=32, mean=(0.1, 0.2, 0.3), std=(0.5, 1, 2))
    assert (backbone.name, backbone.num_features, backbone.input_size) == ("Tiny", 5, 32)
    pixels = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    expected = (pixels / 255 - torch.tensor([0.1, 0.2, 0.3]).view(3, 1, 1)) / torch.tensor([0.5, 1, 2]).view(3, 1, 1)
    torch.testing.assert_close(backbone.normalise(pixels), expected)
    grey = backbone.normalise(pixels[:, :1])
    torch.testing.assert_close(grey, backbone.normalise(pixels[:, :1].expand(-1, 3, -1, -1)))


def test_fingerprints_tell_weights_and_normalisation_apart():
    module = Tiny()
    first = open_backbone(module).fingerprint
    assert open_backbone(module).fingerprint == first
    assert open_backbone(module, std=(0.4, 0.5, 0.5)).fingerprint != first
    with torch.no_grad():
        module.linear.bias[0] += 1e-3
    assert open_backbone(module).fingerprint != first


def test_weights_from_a_file(tmp_path):
    module, file = Tiny(), tmp_path / "weights.safetensors"
    save_file(module.state_dict(), file)
    assert open_backbone(Tiny(), file).fingerprint == open_backbone(module).fingerprint
    save_file({"linear.weight": torch.zeros(5, 4), "more": torch.zeros(1)}, file)
    with pytest.raises(
        HitNetError, match=r"1 parameters are missing \(first: linear.bias\), 2 are unknown or of anoth"
    ):
        open_backbone(Tiny(), file)
    file.write_bytes(b"no tensors")
    with pytest.raises(HitNetError, match="readable safetensors file"):
        open_backbone(Tiny(), file)
    with pytest.raises(HitNetError, match="there is no file"):
        open_backbone(Tiny(), tmp_path / "gone")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("efficientnet-lite1", "Did you mean 'efficientnet-lite0'"),
        ("timm:", "There is no backbone named 'timm:'"),
        ("resnet18", "Known: efficientnet-lite0, timm:NAME"),
        ("torchvision:resnet18", "Known: efficientnet-lite0, timm:NAME"),
    ],
)
def test_unknown_names(name, said):
    with pytest.raises(HitNetError, match=said):
        open_backbone(name)


def test_modules_that_do_not_fit():
    with pytest.raises(HitNetError, match=r"gave \(1, 3, 224, 224\)"):
        open_backbone(nn.Identity())
    with pytest.raises(HitNetError, match=r"\(1, 3, 32, 32\).*`input_size`"):
        open_backbone(nn.Linear(5, 5), input_size=32)
    with pytest.raises(HitNetError, match="std must be above 0"):
        open_backbone(Tiny(), std=(0, 1, 1))
    with pytest.raises(HitNetError, match="mean must be three numbers"):
        open_backbone(Tiny(), mean=(0.5,))


def test_timm_by_name_with_a_file():
    pytest.importorskip("timm")
    theirs = open_backbone("timm:tf_efficientnet_lite0", WEIGHTS)
    ours = open_backbone("efficientnet-lite0")
    assert (theirs.mean, theirs.std, theirs.input_size) == (ours.mean, ours.std, ours.input_size)
    images = torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(theirs.module(images), ours.module.forward_features(images), rtol=0, atol=1e-4)
    with pytest.raises(HitNetError, match="timm cannot build 'resnet1'"):
        open_backbone("timm:resnet1")


def test_timm_loses_its_whole_head(tmp_path):
    timm = pytest.importorskip("timm")
    network, file = timm.create_model("levit_128s").eval(), tmp_path / "levit.safetensors"
    save_file(network.state_dict(), file)  # with batch-norm before the last layers, which are two
    backbone, images = open_backbone("timm:levit_128s", file), torch.rand(2, 3, 224, 224)
    with torch.inference_mode():
        torch.testing.assert_close(
            backbone.module(images), network.forward_head(network.forward_features(images), True)
        )


PUBLISHED = {  # names of today, and those under which EdgeNeXt was published
    r"^stem\.": "downsample_layers.0.",
    r"(stages\.\d+)\.blocks": r"\1",
    r"stages\.(\d+)\.downsample": r"downsample_layers.\1",
    "conv_dw": "dwconv",
    r"mlp\.fc": "pwconv",
    r"head\.norm": "norm",
    r"head\.fc": "head",
}


def test_timm_takes_files_with_the_names_of_the_first_publication(tmp_path):
    timm = pytest.importorskip("timm")
    network, state = timm.create_model("edgenext_xx_small").eval(), {}
    for name, value in network.state_dict().items():
        for today, then in PUBLISHED.items():
            name = re.sub(today, then, name)
        state[name] = value.contiguous()
    assert len(state.keys() - network.state_dict().keys()) > 100
    save_file(state, tmp_path / "published.safetensors")
    backbone = open_backbone("timm:edgenext_xx_small", tmp_path / "published.safetensors")
    images = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(network.head.fc(backbone.module(images)), network(images))
    del state["norm.weight"]
    save_file(state, tmp_path / "published.safetensors")
    with pytest.raises(HitNetError, match=r"1 .*head\.norm\.weight\), 0"):
        open_backbone("timm:edgenext_xx_small", tmp_path / "published.safetensors")
    save_file({"other": torch.zeros(2, 2)}, tmp_path / "published.safetensors")
    with pytest.raises(HitNetError, match=r"1 are unknown .*: other\)"):
        open_backbone("timm:edgenext_xx_small", tmp_path / "published.safetensors")


def test_offline_the_error_says_what_to_put_where(monkeypatch):
    pytest.importorskip("timm")
    hub = pytest.importorskip("huggingface_hub")

    def offline(*_):
        raise OSError("no network")

    monkeypatch.setattr(hub, "hf_hub_download", offline)
    with pytest.raises(HitNetError, match=r"timm/resnet18.*`weights`"):
        open_backbone("timm:resnet18")
