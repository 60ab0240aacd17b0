"""The networks of the comparison: squash, routing and margin loss in plain loops, sizes, and that all are trained."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

import hitnet
from hitnet import HitNetError, choose_model, choose_recipe
from hitnet.inference import open_onnx
from hitnet.models import build
from hitnet.training import Recipe, Run, RunConfig
from reproduction import dropconnect  # noqa: F401
from reproduction.networks import MarginLoss, dynamic_routing, margin_loss, squash
from toy import toy_images

NETWORKS = ("n2", "n2b", "hitnet-squash", "capsnet", "dropconnect")
NORMED = ("n2", "n2b", "hitnet-squash")


def naive_squash(vector):
    square = sum(v * v for v in vector)
    return [v * math.sqrt(square) / (1 + square) for v in vector]


def test_squash_against_a_loop():
    vectors = torch.randn(5, 3, 8, dtype=torch.float64)
    expected = torch.tensor([[naive_squash(v) for v in row] for row in vectors.tolist()], dtype=torch.float64)
    torch.testing.assert_close(squash(vectors), expected, rtol=1e-12, atol=1e-12)
    assert gradcheck(squash, (vectors[:2].clone().requires_grad_(),))
    zero = torch.zeros(1, 4, requires_grad=True)
    squash(zero).sum().backward()
    assert torch.isfinite(zero.grad).all()


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_squash_and_routing_are_float32_from_half_precision(half):
    votes = torch.randn(2, 6, 3, 4).to(half)
    for function in (squash, dynamic_routing):
        torch.testing.assert_close(function(votes), function(votes.float()))


def naive_routing(votes, iterations):
    """Procedure 1 of Sabour et al. for one image: votes [i][k][n]."""
    low, high, n = len(votes), len(votes[0]), len(votes[0][0])
    logits = [[0.0] * high for _ in range(low)]
    for r in range(iterations):
        couplings = []
        for row in logits:
            total = sum(math.exp(v) for v in row)
            couplings.append([math.exp(v) / total for v in row])
        capsules = []
        for k in range(high):
            s = [sum(couplings[i][k] * votes[i][k][c] for i in range(low)) for c in range(n)]
            capsules.append(naive_squash(s))
        if r < iterations - 1:
            for i in range(low):
                for k in range(high):
                    logits[i][k] += sum(a * b for a, b in zip(votes[i][k], capsules[k], strict=True))
    return capsules


@pytest.mark.parametrize("iterations", [1, 2, 3, 5])
def test_routing_against_a_loop(iterations):
    votes = torch.randn(2, 6, 3, 4, dtype=torch.float64)
    expected = torch.tensor([naive_routing(v, iterations) for v in votes.tolist()], dtype=torch.float64)
    torch.testing.assert_close(dynamic_routing(votes, iterations), expected, rtol=1e-10, atol=1e-10)
    assert torch.equal(dynamic_routing(votes), dynamic_routing(votes, iterations)) == (iterations == 3)


def test_routing_gradient_flows_through_the_last_sum():
    votes = torch.randn(2, 5, 3, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda v: dynamic_routing(v, 1), (votes,))
    before = dynamic_routing(votes.detach(), 1)
    couplings = (votes.detach() * before[:, None]).sum(dim=3).softmax(dim=2)  # constants of the second iteration
    (expected,) = torch.autograd.grad(squash((couplings[..., None] * votes).sum(dim=1)).sum(), votes)
    (gradient,) = torch.autograd.grad(dynamic_routing(votes, 2).sum(), votes)
    torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-10)
    with pytest.raises(HitNetError, match="at least 1"):
        dynamic_routing(votes, 0)


def test_votes_of_another_shape_are_refused():
    with pytest.raises(HitNetError, match=r"votes .*\(2, 3, 4\)"):
        dynamic_routing(torch.rand(2, 3, 4))


def naive_margin(v, truth, upper=0.9, lower=0.1, weight=0.5):
    terms = (
        max(0.0, upper - x) ** 2 if t else weight * max(0.0, x - lower) ** 2 for x, t in zip(v, truth, strict=True)
    )
    return sum(terms)


@pytest.mark.parametrize("options", [(), (0.8, 0.3, 0.7)])
def test_margin_loss_against_a_loop(options):
    v = torch.rand(16, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.arange(16) % 5
    expected = [
        naive_margin(r, t, *options)
        for r, t in zip(v.tolist(), (targets[:, None] == torch.arange(5)).tolist(), strict=True)
    ]
    losses = MarginLoss(*options, reduction="none")(v, targets)
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    assert gradcheck(lambda x: MarginLoss(*options)(x, targets), (v,))
    truth = targets[:, None] == torch.arange(5)
    assert torch.equal(margin_loss(v, truth), MarginLoss(reduction="none")(v, targets))


def test_reductions_that_there_are_not():
    with pytest.raises(HitNetError, match="MarginLoss: reduction"):
        MarginLoss(reduction="avg")


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 24, 40)])
def test_every_network_takes_any_shape_and_number_of_classes(name, shape):
    out = build(name, shape, 4)(torch.rand(3, *shape), torch.tensor([0, 3, 1]))
    assert out.capsules.shape[:2] == (3, 4)
    assert (out.reconstruction is None) == (name == "dropconnect")
    assert torch.isfinite(out.distances).all()
    alone = build(name, (1, 20, 20), 3)(torch.rand(1, 1, 20, 20), torch.tensor([1]))
    assert torch.isfinite(alone.distances).all()


CONVOLUTIONS = (81 * 256 + 256) + (256 * 81 * 256 + 256)
DECODER = (160 * 512 + 512) + (512 * 1024 + 1024) + (1024 * 784 + 784)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, CONVOLUTIONS + (9216 * 160 + 160) + 2 * 16 + DECODER) for name in NORMED),
        ("capsnet", CONVOLUTIONS + 1152 * 8 * 10 * 16 + DECODER),
        ("dropconnect", (25 * 32 + 32) + (32 * 25 * 64 + 64) + (1024 * 150 + 150) + (150 * 10 + 10)),
    ],
)
def test_parameter_counts_are_those_of_the_description(name, expected):
    assert build(name, (1, 28, 28), 10).count_parameters() == expected


def test_who_wins_and_where_capsules_lie():
    d, images = torch.tensor([[0.3, 0.1, 0.9]]), torch.rand(16, 1, 20, 20)
    for name in NETWORKS:
        network = build(name, (1, 20, 20), 3)
        assert network.head.predict(d).item() == (1 if name == "hitnet-squash" else 2), name
        output = network(images)
        if name == "n2b":
            assert 0 <= output.capsules.min() <= output.capsules.max() <= 1
        else:
            assert output.distances.max() < 1


@pytest.mark.parametrize("name", NORMED)
def test_batch_norm_is_shared_as_in_the_paper_or_another(name):
    counts = {
        norm: build(name, (1, 17, 17), 3, capsule_dim=4, decoder="none", norm=norm).head.norm.num_features
        for norm in (None, "each", "class")
    }
    assert counts == {None: 4, "each": 12, "class": 3}


def test_heads_without_batch_norm_have_no_choice_of_one():
    for name in ("capsnet", "dropconnect"):
        with pytest.raises(HitNetError, match="norm: the head"):
            build(name, (1, 28, 28), 10, norm="shared")
    assert choose_model("hitnet-small", head="plain-softmax", decoder="none").config((3, 17, 17), 3).norm is None


@pytest.mark.parametrize(("name", "smallest"), [("capsnet", 17), ("dropconnect", 16)])
def test_smallest_images(name, smallest):
    build(name, (1, smallest, smallest), 2)(torch.rand(2, 1, smallest, smallest))
    with pytest.raises(HitNetError, match=f"smallest size is {smallest}x{smallest}"):
        build(name, (1, smallest - 1, 40), 2)


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
    primary = squash(features.view(2, 32, 8))
    votes = torch.zeros(2, 32, 3, 16)
    for i in range(32):
        for k in range(3):
            votes[:, i, k] = primary[:, i] @ net.head.weight[i, :, k]
    torch.testing.assert_close(net.head(features), dynamic_routing(votes, 3), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_is_trained(name):
    images = toy_images(6, shape=(1, 18, 18))
    run = hitnet.train(images, model=name, recipe=choose_recipe(epochs=1, batch_size=5), device="cpu")
    row = run.history[0]
    assert 0 < row["loss"] < 20
    assert ("train_hits" in row) == (name == "hitnet-squash")
    assert (row["reconstruction"] > 0) == (name != "dropconnect")


@pytest.mark.parametrize("capsule_dim", [1, 3])
def test_squashed_capsules_of_few_components_can_miss(capsule_dim):
    """They fill the unit ball, whatever their number of components; those of HitNet fill a cube."""
    squashed = choose_model("hitnet-squash", features="small", decoder="none", capsule_dim=capsule_dim)
    run = hitnet.train(toy_images(12), model=squashed, recipe=choose_recipe(epochs=1), device="cpu")
    assert run.model(torch.rand(2, 1, 12, 12)).capsules.shape == (2, 3, capsule_dim)


def test_masks_of_dropconnect_are_the_same_side_by_side():
    images = toy_images(48, shape=(1, 16, 16))
    options = {"model": "dropconnect", "recipe": choose_recipe(epochs=2, batch_size=20), "device": "cpu"}
    for run in hitnet.train_many(images, seeds=[4, 9], **options):
        alone = hitnet.train(images, seed=run.config.seed, **options).model.state_dict()
        assert all(torch.equal(value, alone[name]) for name, value in run.model.state_dict().items())


@pytest.mark.gpu
def test_masks_on_a_gpu_are_drawn_outside_the_captured_steps(caplog):
    images = toy_images(48, shape=(1, 16, 16))
    options = {"model": "dropconnect", "recipe": choose_recipe(epochs=3, batch_size=20), "device": "cuda"}
    for run in hitnet.train_many(images, seeds=[4, 9, 2], **options):
        alone = hitnet.train(images, seed=run.config.seed, **options).model.state_dict()
        assert all(torch.equal(value, alone[name]) for name, value in run.model.state_dict().items())
    assert "could not be captured" not in caplog.text


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_dropconnect_in_half_precision(half):
    torch.manual_seed(0)
    network, images = build("dropconnect", (1, 20, 20), 3), torch.rand(8, 1, 20, 20)
    full_output = network.eval()(images)
    half_output = network.to(half)(images.to(half))
    assert half_output.distances.dtype == torch.float32
    assert torch.allclose(half_output.distances, full_output.distances, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["capsnet", "dropconnect"])
def test_export_for_batches_of_any_size(name, tmp_path):
    config = choose_model(name, decoder="none").config((1, 20, 20), 4)
    torch.manual_seed(0)
    network = hitnet.Network(config).eval()
    if name == "capsnet":  # its capsules would be so short that rounding hides an error
        network.head.weight.data.mul_(100)
    images = torch.rand(7, 1, 20, 20)
    size = torch.export.Dim("batch", min=2)
    exported = torch.export.export(network, (images[:4],), dynamic_shapes={"images": {0: size}}).module()
    torch.testing.assert_close(exported(images).distances, network(images).distances, rtol=1e-4, atol=1e-5)
    data = {"source": "x", "name": "toy", "images": 8, "class_names": list("abcd")}
    run = Run(network, RunConfig(name, config, Recipe(), 0, data), [])
    onnx = open_onnx(run.export(tmp_path / "network.onnx"))
    pixels = torch.randint(0, 256, (9, 1, 20, 20), dtype=torch.uint8)
    expected = network(pixels / 255).distances.detach().numpy()
    assert np.ptp(expected) > 1e-3  # distances that are all the same would show nothing
    for batch in (1, 9):
        np.testing.assert_allclose(onnx.distances(pixels.numpy()[:batch]), expected[:batch], atol=1e-4)
