"""The Hit-or-Miss layer with each kind of batch-norm, and distances, against plain loops in float64."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

import hitnet
from hitnet import CentripetalLoss, HitNetError, HitOrMiss, distances
from hitnet.capsules import NORMS, CapsuleNorm, hits_and_misses, mask, one_hot, track_statistics


def naive_distances(capsules, centre):
    return [[math.sqrt(sum((v - centre) ** 2 for v in capsule)) for capsule in image] for image in capsules.tolist()]


@pytest.mark.parametrize("n", [1, 2, 5, 16, 32])
@pytest.mark.parametrize("centre", [0.0, 0.5])
def test_distances_are_euclidean(n, centre):
    capsules = torch.rand(4, 3, n, dtype=torch.float64)
    expected = torch.tensor(naive_distances(capsules, centre), dtype=torch.float64)
    torch.testing.assert_close(distances(capsules, centre), expected, rtol=1e-12, atol=1e-12)


def test_distances_reach_from_zero_to_half_root_n():
    corners = torch.tensor([0.0, 1.0]).repeat(8)[None, None]
    assert distances(corners).item() == pytest.approx(math.sqrt(16) / 2)
    assert distances(torch.full((1, 1, 16), 0.5)).item() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_gradient_is_finite_at_the_exact_centre(dtype):
    capsules = torch.full((2, 3, 16), 0.5, dtype=dtype, requires_grad=True)
    distances(capsules).sum().backward()
    assert torch.equal(capsules.grad, torch.zeros_like(capsules.grad))


def test_distances_gradcheck():
    capsules = torch.rand(3, 4, 6, dtype=torch.float64, requires_grad=True)
    assert gradcheck(distances, (capsules,))


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_distances_are_float32_from_half_precision(half):
    capsules = torch.rand(5, 3, 16).to(half)
    assert distances(capsules).dtype == torch.float32
    torch.testing.assert_close(distances(capsules), distances(capsules.double()).float(), rtol=1e-6, atol=1e-6)


def test_layer_under_autocast_keeps_capsules_and_distances_in_float32():
    layer = HitOrMiss(20, 3).eval()
    x = torch.randn(8, 20)
    with torch.autocast("cpu", torch.bfloat16):
        capsules = layer(x)
        autocast_distances = distances(capsules)
    assert capsules.dtype == autocast_distances.dtype == torch.float32
    torch.testing.assert_close(autocast_distances, distances(layer(x)), rtol=0.05, atol=0.05)


def test_distances_refuses_a_wrong_shape():
    with pytest.raises(HitNetError, match=r"\(B, K, n\)"):
        distances(torch.rand(3, 16))


def naive_layer(layer, x, norm):
    """linear → batch-norm with the batch's own statistics → sigmoid, one number at a time: [image][class][n]."""
    w, b = layer.linear.weight.tolist(), layer.linear.bias.tolist()
    gamma, beta = layer.norm.weight.tolist(), layer.norm.bias.tolist()
    n = layer.capsule_dim
    rows = [
        [sum(wi * xi for wi, xi in zip(wr, row, strict=True)) + br for wr, br in zip(w, b, strict=True)] for row in x
    ]
    # Which statistic number j of an image, component j % n of class j // n, belongs to.
    group = {"each": lambda j: j, "shared": lambda j: j % n, "class": lambda j: j // n}[norm]
    out = [[[0.0] * n for _ in range(layer.num_classes)] for _ in rows]
    for g in range(len(gamma)):
        values = [row[j] for row in rows for j in range(len(b)) if group(j) == g]
        mean = sum(values) / len(values)
        var = sum((v - mean) ** 2 for v in values) / len(values)
        for i, row in enumerate(rows):
            for j, v in enumerate(row):
                if group(j) == g:
                    normalised = (v - mean) / math.sqrt(var + 1e-3) * gamma[g] + beta[g]
                    out[i][j // n][j % n] = 1 / (1 + math.exp(-normalised))
    return out


@pytest.mark.parametrize(("norm", "statistics"), [("shared", 4), ("each", 12), ("class", 3)])
def test_layer_is_linear_batchnorm_sigmoid(norm, statistics):
    torch.manual_seed(0)
    layer = HitOrMiss(7, 3, capsule_dim=4, norm=norm).double()
    assert layer.norm.num_features == statistics
    torch.nn.init.normal_(layer.norm.weight)
    torch.nn.init.normal_(layer.norm.bias)
    x = torch.randn(6, 7, dtype=torch.float64)
    expected = torch.tensor(naive_layer(layer, x.tolist(), norm), dtype=torch.float64)
    torch.testing.assert_close(layer(x), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("norm", NORMS)
def test_the_running_statistics_of_one_batch_are_its_own(norm):
    layer, x = HitOrMiss(7, 3, capsule_dim=4, norm=norm), torch.randn(5000, 7)
    torch.testing.assert_close(layer(x), layer.eval()(x), rtol=1e-3, atol=1e-3)


def test_classes_share_their_statistics_as_in_the_paper():
    assert HitOrMiss(7, 3, capsule_dim=4).norm.num_features == 4
    with pytest.raises(HitNetError, match=r"HitOrMiss: norm .*; got 'all'"):
        HitOrMiss(7, 3, norm="all")


@pytest.mark.parametrize("norm", NORMS)
def test_layer_gradcheck(norm):
    layer = HitOrMiss(5, 2, capsule_dim=3, norm=norm).double()
    assert gradcheck(layer, (torch.randn(4, 5, dtype=torch.float64, requires_grad=True),))


def test_layer_starts_as_keras_does():
    layer = HitOrMiss(1000, 10)
    assert layer.linear.weight.shape == (10 * 16, 1000)
    bound = math.sqrt(6 / (1000 + 160))
    assert layer.linear.weight.abs().max() <= bound
    assert layer.linear.weight.abs().max() > 0.99 * bound
    assert not layer.linear.bias.any()
    assert (layer.norm.eps, layer.norm.momentum) == (1e-3, 0.01)


@pytest.mark.parametrize("norm", NORMS)
def test_an_empty_batch_in_training_keeps_the_running_statistics(norm):
    layer = HitOrMiss(8, 3, capsule_dim=4, norm=norm)
    layer(torch.randn(32, 8) + 1)
    before = [value.clone() for value in layer.norm.buffers()]
    assert layer(torch.randn(0, 8)).shape == (0, 3, 4)
    assert all(torch.equal(value, kept) for value, kept in zip(before, layer.norm.buffers(), strict=True))


def test_a_batch_of_one_in_training_uses_and_keeps_the_running_statistics():
    torch.manual_seed(0)
    layer = HitOrMiss(8, 3, capsule_dim=4, norm="each")
    for _ in range(20):
        layer(torch.randn(32, 8) + 1)
    mean, var = layer.norm.running_mean.clone(), layer.norm.running_var.clone()
    x = torch.randn(1, 8)
    trained = layer(x)
    assert torch.equal(layer.norm.running_mean, mean)
    assert torch.equal(layer.norm.running_var, var)
    torch.testing.assert_close(trained, layer.eval()(x))
    assert trained.std() > 0.01  # statistics of a single row would have made all components equal


@pytest.mark.parametrize("sizes", [(0, 3, 16), (8, 0, 16), (8, 3, 0), ("8", 3, 16), (8.0, 3, 16)])
def test_layer_refuses_sizes_below_one(sizes):
    with pytest.raises(HitNetError, match="must be a whole number from 1 on"):
        HitOrMiss(*sizes)


def test_sizes_may_be_whole_numbers_of_numpy():
    layer = HitOrMiss(np.int64(8), np.int64(3), np.int32(4))
    assert layer(torch.rand(2, 8)).shape == (2, 3, 4)
    assert type(layer.num_classes) is type(layer.capsule_dim) is int


def test_layer_of_size_one_and_features_of_a_wrong_shape():
    layer = HitOrMiss(1, 1, 1)
    assert layer(torch.rand(5, 1)).shape == (5, 1, 1)
    for shape in ((5, 2, 1), (5, 2)):
        with pytest.raises(HitNetError, match=r"HitOrMiss: features .*\(5, 2"):
            layer(torch.rand(shape))


def test_mask_keeps_one_capsule_and_zeroes_the_rest():
    capsules = torch.rand(3, 4, 2) + 0.1
    masked = mask(capsules, torch.tensor([2, 0, 3]))
    for i, true in enumerate([2, 0, 3]):
        for k in range(4):
            expected = capsules[i, k] if k == true else torch.zeros(2)
            assert torch.equal(masked[i, k], expected)


def test_mask_refuses_classes_of_other_images():
    for classes in (torch.tensor([2]), torch.tensor([2, 0])):
        with pytest.raises(HitNetError, match=rf"capsules of 3 images, but {len(classes)} classes"):
            mask(torch.rand(3, 4, 2), classes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HitOrMiss(2, 3)(np.zeros((5, 2))), r"HitOrMiss: features must be a tensor \(B, 2\); got ndarray"),
        (lambda: distances([[0.5]]), r"distances: capsules must be a tensor \(B, K, n\); got list"),
        (lambda: mask(torch.rand(3, 4), torch.tensor([1])), r"mask: capsules must be \(B, K, n\); got shape \(3, 4\)"),
        (lambda: one_hot([0, 1], 3), "targets must be a tensor; got list"),
        (lambda: hitnet.misfit(torch.rand(3)), r"misfit: distances must be \(B, K\); got shape \(3,\)"),
        (lambda: CentripetalLoss()(np.zeros((2, 3)), torch.tensor([0, 1])), r"must be a tensor \(B, K\); got ndarray"),
        (lambda: CentripetalLoss(ghost_probability=None), r"ghost_probability must be in \[0, 1\]; got None"),
    ],
)
def test_arguments_of_a_wrong_kind_are_named(call, message):
    with pytest.raises(HitNetError, match=message):
        call()


def test_one_hot_says_what_is_wrong_with_targets():
    with pytest.raises(HitNetError, match=r"0\.\.2; got values from 0 to 3"):
        one_hot(torch.tensor([0, 3]), 3)
    with pytest.raises(HitNetError, match=r"0\.\.2; got .* -1 to 2"):
        one_hot(torch.tensor([-1, 2]), 3)
    with pytest.raises(HitNetError, match=r"\(B, 3\)"):
        one_hot(torch.zeros(2, 4), 3)
    for neither in (torch.zeros(2), torch.tensor([True, False])):
        with pytest.raises(HitNetError, match="class indices"):
            one_hot(neither, 3)


def test_one_hot_of_no_targets_and_of_targets_on_a_device():
    assert one_hot(torch.empty(0, dtype=torch.long), 3).shape == (0, 3)
    # Tensors on "meta" have no values: whoever asks for one, as waiting for a GPU would, gets an error.
    assert one_hot(torch.zeros(2, dtype=torch.long, device="meta"), 3).shape == (2, 3)


@pytest.mark.parametrize("targets", [[[0.5, 0.5, 0.0]], [[0.9, 0.05, 0.05]], [[0, -1, 7]]])
def test_one_hot_refuses_labels_that_are_mixed_or_smoothed(targets):
    with pytest.raises(HitNetError, match="zeros and ones; got"):
        one_hot(torch.tensor(targets), 3)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_layer_of_half_precision_and_on_features_of_it(half):
    torch.manual_seed(0)
    layer, x = HitOrMiss(32, 3, 4), torch.rand(6, 32)
    layer(x)
    layer.eval()
    whole = layer(x)
    assert torch.equal(layer(x.to(half)), layer(x.to(half).float()))  # a backbone in half precision
    layer.to(half)
    assert layer.linear.weight.dtype == half
    assert {layer.norm.weight.dtype, layer.norm.running_var.dtype} == {torch.float32}
    capsules = layer(x.to(half))
    assert capsules.dtype == torch.float32
    assert torch.allclose(capsules, whole, atol=0.02)
    layer.train()
    layer(x.to(half)).sum().backward()
    assert layer.linear.weight.grad.dtype == half


def test_half_precision_leaves_the_statistics_to_the_last_bit():
    layer = HitOrMiss(8, 2, 4)
    layer(torch.rand(16, 8) * 1000)
    before = layer.norm.running_var.clone()
    assert torch.equal(layer.half().norm.running_var, before)


def naive_running(values, momentum, start):
    for t, value in enumerate(values, 1):
        weight = max(momentum, 10 / (t + 9))
        start = (1 - weight) * start + weight * value
    return start


@pytest.mark.parametrize("batches", [1, 2, 12, 120])
def test_running_statistics_against_a_loop(batches):
    norm = CapsuleNorm(3, momentum=0.1).double()
    x = 7 + 3 * torch.randn(batches, 16, 3, dtype=torch.float64)
    for batch in x:
        norm(batch)
    mean = [naive_running([b[:, c].mean().item() for b in x], 0.1, 0.0) for c in range(3)]
    variance = [naive_running([b[:, c].var().item() for b in x], 0.1, 1.0) for c in range(3)]
    torch.testing.assert_close(norm.running_mean.tolist(), mean, rtol=1e-9, atol=0)
    torch.testing.assert_close(norm.running_var.tolist(), variance, rtol=1e-9, atol=0)
    assert norm.num_batches_tracked == batches


def test_training_is_the_same_as_with_plain_batch_norm():
    """The outputs and gradients are equal, and the statistics of a long training are too."""
    torch.manual_seed(0)
    norm, plain = CapsuleNorm(4, momentum=0.1).double(), torch.nn.BatchNorm1d(4, momentum=0.1).double()
    for _ in range(400):
        x = 5 + torch.randn(8, 4, dtype=torch.float64)
        pair = [x.clone().requires_grad_(), x.clone().requires_grad_()]
        ours, theirs = norm(pair[0]), plain(pair[1])
        assert torch.equal(ours, theirs)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    assert torch.equal(pair[0].grad, pair[1].grad)
    torch.testing.assert_close(norm.running_mean, plain.running_mean, rtol=1e-12, atol=0)
    torch.testing.assert_close(norm.running_var, plain.running_var, rtol=1e-12, atol=0)


def test_other_norms_keep_their_momentum():
    """The statistics of a pretrained backbone must not be forgotten at the first batch."""
    norm = torch.nn.BatchNorm1d(2, momentum=0.2)
    norm.running_mean.fill_(10)
    track_statistics(norm, torch.tensor([5.0, 0.0]), torch.tensor([1.0, 6.0]))
    assert norm.running_mean.tolist() == pytest.approx([9, 8])
    assert norm.running_var.tolist() == pytest.approx([1, 2])


def test_a_short_training_needs_no_higher_momentum():
    torch.manual_seed(0)
    features, labels = torch.rand(64, 16) * 3 + 5, torch.arange(64) % 4
    features[torch.arange(64), labels] += 3
    layer = HitOrMiss(16, 4)
    optimizer = torch.optim.Adam(layer.parameters(), 1e-2)
    for _ in range(100):
        loss = CentripetalLoss()(distances(layer(features)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (distances(layer.eval()(features)).argmin(dim=1) == labels).float().mean() > 0.95


def test_public_names():
    for name in hitnet.__all__:
        assert hasattr(hitnet, name), name


def test_hits_and_misses_against_a_loop():
    torch.manual_seed(0)
    distances, targets = 1.2 * torch.rand(51, 4) ** 3, torch.randint(0, 4, (51,))
    distances[0] = torch.where(torch.arange(4) == targets[0], 0.1, 0.9)  # the radii themselves count
    hit_radius, miss_radius = torch.tensor([0.1, 0.9]).tolist()
    hits = misses = 0
    for row, target in zip(distances.tolist(), targets.tolist(), strict=True):
        hits += row[target] <= hit_radius
        misses += sum(d >= miss_radius for k, d in enumerate(row) if k != target)
    assert 0 < hits < 51
    assert 0 < misses < 153
    assert tuple(map(int, hits_and_misses(distances, targets))) == (hits, misses)
