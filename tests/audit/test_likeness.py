"""Images that are alike: against a double loop, planted duplicates, and sets that are too large to compare."""

import logging

import numpy as np
import pandas as pd
import pytest
import torch

from hitnet.audit import audit_table
from hitnet.audit.audit_table import add_likeness, duplicate_table, nearest_with_label
from hitnet.data import Images
from hitnet.features import neighbours
from hitnet.features.neighbours import Directions, nearest


@pytest.fixture
def features():
    return torch.randn(40, 6, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def images():
    """40 images of the classes a, b and c, with ids and paths that are not their positions; d has none."""
    labels = np.arange(40) % 3
    paths = [f"{'abc'[k]}/{i:02}.png" for i, k in enumerate(labels)]
    made = Images.from_arrays(
        np.zeros((40, 1, 2, 2), np.uint8), labels, class_names=list("abcd"), name="made up", paths=paths
    )
    return Images(made.pixels, made.labels, made.class_names, made.name, 100 + made.ids, made.paths)


def naive(features, labels, wanted):
    """For each image, the number of the nearest other image of the wanted class, by cosine about the mean."""
    rows = features.double() - features.double().mean(dim=0)
    nearest = []
    for i in range(len(rows)):
        best, place = -2.0, -1
        for j in range(len(rows)):
            cosine = float(rows[i] @ rows[j] / (rows[i].norm() * rows[j].norm()))
            if j != i and labels[j] == wanted[i] and cosine > best:
                best, place = cosine, j
        nearest.append(place)
    return nearest


@pytest.mark.parametrize("block", [18, 1024])
def test_the_nearest_of_a_label_against_a_double_loop(features, monkeypatch, block):
    for sizes in (neighbours.BLOCK, neighbours.NUMBERS):
        monkeypatch.setitem(sizes, "cpu", block)
    generator = torch.Generator().manual_seed(1)
    labels, wanted = (torch.randint(0, 4, (40,), generator=generator) for _ in range(2))
    assert nearest_with_label(Directions(features), labels, wanted, 4).tolist() == naive(features, labels, wanted)


def test_an_image_is_not_its_own_neighbour_and_a_label_may_have_none(features):
    labels = torch.tensor([0] * 38 + [1, 2])
    nearest = nearest_with_label(Directions(features), labels, labels, 4)
    assert (nearest != torch.arange(40)).all()
    assert nearest[38:].tolist() == [-1, -1]  # each is the only one of its class
    assert (nearest[:38] >= 0).all()
    assert nearest_with_label(Directions(features), labels, torch.full((40,), 3), 4).tolist() == [-1] * 40


def test_the_columns_hold_ids(features, images):
    names = np.array(images.class_names, dtype=object)
    suggested = (images.labels + 1) % 4
    table = pd.DataFrame({"given": names[images.labels.numpy()], "suggested": names[suggested.numpy()]})
    compared = add_likeness(table, Directions(features), nearest(features, 20), images)
    assert list(table) == ["given", "suggested"]  # the table that was given stays as it is
    assert compared["like_given"].tolist() == [100 + j for j in naive(features, images.labels, images.labels)]
    expected = [100 + j if j >= 0 else -1 for j in naive(features, images.labels, suggested)]
    assert compared["like_suggested"].tolist() == expected
    assert -1 in expected
    rows = torch.nn.functional.normalize(features - features.mean(dim=0))
    similarities = (rows @ rows.T).fill_diagonal_(-1).topk(5).values.mean(dim=1)
    assert compared["unlike"].to_numpy() == pytest.approx(1 - similarities.numpy(), abs=1e-5)


def test_two_images(features, images):
    few = images.select(torch.arange(2))
    near = nearest(features[:2], 20)
    table = pd.DataFrame({"given": ["a", "b"], "suggested": ["a", "a"]})
    compared = add_likeness(table, Directions(features[:2]), near, few)
    assert compared["like_given"].tolist() == [-1, -1]
    assert compared["like_suggested"].tolist() == [-1, 100]
    assert duplicate_table(Directions(features[:2]), near, few).empty


def test_planted_duplicates_come_with_those_under_other_labels_first(features, images):
    features[9] = features[3]  # both a
    features[20] = features[1] + 0.02  # c and b
    table = duplicate_table(Directions(features), nearest(features, 20), images)
    assert list(table) == ["id_a", "path_a", "given_a", "id_b", "path_b", "given_b", "similarity", "labels_differ"]
    pairs = table[["id_a", "id_b"]].to_numpy().tolist()
    assert pairs[:2] == [[101, 120], [103, 109]]
    assert table["labels_differ"].tolist()[:2] == [True, False]
    first = table.iloc[0]
    assert (first["path_a"], first["given_a"], first["path_b"], first["given_b"]) == ("b/01.png", "b", "c/20.png", "c")
    assert table["similarity"][1] == pytest.approx(1, abs=1e-5)
    assert table["similarity"].min() >= 0.95


def test_an_image_with_many_duplicates_is_listed_with_some_of_them(features, images, caplog):
    with caplog.at_level(logging.INFO, "hitnet"):
        duplicate_table(Directions(features), nearest(features, 20), images)
    assert not caplog.text
    features[10:30] = features[10]
    with caplog.at_level(logging.INFO, "hitnet"):
        table = duplicate_table(Directions(features), nearest(features, 20), images)
    assert "Some images have many near-duplicates. At least 10 of each are listed" in caplog.text
    assert set(range(110, 130)) <= set(table["id_a"]) | set(table["id_b"])


def test_no_duplicates_and_images_without_paths(features, images):
    empty = duplicate_table(Directions(torch.eye(40)), nearest(torch.eye(40), 20), images)
    assert len(empty) == 0
    assert int(empty["labels_differ"].sum()) == 0
    bare = Images(images.pixels, images.labels, images.class_names, images.name, images.ids)
    features[9] = features[3]
    assert duplicate_table(Directions(features), nearest(features, 20), bare)["path_a"].tolist() == [""]


def test_too_many_images_are_not_compared(features, images, monkeypatch, caplog):
    monkeypatch.setitem(audit_table.MOST_PAIRS, "cpu", 40 * 14 + 40 * 13 - 1)  # given a, suggested b
    table = pd.DataFrame({"given": ["a"] * 40, "suggested": ["b"] * 40})
    with caplog.at_level(logging.INFO, "hitnet"):
        compared = add_likeness(table, Directions(features), nearest(features, 20), images)
    assert list(compared) == ["given", "suggested", "unlike"]
    assert "Similar images are not looked for: 40 images are too many for this device." in caplog.text
    monkeypatch.setitem(audit_table.MOST_PAIRS, "cpu", 40 * 14 + 40 * 13)
    assert "like_given" in add_likeness(table, Directions(features), nearest(features, 20), images)
