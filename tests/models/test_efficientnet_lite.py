"""EfficientNet-Lite0: shapes, one block recomputed naively, weights and their checksum, fixed outputs."""

import hashlib
import json

import pytest
import torch
from safetensors import safe_open

from hitnet.errors import HitNetError
from hitnet.models import efficientnet_lite
from hitnet.models.efficientnet_lite import (
    STAGES,
    WEIGHTS,
    WEIGHTS_SHA256,
    EfficientNetLite0,
    InvertedResidual,
    SameConv,
    shipped_weights,
)

FIXED_CLASSES = [905, 905]
FIXED_LOGITS = [-0.9788, 4.796, 1.1078, -5.3945, -1.5596]


@pytest.fixture(scope="module")
def network():
    network = EfficientNetLite0(1000)
    network.load_state_dict(shipped_weights(classifier=True))
    return network.eval()


def fixed_images(side=64):
    return torch.sin(torch.arange(2 * 3 * side * side, dtype=torch.float64) * 0.01).view(2, 3, side, side).float()


def test_shapes(network):
    assert network.num_features == 1280
    with torch.inference_mode():
        features, logits = network.forward_features(fixed_images()), network(fixed_images())
    assert features.shape == (2, 1280)
    assert logits.shape == (2, 1000)
    assert features.min() >= 0
    assert features.max() <= 6
    assert sum(value.numel() for value in network.parameters()) == 4_652_008
    assert sum(count for count, *_ in STAGES) == 16


def test_odd_sizes_shrink_as_in_tensorflow():
    maps = EfficientNetLite0().conv_stem(torch.zeros(1, 3, 45, 60))
    assert maps.shape == (1, 32, 23, 30)


@pytest.mark.parametrize("side", [7, 8])
@pytest.mark.parametrize("kernel", [3, 5])
def test_strided_convolutions_pad_more_at_the_end(side, kernel):
    convolution = SameConv(1, 1, kernel, stride=2).double()
    image = torch.randn(1, 1, side, side, dtype=torch.float64)
    out = -(-side // 2)
    before = max((out - 1) * 2 + kernel - side, 0) // 2
    naive = torch.zeros(out, out, dtype=torch.float64)
    for i in range(out):
        for j in range(out):
            for a in range(kernel):
                for b in range(kernel):
                    y, x = 2 * i + a - before, 2 * j + b - before
                    if 0 <= y < side and 0 <= x < side:
                        naive[i, j] += convolution.weight[0, 0, a, b].detach() * image[0, 0, y, x]
    torch.testing.assert_close(convolution(image)[0, 0].detach(), naive)


def test_a_block_is_expansion_depthwise_convolution_and_projection():
    torch.manual_seed(0)
    block = InvertedResidual(2, 2, kernel=3, stride=1, expansion=3).double().eval()
    for norm in (block.bn1, block.bn2, block.bn3):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
        torch.nn.init.normal_(norm.weight)
        torch.nn.init.normal_(norm.bias)
    maps = torch.randn(1, 2, 4, 4, dtype=torch.float64)

    def normalised(values, norm):
        return (values - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias

    expanded = normalised(maps[0].permute(1, 2, 0) @ block.conv_pw.weight[:, :, 0, 0].T, block.bn1).clamp(0, 6)
    padded = torch.zeros(6, 6, 6, dtype=torch.float64)
    padded[1:5, 1:5] = expanded.detach()
    depthwise = torch.zeros(4, 4, 6, dtype=torch.float64)
    for i in range(4):
        for j in range(4):
            window = padded[i : i + 3, j : j + 3]
            depthwise[i, j] = (window * block.conv_dw.weight[:, 0].permute(1, 2, 0).detach()).sum(dim=(0, 1))
    depthwise = normalised(depthwise, block.bn2).clamp(0, 6)
    out = normalised(depthwise @ block.conv_pwl.weight[:, :, 0, 0].T, block.bn3) + maps[0].permute(1, 2, 0)
    torch.testing.assert_close(block(maps)[0].permute(1, 2, 0), out)


def test_fixed_outputs(network):
    with torch.inference_mode():
        logits = network(fixed_images())
    assert logits.argmax(dim=1).tolist() == FIXED_CLASSES
    torch.testing.assert_close(logits[0, :5], torch.tensor(FIXED_LOGITS), rtol=1e-3, atol=1e-3)


def test_weights_say_where_they_come_from():
    assert hashlib.sha256(WEIGHTS.read_bytes()).hexdigest() == WEIGHTS_SHA256
    assert WEIGHTS.stat().st_size < 10_000_000
    with safe_open(WEIGHTS, "pt") as file:
        provenance = json.loads(file.metadata()["provenance"])
    assert provenance["licence"] == "Apache-2.0"
    assert len(provenance["source_sha256"]) == 64
    assert "Apache" in WEIGHTS.with_name("NOTICE").read_text()


def test_damaged_weights_are_refused(tmp_path, monkeypatch):
    damaged = tmp_path / "weights.safetensors"
    content = bytearray(WEIGHTS.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    monkeypatch.setattr(efficientnet_lite, "WEIGHTS", damaged)
    with pytest.raises(HitNetError, match="damaged: its checksum"):
        shipped_weights()
    monkeypatch.setattr(efficientnet_lite, "WEIGHTS", tmp_path / "gone")
    with pytest.raises(HitNetError, match="cannot be read"):
        shipped_weights()


def test_the_network_can_be_trained():
    network = EfficientNetLite0(3).train()
    network(fixed_images(32)).sum().backward()
    assert all(value.grad is not None for value in network.parameters())


def test_timm_gives_the_same_logits(network):
    timm = pytest.importorskip("timm")
    theirs = timm.create_model("tf_efficientnet_lite0", pretrained=False).eval()
    theirs.load_state_dict(network.state_dict())
    with torch.inference_mode():
        for images in (fixed_images(), fixed_images(75)):
            torch.testing.assert_close(network(images), theirs(images), rtol=0, atol=1e-4)
