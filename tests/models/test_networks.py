"""Every network by name: sizes, shapes, what the decoder sees, starting weights and parameter counts."""

import pytest
import torch

import hitnet
from hitnet import HitNet, HitNetError
from hitnet.models import MODELS, ModelConfig, build, choose_model, default_name

SHAPES = [(1, 28, 28), (3, 32, 32), (3, 24, 40)]
OWN = ("hitnet", "n1", "hitnet-conv", "hitnet-small", "hitnet-resnet9", "hitnet-pretrained")


def test_hitnet_has_these_networks():
    assert set(OWN) <= set(MODELS)  # others may be registered


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_network_takes_any_shape_and_number_of_classes(name, shape):
    net = build(name, shape, 4, **({"capsule_dim": 6} if name == "hitnet-small" else {}))
    images = torch.rand(3, *shape)
    out = net(images, torch.tensor([0, 3, 1]))
    assert out.capsules.shape[:2] == (3, 4)
    assert out.distances.shape == (3, 4)
    assert out.prediction.shape == (3,)
    if name in ("n1", "hitnet-pretrained"):
        assert out.reconstruction is None
    else:
        assert out.reconstruction.shape == images.shape
        assert out.reconstruction.min() >= 0
        assert out.reconstruction.max() <= 1
    assert torch.isfinite(out.distances).all()


def convolutions(channels):
    return (channels * 81 * 256 + 256) + (256 * 81 * 256 + 256)


def decoder(classes, n, pixels):
    return (classes * n * 512 + 512) + (512 * 1024 + 1024) + (1024 * pixels + pixels)


PAPER = convolutions(1) + (9216 * 160 + 160) + decoder(10, 16, 784)  # without batch-norm


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("hitnet", {}, PAPER + 2 * 16),
        ("hitnet", {"norm": "each"}, PAPER + 2 * 160),
        ("hitnet", {"norm": "class"}, PAPER + 2 * 10),
        ("n1", {}, convolutions(1) + (9216 * 10 + 10) + 2 * 10),
    ],
)
def test_parameter_counts_are_those_of_the_description(name, changes, expected):
    assert build(name, (1, 28, 28), 10, **changes).count_parameters() == expected


def test_winner_is_the_nearest_for_hitnet_and_the_most_likely_for_softmax():
    d = torch.tensor([[0.3, 0.1, 0.9]])
    for name in OWN:
        expected = 1 if name.startswith("hitnet") else 2
        assert build(name, (1, 20, 20), 3).head.predict(d).item() == expected, name


def test_capsules_lie_where_each_head_says():
    images = torch.rand(16, 1, 20, 20)
    for name in ("hitnet", "hitnet-small"):
        capsules = build(name, (1, 20, 20), 3)(images).capsules
        assert capsules.min() >= 0
        assert capsules.max() <= 1
    probabilities = build("n1", (1, 20, 20), 3)(images).distances
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(16))


@pytest.mark.parametrize("name", ["hitnet", "hitnet-small"])
def test_decoder_sees_the_true_capsule_in_training_and_the_predicted_one_otherwise(name):
    torch.manual_seed(0)
    net = build(name, (1, 20, 20), 3)
    images = torch.rand(4, 1, 20, 20)
    targets = torch.tensor([0, 1, 2, 0])
    net(images, targets)  # one pass in training sets running statistics
    out = net(images, targets)
    torch.testing.assert_close(out.reconstruction, net.decoder(out.capsules, targets))
    net.eval()
    out = net(images, (net(images).prediction + 1) % 3)
    torch.testing.assert_close(out.reconstruction, net.decoder(out.capsules, out.prediction))


def test_gradient_of_the_reconstruction_reaches_the_true_capsule_alone():
    net = HitNet((1, 20, 20), 3)
    capsules = torch.rand(2, 3, 16, requires_grad=True)
    net.decoder(capsules, torch.tensor([1, 2])).sum().backward()
    reached = capsules.grad.abs().sum(dim=2) > 0
    assert reached.tolist() == [[False, True, False], [False, False, True]]


def test_hitnet_class_is_the_paper_network():
    net = HitNet((1, 28, 28), 10)
    assert net.config == choose_model("hitnet").config((1, 28, 28), 10)
    assert HitNet([1, 28, 28], 10, capsule_dim=8)(torch.rand(2, 1, 28, 28)).capsules.shape == (2, 10, 8)


def test_paper_networks_start_from_keras_defaults():
    net = HitNet((1, 28, 28), 10)
    bound = (6 / (81 * 256 + 81 * 256)) ** 0.5
    largest = net.features.conv2.weight.abs().max().item()
    assert 0.99 * bound < largest <= bound
    for name, p in net.named_parameters():
        if name.endswith("bias"):
            assert not p.any(), name


@pytest.mark.parametrize(
    ("name", "smallest"),
    [("hitnet", 17), ("hitnet-small", 8), ("hitnet-resnet9", 8)],
)
def test_smallest_images(name, smallest):
    build(name, (1, smallest, smallest), 2)(torch.rand(2, 1, smallest, smallest))
    with pytest.raises(HitNetError, match=f"smallest size is {smallest}x{smallest}"):
        build(name, (1, smallest - 1, 40), 2)


