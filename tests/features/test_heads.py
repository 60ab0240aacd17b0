"""Heads on features: least squares and heads against plain versions in float64, folds, small classes, wrong labels."""

import pytest
import torch
from torch import nn

from feature_samples import blobs
from hitnet.capsules import HitOrMiss, distances
from hitnet.errors import HitNetError
from hitnet.features.heads import HeadOptions, _Heads, deal, drop, fit_heads
from hitnet.features.least_squares import LeastSquares, standardisation
from hitnet.losses import CentripetalLoss

QUICK = HeadOptions(steps=5, capsule_dim=4)


def ridge(rows, truth, penalty):
    """Least squares with an intercept, by the textbook: prediction of new rows (B, K)."""
    mean, centre = rows.mean(dim=0), truth.mean(dim=0)
    x = rows - mean
    weights = torch.linalg.solve(x.T @ x + penalty * torch.eye(x.shape[1], dtype=x.dtype), x.T @ (truth - centre))
    return weights, lambda new: (new - mean) @ weights + centre


def standardised(features):
    features = features.double()
    return (features - features.mean(dim=0)) / features.std(dim=0, correction=0)


@pytest.mark.parametrize("width", [12, 100])  # fewer features than images, and more
def test_least_squares_without_an_image_are_as_fitted_anew(width):
    features, labels = blobs(count=40, width=width)
    squares, rows = LeastSquares(features, labels, 3), standardised(features)
    truth = nn.functional.one_hot(labels, 3).double()
    found = squares.leave_one_out(7.0)
    for i in range(0, 40, 7):
        others = torch.arange(40) != i
        # The formula leaves the image out of the sums, not out of the standardisation.
        _, predict = ridge(rows[others], truth[others], 7.0)
        torch.testing.assert_close(found[i].double(), predict(rows[i]), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("width", [12, 100])
def test_least_squares_without_a_fold_are_as_fitted_anew(width):
    features, labels = blobs(count=60, width=width)
    squares, rows = LeastSquares(features, labels, 3), standardised(features)
    truth = nn.functional.one_hot(labels, 3).double()
    without = torch.arange(60) % 5 == 2
    weights, _ = ridge(rows[~without], truth[~without], 4.0 * 48 / 60)
    torch.testing.assert_close(squares.weights(4.0, without).double(), weights, rtol=1e-3, atol=1e-4)


def test_the_penalty_is_the_one_that_predicts_best():
    features, labels = blobs(count=90, width=40, spread=6.0)  # little to learn: a large penalty
    unit = 90 * 40 / 1000
    squares = LeastSquares(features, labels, 3)
    found = squares.choose_penalty(torch.Generator().manual_seed(0))
    truth = nn.functional.one_hot(labels, 3)
    errors = {p: float((squares.leave_one_out(unit * p) - truth).square().sum()) for p in (0.1, 0.3, 1.0, 3.0, 10.0)}
    assert found == pytest.approx(unit * min(errors, key=errors.get))


def naive_head(start, fold, options, batches, labels, rows):
    """A head by the package's own layers, in float64: distances of all rows."""
    width, classes = rows.shape[1], start.shape[1]
    layer = HitOrMiss(width, classes, options.capsule_dim, norm="each").double()
    old = start.layer(fold)
    layer.load_state_dict(old.state_dict())
    layer.norm = nn.BatchNorm1d(layer.norm.num_features, eps=layer.norm.eps, momentum=0.1).double()
    layer.norm.load_state_dict(old.norm.state_dict())
    layer.linear.bias.requires_grad_(False)  # batch normalisation takes it out again
    loss = CentripetalLoss(capsule_dim=options.capsule_dim, ghosts=options.ghosts, miss_weight=0.5 * 9 / (classes - 1))
    optimizer = torch.optim.Adam(layer.parameters(), lr=options.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, options.learning_rate, total_steps=len(batches), pct_start=0.3, cycle_momentum=False
    )
    for index in batches:
        optimizer.zero_grad()
        seen = start.dealt[index] != fold
        loss(distances(layer(rows[index]))[seen], labels[index][seen]).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return distances(layer.eval()(rows))


@pytest.mark.parametrize("ghosts", [0, 1])
def test_all_heads_at_once_are_as_one_after_the_other(ghosts):
    features, labels = blobs()
    options = HeadOptions(folds=3, steps=12, batch=32, dropout=0.0, capsule_dim=5, ghosts=ghosts)
    draw = torch.Generator().manual_seed(4)
    dealt = deal(labels, 3, draw)
    squares = LeastSquares(features, labels, 3)
    first = torch.stack([squares.weights(3.0, dealt == fold) for fold in range(4)], dim=1)
    heads = _Heads(squares, dealt, first, options, draw)
    state = draw.get_state()
    batches = torch.cat([torch.randperm(120, generator=draw) for _ in range(4)])[: 12 * 32].split(32)
    naive = [naive_head(heads, fold, options, batches, labels, standardised(features)) for fold in range(4)]
    draw.set_state(state)
    heads.train()
    found = heads.judge(torch.arange(len(dealt)))
    expected = torch.stack([naive[fold][i] for i, fold in enumerate(dealt.tolist())])
    torch.testing.assert_close(found.double(), expected, rtol=5e-3, atol=5e-3)
    with torch.no_grad():
        whole = distances(heads.layer(3)(standardised(features)))
    torch.testing.assert_close(whole, naive[3], rtol=5e-3, atol=5e-3)


def test_heads_begin_with_hits_of_their_class_and_misses_of_others():
    features, labels = blobs(count=300, classes=3, width=20, spread=0.2)
    fitted = fit_heads(features, labels, 3, options=HeadOptions(steps=1, learning_rate=1e-9))
    own = fitted.distances[torch.arange(300), labels]
    others = fitted.distances[torch.arange(300), (labels + 1) % 3]
    assert own.median() < 0.5 < others.median()


def test_wrong_labels_are_far_from_their_class():
    features, labels = blobs(count=200)
    given = labels.clone()
    given[:10] = (labels[:10] + 1) % 3
    fitted = fit_heads(features, given, 3, options=HeadOptions(steps=100))
    for judged in (-fitted.distances, fitted.least_squares):
        assert (judged.argmax(dim=1) == labels).float().mean() > 0.97


def test_the_layer_takes_features_as_they_are():
    features, labels = blobs(count=200)
    new, truth = blobs(count=60, seed=0)
    fitted = fit_heads(features, labels, 3, options=HeadOptions(steps=100, dropout=0.5))
    found = distances(fitted.layer(new.double()))
    assert (found.argmin(dim=1) == truth).float().mean() > 0.97
    assert fitted.layer.linear.weight.dtype == torch.float64
    assert not fitted.layer.training


def test_folds_are_even_in_every_class():
    labels = torch.tensor([0] * 50 + [1] * 23 + [2] * 4 + [3] * 5)
    dealt = deal(labels, 5, torch.Generator().manual_seed(0))
    for k in range(4):
        counts = torch.bincount(dealt[labels == k], minlength=5)
        assert counts.max() - counts.min() <= 1
    counts = torch.bincount(dealt, minlength=5)
    assert counts.max() - counts.min() <= 1


def test_random_labels_of_small_classes_do_not_confirm_themselves():
    features, _ = blobs(count=80, classes=2)
    labels = torch.randperm(80, generator=torch.Generator().manual_seed(3)) % 20  # four images per class, at random
    fitted = fit_heads(features, labels, 20, options=HeadOptions(steps=60, capsule_dim=4))
    assert (fitted.distances.argmin(dim=1) == labels).float().mean() < 0.3


@pytest.mark.parametrize(("count", "classes", "known"), [(2, 2, 2), (3, 2, 2), (4, 2, 2), (6, 3, 3), (90, 30, 40)])
def test_few_images_many_classes_and_classes_without_images(count, classes, known):
    features, labels = blobs(count=count, classes=classes)
    fitted = fit_heads(features, labels, known, options=QUICK)
    assert fitted.distances.shape == fitted.least_squares.shape == (count, known)
    assert torch.isfinite(fitted.distances).all()
    assert torch.isfinite(fitted.least_squares).all()


def test_identical_images():
    fitted = fit_heads(torch.ones(24, 8), torch.arange(24) % 2, 2, options=QUICK)
    assert torch.isfinite(fitted.distances).all()


def test_seeds_decide():
    features, labels = blobs()
    found = fit_heads(features, labels, 3, options=QUICK, seed=7).distances
    assert torch.equal(found, fit_heads(features, labels, 3, options=QUICK, seed=7).distances)
    assert not torch.equal(found, fit_heads(features, labels, 3, options=QUICK, seed=8).distances)


def test_features_in_half_precision_and_constant_features():
    features, labels = blobs()
    features[:, 0] = 3.25
    mean, scale = standardisation(features.half())
    assert scale[0] == 0
    torch.testing.assert_close(mean, features.half().float().mean(dim=0), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(scale[1:], 1 / features.half().float().std(dim=0, correction=0)[1:], rtol=1e-4, atol=0)
    assert torch.isfinite(fit_heads(features.half(), labels, 3, options=QUICK).distances).all()


@pytest.mark.parametrize("scale", [1e-9, 1e15])
def test_features_of_any_scale_count(scale):
    features, labels = blobs()
    for given in (features * scale, features * scale + 100 * scale):
        mean, factor = standardisation(given)
        deviation = given.double().std(dim=0, correction=0)
        torch.testing.assert_close(factor.double() * deviation, torch.ones_like(deviation), rtol=1e-3, atol=0)
        torch.testing.assert_close(mean.double(), given.double().mean(dim=0), rtol=1e-4, atol=1e-4 * scale)
    fitted = fit_heads(features * scale, labels, 3, options=HeadOptions(steps=60, capsule_dim=4))
    assert (fitted.distances.argmin(dim=1) == labels).float().mean() > 0.8


def test_dropout_keeps_the_mean():
    dropped = drop(torch.ones(500, 123), 0.25, torch.Generator().manual_seed(0))
    assert sorted(dropped.unique().tolist()) == [0.0, pytest.approx(1 / 0.75)]
    assert dropped.mean() == pytest.approx(1, abs=0.01)


def test_steps_grow_with_the_dataset():
    assert HeadOptions().steps_for(100) == HeadOptions().steps_for(5_000) == 300
    assert HeadOptions().steps_for(1_000_000) == 11_719
    assert HeadOptions(steps=7).steps_for(1_000_000) == 7


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"labels": torch.zeros(119, dtype=torch.int64)}, r"shape \(119,\)"),
        ({"labels": torch.full((120,), 3)}, r"0\.\.2; got values from 3"),
        ({"features": torch.zeros(120, 12, dtype=torch.int64)}, "floating-point"),
        ({"num_classes": 1}, "num_classes"),
    ],
)
def test_mistakes_are_named(change, said):
    features, labels = blobs()
    given = {"features": features, "labels": labels, "num_classes": 3, **change}
    with pytest.raises(HitNetError, match=said):
        fit_heads(given["features"], given["labels"], given["num_classes"])


@pytest.mark.parametrize("options", [{"folds": 1}, {"dropout": 1.0}, {"ghosts": -1}, {"capsule_dim": 0}, {"steps": 0}])
def test_options_are_checked(options):
    with pytest.raises(HitNetError, match=next(iter(options))):
        HeadOptions(**options)
