"""Exported networks: ONNX Runtime gives the distances and pictures of PyTorch, for any batch size."""

import dataclasses
import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import hitnet
from hitnet.errors import HitNetError
from hitnet.inference import onnx_export, open_onnx
from hitnet.inference.onnx_file import ENTRY
from hitnet.models import backbones, choose_model, features
from hitnet.models.network import class_distances
from hitnet.training import Recipe, Run, RunConfig

CLASSES = 4


def new_run(name, shape, *, pretrained=False, **changes):
    """A run whose network has random weights, or random statistics on published weights."""
    config = choose_model(name, **changes).config(shape, CLASSES)
    torch.manual_seed(0)
    network = hitnet.Network(config)
    if pretrained:
        network.load_pretrained()
    network.train()
    with torch.no_grad():  # statistics of batch-norm that are not those of the start
        network(torch.rand(8, *shape), reconstruct=True)
    data = {"source": "x", "name": "toy", "images": 8, "class_names": [f"class {k}" for k in range(CLASSES)]}
    return Run(network.eval(), RunConfig(name, config, Recipe(), 0, data), [])


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("hitnet-small", (1, 28, 28), {"decoder": "none"}),
        (
            "hitnet-small",
            (3, 100, 75),
            {"decoder": "none"},
        ),  # maps of 13 x 10 are averaged to 8 x 8, which ONNX's pooling cannot do
        ("hitnet", (1, 28, 28), {"decoder": "none"}),
        ("n1", (1, 20, 20), {}),
        ("hitnet-resnet9", (3, 16, 16), {"decoder": "none"}),
        ("hitnet-small", (1, 20, 20), {"decoder": "none", "norm": "class"}),
        ("hitnet-pretrained", (3, 64, 48), {"pretrained": True}),
    ],
)
def test_onnx_runtime_gives_the_distances_of_pytorch(tmp_path, name, shape, options):
    run = new_run(name, shape, **options)
    network = open_onnx(run.export(tmp_path / "network.onnx"))
    pixels = torch.randint(0, 256, (9, *shape), dtype=torch.uint8)
    expected = class_distances(run.model, pixels).numpy()
    assert np.ptp(expected) > 1e-3  # distances that are all the same would show nothing
    for batch in (1, 2, 9):
        np.testing.assert_allclose(network.distances(pixels.numpy()[:batch]), expected[:batch], atol=1e-4)


class Attention(torch.nn.Module):
    """The rows of an image attend to each other, as in torchvision's transformers."""

    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(32, 2, batch_first=True)

    def forward(self, images):
        rows = images.mean(dim=1)
        return self.attention(rows, rows, rows, need_weights=False)[0].mean(dim=1)


def test_attention_is_exported(tmp_path, monkeypatch):
    settings = backbones.Settings(32, (0.5,) * 3, (0.5,) * 3)
    monkeypatch.setattr(backbones, "architecture", lambda _: (Attention(), settings))
    monkeypatch.setattr(features, "SMALL", 0)  # images stay as they are
    run = new_run("hitnet-pretrained", (3, 32, 32), features="timm:attention")
    network = open_onnx(run.export(tmp_path / "network.onnx"))
    pixels = torch.randint(0, 256, (3, 3, 32, 32), dtype=torch.uint8)
    expected = class_distances(run.model, pixels).numpy()
    np.testing.assert_allclose(network.distances(pixels.numpy()), expected, rtol=0, atol=1e-4)
    assert torch.backends.mha.get_fastpath_enabled()


