"""Heads on features: against a plain loop over heads in float64, folds, small classes, and that they find errors."""

import pytest
import torch
from feature_samples import blobs
from torch import nn

from hitnet.capsules import HitOrMiss, distances
from hitnet.errors import HitNetError
from hitnet.features.heads import HeadOptions, _Heads, _standardisation, deal, default_steps, fit_heads, windows
from hitnet.losses import CentripetalLoss


def naive(features, labels, classes, options, seed):
    """The heads of the first repeat, one after the other, in float64 and by the package's own layers."""
    features = features.double()
    mean, deviation = features.mean(dim=0), features.std(dim=0, unbiased=False)
    rows = (features - mean) / deviation
    start = _Heads(
        features[None], labels, classes, options, torch.Generator().manual_seed(seed * 1_000_003), (mean, 1 / deviation)
    )
    judged = torch.zeros(len(labels), classes, dtype=torch.float64)
    steps = start.batches()
    for fold in range(options.folds):
        head, loss = first_head(start, fold, rows.shape[1], classes, options)
        optimizer = torch.optim.Adam(head.parameters(), lr=options.learning_rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, options.learning_rate, total_steps=len(steps), pct_start=0.3
        )
        for groups in steps:
            index = torch.cat([groups[other] for other in range(options.folds) if other != fold])
            assert not (start.dealt[index] == fold).any()
            optimizer.zero_grad()
            loss(head(rows[index]), labels[index]).backward()
            optimizer.step()
            schedule.step()
        inside = start.dealt == fold
        with torch.no_grad():
            out = head.eval()(rows[inside])
            judged[inside] = out if options.loss == "hit-or-miss" else out.log_softmax(dim=1)
    return judged


def first_head(start, fold, width, classes, options):
    """A head with the weights that one of `_Heads` starts with, and its loss."""
    weight = start.weight[fold].detach().T.double()
    if options.loss == "softmax":
        head = nn.Linear(width, classes).double()
        head.weight.data, head.bias.data = weight.clone(), torch.zeros_like(head.bias)
        return head, nn.CrossEntropyLoss()
    layer = HitOrMiss(width, classes, options.capsule_dim, norm="each").double()
    layer.norm = nn.BatchNorm1d(layer.norm.num_features, eps=layer.norm.eps, momentum=0.1).double()
    layer.linear.weight.data = weight.clone()
    layer.linear.bias.requires_grad_(False)  # batch normalisation takes it out again

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, inputs):
            return distances(self.layer(inputs))

    return Head(), CentripetalLoss(options.capsule_dim)


@pytest.mark.parametrize("loss", ["hit-or-miss", "softmax"])
def test_all_heads_at_once_are_as_one_after_the_other(loss):
    features, labels = blobs()
    options = HeadOptions(loss=loss, folds=3, repeats=1, steps=12, batch=32, dropout=0.0, capsule_dim=5)
    found = fit_heads(features, labels, 3, options=options, seed=4)
    assert found.shape == (1, 120, 3)
    torch.testing.assert_close(found[0].double(), naive(features, labels, 3, options, 4), rtol=2e-3, atol=2e-3)


def test_a_window_leaves_out_its_own_fold():
    groups = torch.arange(8.0).view(4, 2, 1)
    seen = [sorted(row) for row in windows(groups)[..., 0].tolist()]
    assert seen == [sorted(set(range(8)) - {2 * fold, 2 * fold + 1}) for fold in range(4)]


def test_wrong_labels_are_far_from_their_class():
    features, labels = blobs(count=200)
    given = labels.clone()
    given[:10] = (labels[:10] + 1) % 3
    found = fit_heads(features, given, 3, options=HeadOptions(repeats=2, capsule_dim=8, steps=100))
    nearest = found.mean(dim=0).argmin(dim=1)
    assert (nearest == labels).float().mean() > 0.97
    softmax = fit_heads(features, given, 3, options=HeadOptions(loss="softmax", repeats=1, steps=100))
    assert torch.allclose(softmax.exp().sum(dim=-1), torch.ones(1, 200), atol=1e-5)
    assert (softmax[0].argmax(dim=1) == labels).float().mean() > 0.97


def test_folds_are_even_in_every_class():
    labels = torch.tensor([0] * 50 + [1] * 23 + [2] * 4 + [3] * 5)
    dealt = deal(labels, 5, torch.Generator().manual_seed(0))
    for k in (0, 1, 3):
        counts = torch.bincount(dealt[labels == k], minlength=5)
        assert counts.max() - counts.min() <= 1
    counts = torch.bincount(dealt[labels != 2], minlength=5)
    assert counts.max() - counts.min() <= 1
    assert (dealt[labels == 2] == -1).all()


def test_classes_of_one_to_three_images_are_not_all_doubtful():
    features, labels = blobs(count=160, classes=4, width=32, spread=0.4)
    kept = torch.cat([torch.nonzero(labels == k)[: (40, 40, 1, 3)[k], 0] for k in range(4)])
    features, labels = features[kept], labels[kept]
    found = fit_heads(features, labels, 4, options=HeadOptions(repeats=2, capsule_dim=8)).mean(dim=0)
    right = found.argmin(dim=1) == labels
    assert right[labels >= 2].float().mean() >= 0.5
    assert right[labels < 2].float().mean() > 0.95


