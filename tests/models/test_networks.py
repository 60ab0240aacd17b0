"""Every network by name: sizes, shapes, what the decoder sees, starting weights and parameter counts."""

import pytest
import torch

import hitnet
from hitnet import HitNet, HitNetError, build
from hitnet.models import MODELS, ModelConfig, choose_model, default_name

SHAPES = [(1, 28, 28), (3, 32, 32), (3, 24, 40)]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_network_takes_any_shape_and_number_of_classes(name, shape):
    net = build(name, shape, 4, **({"capsule_dim": 6} if name == "hitnet-small" else {}))
    images = torch.rand(3, *shape)
    out = net(images, torch.tensor([0, 3, 1]))
    assert out.capsules.shape[:2] == (3, 4)
    assert out.distances.shape == (3, 4)
    assert out.prediction.shape == (3,)
    if name in ("n1", "dropconnect", "hitnet-pretrained"):
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


PAPER = convolutions(1) + (9216 * 160 + 160) + 2 * 160 + decoder(10, 16, 784)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hitnet", PAPER),
        ("hitnet-squash", PAPER),
        ("n2", PAPER),
        ("n2b", PAPER),
        ("n1", convolutions(1) + (9216 * 10 + 10) + 2 * 10),
        ("capsnet", convolutions(1) + 1152 * 8 * 10 * 16 + decoder(10, 16, 784)),
        ("dropconnect", (25 * 32 + 32) + (32 * 25 * 64 + 64) + (1024 * 150 + 150) + (150 * 10 + 10)),
    ],
)
def test_parameter_counts_are_those_of_the_description(name, expected):
    assert build(name, (1, 28, 28), 10).count_parameters() == expected


def test_winner_is_the_nearest_for_hitnet_and_the_farthest_for_the_centrifugal_networks():
    d = torch.tensor([[0.3, 0.1, 0.9]])
    for name in MODELS:
        expected = 1 if name.startswith("hitnet") else 2
        assert build(name, (1, 20, 20), 3).head.predict(d).item() == expected, name


def test_capsules_lie_where_each_head_says():
    images = torch.rand(16, 1, 20, 20)
    for name in ("hitnet", "n2b", "hitnet-small"):
        capsules = build(name, (1, 20, 20), 3)(images).capsules
        assert capsules.min() >= 0
        assert capsules.max() <= 1
    for name in ("n2", "hitnet-squash", "capsnet"):
        assert build(name, (1, 20, 20), 3)(images).distances.max() < 1
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
    [("hitnet", 17), ("capsnet", 17), ("dropconnect", 16), ("hitnet-small", 8), ("hitnet-resnet9", 8)],
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
    for name in MODELS:
        out = build(name, (1, 20, 20), 3)(torch.rand(1, 1, 20, 20), torch.tensor([1]))
        assert torch.isfinite(out.distances).all(), name


def test_names_and_shapes_are_checked():
    with pytest.raises(HitNetError, match="Did you mean 'hitnet-small'"):
        build("hitnet-smal", (1, 28, 28), 10)
    with pytest.raises(HitNetError, match="at least two classes"):
        build("hitnet", (1, 28, 28), 1)
    with pytest.raises(HitNetError, match=r"'capsule_dims'\. Did you mean 'capsule_dim'"):
        build("hitnet", (1, 28, 28), 10, capsule_dims=3)
    with pytest.raises(HitNetError, match=r"'capsule_dims'\. Did you mean 'capsule_dim'"):
        choose_model("hitnet", capsule_dims=None)
    with pytest.raises(HitNetError, match=r"\(B, 1, 28, 28\)"):
        HitNet((1, 28, 28), 10)(torch.rand(2, 3, 28, 28))
    with pytest.raises(HitNetError, match="floats"):
        HitNet((1, 28, 28), 10)(torch.zeros(2, 1, 28, 28, dtype=torch.uint8))
    with pytest.raises(HitNetError, match=r"images must be a tensor \(B, 1, 28, 28\); got list"):
        HitNet((1, 28, 28), 10)([0.5])
    with pytest.raises(HitNetError, match="takes grey or colour images; got 4 channels"):
        choose_model("hitnet-pretrained").config((4, 32, 32), 3)


@pytest.mark.parametrize("name", ["hitnet", "n2", "n2b", "hitnet-squash"])
def test_classes_may_share_the_statistics_of_batch_norm(name):
    torch.manual_seed(0)
    network = build(name, (1, 17, 17), 3, capsule_dim=4, decoder="none", shared_norm=True)
    head = network.head
    assert head.norm.num_features == 4
    assert (head.norm.eps, head.norm.momentum) == (1e-3, 0.01)
    features = torch.randn(5, head.linear.in_features)
    values = head.linear(features).view(5, 3, 4).double().detach()
    vectors = head.vectors(features)
    for i in range(4):  # n statistics, each over all images and classes
        mean = sum(float(v) for v in values[:, :, i].flatten()) / 15
        variance = sum((float(v) - mean) ** 2 for v in values[:, :, i].flatten()) / 15
        expected = (values[:, :, i] - mean) / (variance + 1e-3) ** 0.5
        assert torch.allclose(vectors[:, :, i].double(), expected, atol=1e-4)
    assert build(name, (1, 17, 17), 3, capsule_dim=4, decoder="none").head.norm.num_features == 12