def test_capsules_and_extra_components_come_too(tmp_path):
    run = new_run("hitnet-small", (1, 18, 14), extra_dim=3)
    session = onnxruntime.InferenceSession(run.export(tmp_path / "network.onnx"))
    pixels = torch.randint(0, 256, (2, 1, 18, 14), dtype=torch.uint8)
    distances, capsules, extra, misfit = session.run(None, {"images": pixels.numpy()})
    expected = run.model(pixels / 255)
    np.testing.assert_allclose(distances, expected.distances.detach(), atol=1e-4)
    np.testing.assert_allclose(capsules, expected.capsules.detach(), atol=1e-4)
    np.testing.assert_allclose(extra, expected.extra.detach(), atol=1e-4)
    np.testing.assert_allclose(misfit, hitnet.misfit(expected.distances.detach()), atol=1e-4)


def test_the_file_says_what_a_prediction_needs(tmp_path):
    model = onnx.load(new_run("hitnet-small", (3, 18, 14)).export(tmp_path / "network.onnx"))
    about = json.loads({entry.key: entry.value for entry in model.metadata_props}[ENTRY])
    assert about["in_shape"] == [3, 18, 14]
    assert about["class_names"] == ["class 0", "class 1", "class 2", "class 3"]
    assert (about["radii"], about["nearest_wins"]) == ([0.1, 0.9], True)
    assert about["largest_misfit"] is None
    assert about["crop"] is False
    assert model.producer_name == "hitnet"
    onnx.checker.check_model(model)


def test_the_run_stays_as_it_is(tmp_path):
    run = new_run("hitnet-small", (3, 100, 75), decoder="none")
    layers = [type(layer) for layer in run.model.modules()]
    run.model.train()
    run.export(tmp_path / "network.onnx")
    assert run.model.training
    assert [type(layer) for layer in run.model.modules()] == layers


def test_a_file_of_another_name_is_refused(tmp_path):
    with pytest.raises(HitNetError, match=r"ends in \.onnx"):
        new_run("hitnet-small", (1, 12, 12)).export(tmp_path / "network.pb")
    assert not list(tmp_path.iterdir())


def test_a_network_that_onnx_runtime_computes_otherwise_is_refused(tmp_path, monkeypatch):
    def shifted(self, features):
        """Traced with a batch of two, the shift is a constant."""
        return torch.sigmoid(self.vectors(features)) + 0.01 * int(features.shape[0])

    monkeypatch.setattr("hitnet.capsules.HitOrMiss.forward", shifted)
    with pytest.raises(HitNetError, match="ONNX Runtime computes other"):
        new_run("hitnet-small", (1, 12, 12)).export(tmp_path / "network.onnx")
    assert not list(tmp_path.iterdir())


def test_an_operator_that_onnx_lacks_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hitnet.capsules.HitOrMiss.forward", lambda self, x: torch.special.i1(self.vectors(x)))
    with pytest.raises(HitNetError, match=r"PyTorch cannot .*special_i1"):
        new_run("hitnet-small", (1, 12, 12)).export(tmp_path / "network.onnx")
    assert capsys.readouterr().out == ""


def test_networks_without_radii_never_answer_none(tmp_path):
    network = open_onnx(new_run("n1", (1, 20, 20)).export(tmp_path / "network.onnx"))
    assert (network.about.radii, network.about.nearest_wins) == (None, False)
    assert dataclasses.asdict(network.about.predict("x", np.array([0.1, 0.6, 0.2, 0.1]), None))["label"] == "class 1"


def test_values_are_compared_by_their_size():
    """The misfit is a sum over all classes: of thousands, rounding alone is above 1e-4."""

    class Rounded:
        def __init__(self, error):
            self.error = error

        def InferenceSession(self, content, **options):
            return self

        def run(self, outputs, given):
            return [value.numpy() * (1 + self.error) for value in Sums()(torch.from_numpy(given["images"]))]

    class Sums(torch.nn.Module):
        outputs = ("misfit",)

        def forward(self, images):
            return (2000 + images,)

        def examples(self, count):
            return torch.rand(count, 3)

    onnx_export.check_same_values(Sums(), b"", Rounded(3e-7))
    with pytest.raises(HitNetError, match="computes other values"):
        onnx_export.check_same_values(Sums(), b"", Rounded(1e-4))
