"""Softmax heads against linear layers in float64, one after the other; what the matrix of errors changes."""

import torch
from torch import nn

from feature_samples import blobs
from hitnet.features.heads import HeadOptions, deal
from hitnet.features.softmax_heads import fit_softmax_heads


def matrix(classes, rate):
    """Errors that fall evenly on all other classes."""
    return torch.full((classes, classes), rate / (classes - 1)).fill_diagonal_(1 - rate)


def naive_head(fold, dealt, batches, labels, rows, errors):
    """A linear layer that begins at 0, trained without a fold: logarithms of probabilities of all rows."""
    layer = nn.Linear(rows.shape[1], len(errors)).double()
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 1e-3, total_steps=len(batches), pct_start=0.3, cycle_momentum=False
    )
    for batch in batches:
        index = batch[dealt[batch] != fold]
        optimizer.zero_grad()
        probable = torch.softmax(layer(rows[index]), dim=1) @ errors  # of each label
        nn.functional.nll_loss(probable.log(), labels[index]).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return torch.log_softmax(layer(rows), dim=1)


def test_all_heads_at_once_are_as_one_after_the_other(monkeypatch):
    monkeypatch.setattr(
        "hitnet.features.softmax_heads.HeadOptions", lambda: HeadOptions(steps=40, dropout=0.0, batch=32)
    )
    features, labels = blobs()
    errors = torch.tensor([[0.8, 0.15, 0.05], [0.02, 0.9, 0.08], [0.1, 0.1, 0.8]])
    draw = torch.Generator().manual_seed(3)
    dealt = deal(labels, 5, draw)
    batches = torch.cat([torch.randperm(120, generator=draw) for _ in range(11)])[: 40 * 32].split(32)
    rows = features.double()
    rows = (rows - rows.mean(dim=0)) / rows.std(dim=0, correction=0)
    naive = [naive_head(fold, dealt, batches, labels, rows, errors.double()) for fold in range(5)]
    expected = torch.stack([naive[fold][i] for i, fold in enumerate(dealt.tolist())])
    found = fit_softmax_heads(features, labels, errors, seed=3)(torch.arange(120))
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-3)


def test_heads_that_know_of_errors_confirm_fewer_of_them():
    features, labels = blobs(count=400)
    given = labels.clone()
    given[:40] = (labels[:40] + 1) % 3
    told, untold = (fit_softmax_heads(features, given, matrix(3, rate))(torch.arange(400)) for rate in (0.1, 1e-6))
    wrong = torch.arange(40)
    assert told[wrong, given[:40]].mean() < untold[wrong, given[:40]].mean()
    assert (told.argmax(dim=1) == labels).float().mean() > 0.97


def test_features_of_half_precision_and_tiny_sets():
    features, labels = blobs(count=4, classes=2)
    found = fit_softmax_heads(features.half(), labels, matrix(2, 0.05))(torch.arange(4))
    assert found.shape == (4, 2)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.exp().sum(dim=1), torch.ones(4))


def test_a_seed_repeats_the_result():
    features, labels = blobs()
    found = [fit_softmax_heads(features, labels, matrix(3, 0.05), seed=seed)(torch.arange(120)) for seed in (7, 7, 8)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