def test_only_tiny_classes():
    features, labels = blobs(count=6, classes=3)
    found = fit_heads(features, labels, 3, options=HeadOptions(repeats=1, steps=5, capsule_dim=4))
    assert torch.isfinite(found).all()


def test_many_classes_and_a_class_without_images():
    features, labels = blobs(count=90, classes=30)
    found = fit_heads(features, labels, 40, options=HeadOptions(folds=2, repeats=1, steps=5, capsule_dim=4))
    assert found.shape == (1, 90, 40)
    assert torch.isfinite(found).all()


def test_repeats_do_not_depend_on_one_another_and_seeds_decide():
    features, labels = blobs()
    options = HeadOptions(repeats=2, steps=5, capsule_dim=4)
    both = fit_heads(features, labels, 3, options=options, seed=7)
    first = fit_heads(features, labels, 3, options=HeadOptions(repeats=1, steps=5, capsule_dim=4), seed=7)
    assert torch.equal(both[:1], first)
    assert not torch.equal(both[0], both[1])
    assert torch.equal(both, fit_heads(features, labels, 3, options=options, seed=7))
    assert not torch.equal(both, fit_heads(features, labels, 3, options=options, seed=8))


def test_equal_views_are_as_one():
    features, labels = blobs()
    options = HeadOptions(repeats=1, steps=20, capsule_dim=4)
    twice = fit_heads(torch.stack([features, features]), labels, 3, options=options)
    torch.testing.assert_close(twice, fit_heads(features, labels, 3, options=options))


def test_judging_takes_the_mean_over_views():
    features, labels = blobs()
    other = features + torch.randn(features.shape, generator=torch.Generator().manual_seed(1))
    views = torch.stack([features, other])
    heads = _Heads(
        views,
        labels,
        3,
        HeadOptions(steps=5, capsule_dim=4),
        torch.Generator().manual_seed(0),
        _standardisation(views),
    )
    heads.train()
    both = heads.judge()
    parts = []
    for view in views:
        heads.views = view[None]
        parts.append(heads.judge())
    torch.testing.assert_close(both, (parts[0] + parts[1]) / 2)


def test_features_in_half_precision_and_constant_features():
    features, labels = blobs()
    features[:, 0] = 3.25
    mean, scale = _standardisation(features.half()[None])
    assert scale[0] == 0
    torch.testing.assert_close(mean, features.half().float().mean(dim=0), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(scale[1:], 1 / features.half().float().std(dim=0, unbiased=False)[1:], rtol=1e-4, atol=0)
    found = fit_heads(features.half(), labels, 3, options=HeadOptions(repeats=1, steps=10, capsule_dim=4))
    assert torch.isfinite(found).all()


def test_dropout_keeps_the_mean():
    features, labels = blobs()
    heads = _Heads(
        features[None],
        labels,
        3,
        HeadOptions(dropout=0.25, capsule_dim=4),
        torch.Generator().manual_seed(0),
        _standardisation(features[None]),
    )
    mask = heads.dropout(torch.Size((5, 100, 123)))
    assert sorted(mask.unique().tolist()) == [0.0, pytest.approx(1 / 0.75)]
    assert mask.mean() == pytest.approx(1, abs=0.01)


def test_steps_grow_with_the_set():
    assert default_steps(100, 256) == default_steps(5_000, 256) == 75
    assert default_steps(1_000_000, 256) == 11_719


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"labels": torch.zeros(119, dtype=torch.int64)}, r"120 rows of features but labels of shape \(119,\)"),
        ({"labels": torch.full((120,), 3)}, r"labels must lie in 0..2; got values from 3 to 3"),
        ({"features": torch.zeros(120, 12, dtype=torch.int64)}, "features must be floating-point"),
        ({"num_classes": 1}, "num_classes must be a whole number from 2 on"),
    ],
)
def test_mistakes_are_named(change, said):
    features, labels = blobs()
    given = {"features": features, "labels": labels, "num_classes": 3, **change}
    with pytest.raises(HitNetError, match=said):
        fit_heads(given["features"], given["labels"], given["num_classes"])


@pytest.mark.parametrize("options", [{"folds": 1}, {"dropout": 1.0}, {"loss": "hinge"}, {"capsule_dim": 3}])
def test_options_are_checked(options):
    with pytest.raises(HitNetError, match=next(iter(options))):
        HeadOptions(**options)


@pytest.mark.parametrize("scale", [1e-9, 1e20])
def test_features_of_any_scale_count(scale):
    features, labels = blobs()
    for given in (features * scale, features * scale + 100 * scale):
        mean, factor = _standardisation(given[None])
        deviation = given.double().std(dim=0, unbiased=False)
        torch.testing.assert_close(factor.double() * deviation, torch.ones_like(deviation), rtol=1e-3, atol=0)
        torch.testing.assert_close(mean.double(), given.double().mean(dim=0), rtol=1e-4, atol=1e-4 * scale)
    options = HeadOptions(repeats=1, steps=60, capsule_dim=4)
    assert (fit_heads(features * scale, labels, 3, options=options)[0].argmin(dim=1) == labels).float().mean() > 0.8


@pytest.mark.parametrize("count", [2, 3, 4])
def test_fewer_images_than_folds(count):
    features, labels = torch.randn(count, 4, generator=torch.Generator().manual_seed(0)), torch.arange(count) % 2
    found = fit_heads(features, labels, 2, options=HeadOptions(repeats=1, steps=3))
    assert torch.isfinite(found).all()