def test_the_small_network_shares_them_on_colour_images():
    grey, colour = (1, 17, 17), (3, 17, 17)
    assert not choose_model("hitnet-small").config(grey, 3).shared_norm
    assert choose_model("hitnet-small").config(colour, 3).shared_norm
    assert not choose_model("hitnet-small", shared_norm=False).config(colour, 3).shared_norm
    assert choose_model("hitnet-small", shared_norm=True).config(grey, 3).shared_norm
    assert build("hitnet-small", colour, 3).head.norm.num_features == 16
    softmax = choose_model("hitnet-small", head="plain-softmax", decoder="none")
    assert not softmax.config(colour, 3).shared_norm  # this head has no batch-norm
    assert not choose_model("hitnet-resnet9").config(colour, 3).shared_norm


def test_heads_without_batch_norm_share_none():
    for name in ("capsnet", "dropconnect"):
        with pytest.raises(HitNetError, match="has no batch-norm"):
            build(name, (1, 28, 28), 10, shared_norm=True)


def test_config_round_trip():
    original = choose_model("hitnet-resnet9", capsule_dim=24).config((3, 32, 32), 7)
    assert ModelConfig.from_dict(original.to_dict()) == original
    with pytest.raises(HitNetError, match="no model option named 'colour'"):
        ModelConfig.from_dict({**original.to_dict(), "colour": 1})


def test_default_networks():
    assert default_name((3, 32, 32), "cpu") == "hitnet-small"
    assert default_name((3, 32, 32), "cuda") == "hitnet-resnet9"
    assert default_name((1, 28, 28), "cuda") == "hitnet-conv"


def test_squash_variant_is_centripetal_towards_the_origin():
    net = build("hitnet-squash", (1, 20, 20), 3)
    capsules = torch.zeros(1, 3, 16)
    capsules[0, 0, 0], capsules[0, 2, 0] = 0.95, 0.5
    assert net.head.distances(capsules)[0].tolist() == pytest.approx([0.95, 0, 0.5])
    assert net.head.predict(net.head.distances(capsules)).item() == 1
    assert net.head.loss == "centripetal"


def test_capsnet_groups_eight_channels_of_one_place():
    net = build("capsnet", (1, 20, 20), 3)
    images = torch.rand(2, 1, 20, 20)
    maps = net.features.conv2(torch.relu(net.features.conv1(images)))
    grouped = net.features(images).view(2, -1, 8)
    height, width = maps.shape[2:]
    for capsule, (kind, y, x) in {0: (0, 0, 0), width + 1: (0, 1, 1), 5 * height * width: (5, 0, 0)}.items():
        torch.testing.assert_close(grouped[:, capsule], maps[:, 8 * kind : 8 * kind + 8, y, x])


def test_routing_head_against_explicit_votes():
    torch.manual_seed(0)
    net = build("capsnet", (1, 17, 17), 3)
    features = torch.randn(2, 256)
    primary = hitnet.squash(features.view(2, 32, 8))
    votes = torch.zeros(2, 32, 3, 16)
    for i in range(32):
        for k in range(3):
            votes[:, i, k] = primary[:, i] @ net.head.weight[i, :, k]
    torch.testing.assert_close(net.head(features), hitnet.dynamic_routing(votes, 3), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["hitnet-small", "hitnet-conv", "capsnet", "dropconnect"])
def test_export_for_batches_of_any_size(name):
    network = hitnet.build(name, (1, 20, 20), 3).eval()
    images = torch.rand(7, 1, 20, 20)
    size = torch.export.Dim("batch", min=2)
    exported = torch.export.export(network, (images[:4],), dynamic_shapes={"images": {0: size}}).module()
    for exported_value, value in zip(exported(images)[:4], network(images)[:4], strict=True):
        assert (exported_value is None and value is None) or torch.allclose(exported_value, value, atol=1e-5)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["hitnet-small", "hitnet-resnet9", "hitnet-conv", "dropconnect"])
def test_networks_of_half_precision(name, half):
    torch.manual_seed(0)
    network, images = hitnet.build(name, (1, 20, 20), 3), torch.rand(8, 1, 20, 20)
    network(images)
    full_output = network.eval()(images)
    half_output = network.to(half)(images.to(half))
    assert half_output.distances.dtype == torch.float32
    assert half_output.reconstruction is None or half_output.reconstruction.dtype == torch.float32
    assert torch.allclose(half_output.distances, full_output.distances, atol=0.1)
