"""Neighbours, near-duplicates, typical and strange images, each against a plain loop."""

import pytest
import torch

from hitnet.errors import HitNetError
from hitnet.features import neighbours
from hitnet.features.neighbours import (
    Directions,
    most_typical,
    near_duplicates,
    nearest,
    neighbour_votes,
    strangeness,
)
from hitnet.runtime.progress import Progress


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for sizes in (neighbours.BLOCK, neighbours.NUMBERS):
        monkeypatch.setitem(sizes, "cpu", 2**14)


@pytest.fixture
def features(monkeypatch):
    for sizes in (neighbours.BLOCK, neighbours.NUMBERS):
        monkeypatch.setitem(sizes, "cpu", 7 * 8)  # 7 rows
    return torch.randn(30, 8, generator=torch.Generator().manual_seed(0))


def test_nearest_are_those_of_a_plain_loop(features):
    similarities, which = nearest(features, 4)
    rows = Directions(features)[:].double()
    for i in range(30):
        order = sorted((j for j in range(30) if j != i), key=lambda j: -float(rows[i] @ rows[j]))[:4]
        assert which[i].tolist() == order
        expected = [float(rows[i] @ rows[j]) for j in order]
        assert similarities[i].tolist() == pytest.approx(expected, abs=1e-5)


def test_more_neighbours_than_images(features):
    assert nearest(features[:3], 10)[0].shape == (3, 2)
    with pytest.raises(HitNetError, match="at least two"):
        nearest(features[:1])


def test_near_duplicates_are_pairs_above_the_threshold(features):
    features[20] = features[3] * 1.01
    features[29] = features[3] + 0.05
    pairs, similarities = near_duplicates(features, threshold=0.97)
    assert sorted(map(tuple, pairs.tolist())) == [(3, 20), (3, 29), (20, 29)]
    assert (similarities >= 0.97).all()
    assert similarities.tolist() == sorted(similarities.tolist(), reverse=True)
    assert near_duplicates(features[4:20], threshold=0.999)[0].shape == (0, 2)


def test_thousands_of_the_same_image_give_few_pairs():
    features = torch.randn(3100, 16, generator=torch.Generator().manual_seed(0))
    features[100:] = features[0]
    labels = torch.zeros(3100, dtype=torch.int64)
    labels[[500, 3000]] = 1
    pairs, similarities = near_duplicates(features, labels=labels, most=4)
    assert len(pairs) == len(similarities) <= 4 * 3001
    assert (pairs[:, 0] < pairs[:, 1]).all()
    assert len(set(map(tuple, pairs.tolist()))) == len(pairs)
    same = set(range(100, 3100)) | {0}
    assert same <= set(pairs.flatten().tolist())
    # every image is listed with one under another label
    differ = pairs[labels[pairs[:, 0]] != labels[pairs[:, 1]]]
    assert same <= set(differ.flatten().tolist())
    # without labels, each image still occurs
    assert same <= set(near_duplicates(features, most=1)[0].flatten().tolist())


def test_votes_are_shares_of_neighbours(features):
    labels = torch.arange(30) % 3
    similarities, which = nearest(features, 5)
    votes = neighbour_votes((similarities, which), labels, 4)
    for i in (0, 11, 29):
        weights = similarities[i].clamp_min(1e-6)
        expected = [float(weights[labels[which[i]] == k].sum() / weights.sum()) for k in range(4)]
        assert votes[i].tolist() == pytest.approx(expected, abs=1e-6)


def test_typical_images_lie_near_the_mean_of_their_class(features):
    labels = torch.tensor([0] * 15 + [1] * 14 + [3])
    typical = most_typical(features, labels, 4, count=3)
    rows = Directions(features)[:]
    for k in (0, 1):
        members = torch.nonzero(labels == k)[:, 0]
        mean = rows[members].mean(dim=0)
        order = sorted(members.tolist(), key=lambda i: -float(rows[i] @ mean))
        assert typical[k].tolist() == order[:3]
    assert typical[2].tolist() == []
    assert typical[3].tolist() == [29]


def test_the_odd_one_out_is_the_strangest():
    generator = torch.Generator().manual_seed(0)
    features = torch.cat([torch.randn(20, 16, generator=generator) * 0.1 + 3 * torch.eye(16)[k] for k in (0, 1)])
    features = torch.cat([features, 3 * torch.eye(16)[5:6]])
    assert strangeness(nearest(features, 6), k=5).argmax() == 40


@pytest.mark.parametrize("count", [300, 1000])
def test_neighbours_are_found_by_runs(count):
    features = torch.randn(count, 5, generator=torch.Generator().manual_seed(3))
    rows = Directions(features)[:]
    expected = (rows @ rows.T).fill_diagonal_(-torch.inf).topk(3, dim=1)
    similarities, which = nearest(features, 3)
    assert torch.equal(which, expected.indices)
    torch.testing.assert_close(similarities, expected.values)


def test_neighbours_in_the_nearest_classes(monkeypatch):
    draw = torch.Generator().manual_seed(4)
    labels = torch.randint(40, (900,), generator=draw)
    features = 2 * torch.randn(40, 16, generator=draw)[labels] + torch.randn(900, 16, generator=draw)
    labels[:90] = torch.randint(40, (90,), generator=draw)
    _, which = nearest(features, 5)
    monkeypatch.setattr(neighbours, "MOST_COMPARED", 899)
    near, found = nearest(features, 5, labels)
    rows = Directions(features)[:]
    torch.testing.assert_close(near, (rows[:, None] * rows[found]).sum(dim=2))
    assert (near.diff(dim=1) <= 0).all()
    assert (found != torch.arange(900)[:, None]).all()
    shared = (found[:, :, None] == which[:, None]).any(dim=2)
    assert shared.float().mean() > 0.95
    few = nearest(features[:60], 50, torch.arange(60) // 2 % 30)
    assert few[1].shape == (60, 50)
    monkeypatch.setattr(neighbours, "MOST_COMPARED", 59)
    lonely, which = nearest(features[:60], 50, torch.arange(60) // 2 % 30)  # 8 classes have 16 images
    assert (lonely[:, -1] == -1).all()
    assert (which != torch.arange(60)[:, None]).all()


@pytest.mark.parametrize("most", [10, 100])
def test_progress_counts_each_image_once(features, monkeypatch, most):
    """In blocks of rows and columns, and in the nearest classes."""
    monkeypatch.setattr(neighbours, "MOST_COMPARED", most)
    told = []

    class Counting(Progress):
        def step(self, count=1):
            told.append(count)

    nearest(features, 3, torch.arange(30) % 4, Counting())
    assert sum(told) == 30
    assert len(told) > 3


def test_half_precision_as_on_a_gpu(features, monkeypatch):
    similarities, which = nearest(features, 4)
    exact = Directions(features)[:]
    monkeypatch.setattr(neighbours, "KEPT", ("cpu",))
    near, found = nearest(features, 4)
    assert near.dtype == torch.float32
    assert (found == which).float().mean() > 0.95
    torch.testing.assert_close(near, (exact[:, None] * exact[found]).sum(dim=2), rtol=0, atol=1e-3)
    assert (near.diff(dim=1) <= 0).all()
    torch.testing.assert_close(near, similarities, rtol=0, atol=2e-3)
