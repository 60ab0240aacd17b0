"""The ghost analysis against plain loops, and on a case made by hand."""

import csv
import statistics
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hitnet.inference import find_ghosts
from hitnet.plots import write_ghosts
from toy import toy_images

NAMES = ("ant", "bee", "cow", "dog")


def loops(distances, labels):
    """The ghosts of each image, one per network: (class, distance)."""
    all_ghosts = []
    for i, label in enumerate(labels.tolist()):
        ghosts = []
        for network in distances:
            others = [(float(d), k) for k, d in enumerate(network[i]) if k != label]
            distance, k = min(others)
            ghosts.append((k, distance))
        all_ghosts.append(ghosts)
    return all_ghosts


@pytest.fixture(scope="module", params=[(6, 300, 4), (1, 50, 3), (3, 60, 2)])
def case(request):
    models, images, classes = request.param
    random = np.random.default_rng(models)
    distances = random.uniform(0, 0.6, (models, images, classes))
    # Half of the images have a ghost that all networks see near the centre.
    half = images // 2
    labels = random.integers(0, classes, images)
    other = (labels[:half] + 1) % classes
    distances[:, np.arange(half), other] = random.uniform(0, 0.16, (models, half))
    return distances, labels, NAMES[:classes]


def test_table_against_loops(case):
    distances, labels, names = case
    result = find_ghosts(distances, labels, names)
    assert result.models == len(distances)
    assert list(result.table.columns) == ["label", "ghost", "classes", "mean_distance", "std_distance", "hits"]
    for row, label, ghosts in zip(result.table.itertuples(), labels.tolist(), loops(distances, labels), strict=True):
        count = Counter(k for k, _ in ghosts)
        most = min(k for k in count if count[k] == max(count.values()))
        values = [d for _, d in ghosts]
        assert (row.label, row.ghost, row.classes) == (names[label], names[most], len(count))
        assert row.mean_distance == pytest.approx(statistics.fmean(values))
        assert row.std_distance == pytest.approx(statistics.pstdev(values), abs=1e-12)
        assert row.hits == sum(d <= 0.1 for d in values)


def test_agreement_against_loops(case):
    distances, labels, names = case
    agreement = find_ghosts(distances, labels, names).agreement()
    count = Counter(len({k for k, _ in ghosts}) for ghosts in loops(distances, labels))
    assert dict(zip(agreement["classes"].tolist(), agreement["images"].tolist(), strict=True)) == dict(count)
    assert agreement["classes"].tolist() == sorted(count)
    assert agreement["share"].tolist() == pytest.approx([count[c] / len(labels) for c in sorted(count)])


def test_doubtful_and_pairs_against_loops(case):
    distances, labels, names = case
    result = find_ghosts(distances, labels, names)
    agreed, doubtful = [], []
    for i, ghosts in enumerate(loops(distances, labels)):
        if len({k for k, _ in ghosts}) == 1:
            agreed.append(i)
            if statistics.fmean(d for _, d in ghosts) < 0.1:
                doubtful.append(i)
    assert result.agreed().index.tolist() == agreed
    rows = result.doubtful()
    assert sorted(rows.index.tolist()) == doubtful != []
    assert rows["hits"].is_monotonic_increasing
    pairs = result.pairs(result.agreed())
    ghost = dict(enumerate(result.table["ghost"]))
    for column, true in enumerate(names):
        for line, name in enumerate(names):
            expected = sum(ghost[i] == name and names[labels[i]] == true for i in agreed)
            assert pairs.iloc[line, column] == expected
        assert pairs.loc["Total", true] == sum(names[labels[i]] == true for i in agreed)
        assert pairs.loc[true, "Total"] == sum(ghost[i] == true for i in agreed)
    assert pairs.loc["Total", "Total"] == len(agreed)


def test_by_hand():
    """Two networks, four images, three classes; the distance of the given class never counts."""
    first = [[0.01, 0.05, 1.0], [1.0, 0.01, 0.3], [0.2, 1.0, 0.01], [0.0, 0.09, 0.8]]
    second = [[0.01, 0.15, 1.0], [0.2, 0.01, 1.0], [0.02, 1.0, 0.01], [0.0, 0.08, 0.8]]
    result = find_ghosts(np.array([first, second]), np.array([0, 1, 2, 0]), NAMES[:3])
    assert result.table["ghost"].tolist() == ["bee", "ant", "ant", "bee"]  # image 1: a tie, the first class
    assert result.table["classes"].tolist() == [1, 2, 1, 1]
    assert result.table["hits"].tolist() == [1, 0, 1, 2]
    assert result.table["mean_distance"].tolist() == pytest.approx([0.1, 0.25, 0.11, 0.085])
    assert result.table["std_distance"].tolist() == pytest.approx([0.05, 0.05, 0.09, 0.005])
    assert result.agreement().to_dict("list") == {"classes": [1, 2], "images": [3, 1], "share": [0.75, 0.25]}
    assert result.doubtful().index.tolist() == [3]
    pairs = result.pairs(result.agreed())
    assert pairs.to_numpy().tolist() == [[0, 0, 1, 1], [2, 0, 0, 2], [0, 0, 0, 0], [2, 0, 1, 3]]
    assert (pairs.index.name, pairs.columns.name) == ("ghost class", "true class")


def test_fewer_images_than_classes():
    result = find_ghosts(np.array([[[0.1, 0.9, 0.8, 0.2]]]), np.array([0]), NAMES)
    assert result.table["ghost"].tolist() == ["dog"]


def test_doubtful_images_are_sorted_by_hits_then_classes():
    one_hit = [[0.01, 0.05, 1.0], [0.01, 0.14, 1.0]]
    two_hits = [[0.01, 0.09, 1.0], [0.01, 0.09, 1.0]]
    other_class = [[0.09, 0.01, 1.0], [0.09, 0.01, 1.0]]
    distances = np.array([other_class, two_hits, one_hit]).transpose(1, 0, 2)
    rows = find_ghosts(distances, np.array([1, 0, 0]), NAMES[:3]).doubtful()
    assert rows.index.tolist() == [2, 1, 0]
    assert rows["hits"].tolist() == [1, 2, 2]


def test_no_doubtful_image_gives_an_empty_table_of_pairs():
    result = find_ghosts(np.full((2, 3, 3), 0.9), np.array([0, 1, 2]), NAMES[:3])
    assert len(result.doubtful()) == 0
    assert result.pairs(result.doubtful()).to_numpy().sum() == 0


def test_classes_that_are_named_like_the_totals(tmp_path):
    names = ("Total", "ghost class")
    result = find_ghosts(np.array([[[0.01, 0.05], [0.01, 0.02], [0.05, 0.01]]]), np.array([0, 0, 1]), names)
    assert result.pairs(result.agreed()).to_numpy().tolist() == [[0, 1, 1], [2, 0, 2], [2, 1, 3]]
    write_ghosts(
        result, replace(toy_images(3, classes=2), class_names=names, paths=("a.png", "b.png", "c.png")), tmp_path
    )
    with (tmp_path / "pairs.csv").open(newline="") as file:
        assert list(csv.reader(file))[:2] == [
            ["ghost class", "Total", "ghost class", "Total"],
            ["Total", "0", "1", "1"],
        ]
    assert pd.read_csv(tmp_path / "ghosts.csv")["path"].tolist() == ["a.png", "b.png", "c.png"]
    listed = pd.read_csv(tmp_path / "doubtful.csv")
    assert dict(zip(listed["id"], listed["path"], strict=True)) == {0: "a.png", 1: "b.png", 2: "c.png"}