def test_small_network_pools_large_images():
    net = build("hitnet-small", (3, 96, 130), 5)
    assert net.features.num_features == 64 * 8 * 8
    assert net(torch.rand(2, 3, 96, 130)).distances.shape == (2, 5)


def test_a_batch_of_one_in_training():
    for name in OWN:
        out = build(name, (1, 20, 20), 3)(torch.rand(1, 1, 20, 20), torch.tensor([1]))
        assert torch.isfinite(out.distances).all(), name


def test_names_and_shapes_are_checked():
    with pytest.raises(HitNetError, match="Did you mean 'hitnet-small'"):
        build("hitnet-smal", (1, 28, 28), 10)
    with pytest.raises(HitNetError, match="at least two classes"):
        build("hitnet", (1, 28, 28), 1)
    with pytest.raises(HitNetError, match="Did you mean 'capsule_dim'"):
        build("hitnet", (1, 28, 28), 10, capsule_dims=3)
    with pytest.raises(HitNetError, match="Did you mean 'capsule_dim'"):
        choose_model("hitnet", capsule_dims=None)
    with pytest.raises(HitNetError, match=r"\(B, 1, 28, 28\)"):
        HitNet((1, 28, 28), 10)(torch.rand(2, 3, 28, 28))
    with pytest.raises(HitNetError, match="floats"):
        HitNet((1, 28, 28), 10)(torch.zeros(2, 1, 28, 28, dtype=torch.uint8))
    with pytest.raises(HitNetError, match=r"images .*28, 28\); got list"):
        HitNet((1, 28, 28), 10)([0.5])
    with pytest.raises(HitNetError, match="got 4 channels"):
        choose_model("hitnet-pretrained").config((4, 32, 32), 3)


def test_the_batch_norm_of_each_network():
    grey, colour = (1, 17, 17), (3, 17, 17)
    norms = {name: [choose_model(name).config(shape, 3).norm for shape in (grey, colour)] for name in OWN}
    assert norms == {
        "hitnet": ["shared", "shared"],  # as in the paper
        "n1": ["each", "each"],  # a vector of K numbers
        "hitnet-conv": ["each", "each"],
        "hitnet-small": ["each", "shared"],
        "hitnet-resnet9": ["each", "each"],
        "hitnet-pretrained": ["each", "each"],
    }
    assert choose_model("hitnet-small", norm="each").config(colour, 3).norm == "each"
    assert choose_model("hitnet-small", norm="class").config(grey, 3).norm == "class"
    assert build("hitnet-small", colour, 3).head.norm.num_features == 16
    assert build("hitnet", grey, 3, norm="class", decoder="none").head.norm.num_features == 3


def test_another_head_has_its_own_batch_norm():
    for name in ("hitnet-small", "hitnet"):
        assert choose_model(name, head="softmax", decoder="none").config((3, 17, 17), 3).norm == "each"
    with pytest.raises(HitNetError, match=r"norm: .*'softmax' .*'shared'"):
        build("n1", (1, 28, 28), 10, norm="shared")
    with pytest.raises(HitNetError, match=r"norm: .*; got 'none'"):
        build("hitnet", (1, 28, 28), 10, norm="none")


def test_config_round_trip():
    original = choose_model("hitnet-resnet9", capsule_dim=24).config((3, 32, 32), 7)
    assert ModelConfig.from_dict(original.to_dict()) == original
    with pytest.raises(HitNetError, match="no model option named 'colour'"):
        ModelConfig.from_dict({**original.to_dict(), "colour": 1})


def test_default_networks():
    assert default_name((3, 32, 32), "cpu") == "hitnet-small"
    assert default_name((3, 32, 32), "cuda") == "hitnet-resnet9"
    assert default_name((1, 28, 28), "cuda") == "hitnet-conv"


@pytest.mark.parametrize("name", ["hitnet-small", "hitnet-conv"])
def test_export_for_batches_of_any_size(name):
    network = hitnet.models.build(name, (1, 20, 20), 3).eval()
    images = torch.rand(7, 1, 20, 20)
    size = torch.export.Dim("batch", min=2)
    exported = torch.export.export(network, (images[:4],), dynamic_shapes={"images": {0: size}}).module()
    for exported_value, value in zip(exported(images)[:4], network(images)[:4], strict=True):
        assert (exported_value is None and value is None) or torch.allclose(exported_value, value, atol=1e-5)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["hitnet-small", "hitnet-resnet9", "hitnet-conv"])
def test_networks_of_half_precision(name, half):
    torch.manual_seed(0)
    network, images = hitnet.models.build(name, (1, 20, 20), 3), torch.rand(8, 1, 20, 20)
    network(images)
    full_output = network.eval()(images)
    half_output = network.to(half)(images.to(half))
    assert half_output.distances.dtype == torch.float32
    assert half_output.reconstruction is None or half_output.reconstruction.dtype == torch.float32
    assert torch.allclose(half_output.distances, full_output.distances, atol=0.1)
