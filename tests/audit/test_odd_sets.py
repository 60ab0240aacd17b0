"""Audits of sets that are small or odd: scores that mean something, and "too few to tell" where that is the truth."""

import logging
import math

import numpy as np
import pytest
import torch

from hitnet.audit.feature_judges import judge_features
from hitnet.audit.noise_model import beats_chance, fit_noise_model
from hitnet.audit.scoring import logits_by_kind, score_labels

WIDTH = 64


def clusters(labels, classes, spread=0.35, seed=0):
    """Features (N, D) of images that look like their class."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(classes, WIDTH))
    return centres[labels] + spread * draw.normal(size=(len(labels), WIDTH))


def audited(features, labels, classes):
    rows = torch.from_numpy(np.asarray(features, np.float32))
    scored = score_labels(judge_features(rows, torch.from_numpy(labels), classes), labels)
    count = len(labels)
    assert np.isfinite(scored.score).all()
    assert ((scored.score >= 0) & (scored.score <= 1)).all()
    if scored.error_range is not None:
        low, high = scored.error_range
        assert 0 <= low <= high <= count
    return scored


def assert_nothing_told(scored):
    assert (scored.score == 0.5).all()
    assert scored.error_range is None
    assert scored.sentence.startswith("These images cannot be told apart")
    assert set(scored.flag) == {"ok"}


def test_two_classes_two_wrong():
    truth = np.repeat([0, 1], 40)
    given = truth.copy()
    given[[3, 60]] = 1 - given[[3, 60]]
    scored = audited(clusters(truth, 2), given, 2)
    assert set(np.argsort(-scored.doubt)[:2]) == {3, 60}
    assert (scored.score[[3, 60]] < 0.5).all()
    assert (scored.score[given == truth] > 0.5).all()
    assert (scored.suggested == truth).all()
    assert scored.sentence.startswith("Too few labels are contradicted (2 of 80)")


def test_twenty_classes_of_twelve_fifteen_wrong():
    truth = np.repeat(np.arange(20), 12)
    draw = np.random.default_rng(1)
    wrong = draw.choice(240, 15, replace=False)
    given = truth.copy()
    given[wrong] = (truth[wrong] + draw.integers(1, 20, 15)) % 20
    scored = audited(clusters(truth, 20, spread=0.6), given, 20)
    flagged = np.flatnonzero(np.array(scored.flag) == "wrong")
    low, high = scored.error_range
    assert low <= 15 <= high
    assert np.isin(flagged, wrong).mean() >= 0.85
    assert len(flagged) >= 10


@pytest.mark.usefixtures("quick_heads")
@pytest.mark.parametrize(("features", "classes"), [("identical", 2), ("zeros", 3), ("noise", 8)])
def test_images_that_cannot_be_told_apart(classes, features):
    labels = np.arange(24 * classes) % classes
    draw = np.random.default_rng(5)
    rows = {
        "identical": np.tile(draw.normal(size=WIDTH), (len(labels), 1)),
        "zeros": np.zeros((len(labels), WIDTH)),
        "noise": draw.normal(size=(len(labels), WIDTH)),
    }[features]
    assert_nothing_told(audited(rows, labels, classes))


@pytest.mark.usefixtures("quick_heads")
def test_random_labels():
    draw = np.random.default_rng(0)
    assert_nothing_told(audited(clusters(np.repeat(np.arange(10), 20), 10), draw.integers(0, 10, 200), 10))


@pytest.mark.usefixtures("quick_heads")
def test_uneven_classes_of_identical_images():
    assert_nothing_told(audited(np.ones((50, WIDTH)), np.repeat([0, 1], [45, 5]), 2))


@pytest.mark.usefixtures("quick_heads")
@pytest.mark.parametrize(("images", "classes"), [(1, 2), (2, 10), (3, 2), (4, 10)])
def test_classes_of_a_few_images_are_neither_counted_nor_flagged(images, classes, caplog):
    labels = np.repeat(np.arange(classes), images)
    with caplog.at_level(logging.WARNING, logger="hitnet"):
        scored = audited(clusters(labels, classes), labels, classes)
    assert scored.error_range is None
    assert "wrong" not in scored.flag
    assert scored.sentence.startswith(("No class has 5 images", "These images cannot be told apart"))
    if images == 1:
        assert (scored.score == 0.5).all()
    if not scored.sentence.startswith("These"):
        assert f"{classes} classes have fewer than 5 images" in caplog.text


@pytest.mark.usefixtures("quick_heads")
def test_many_classes_of_three_random_images():
    labels = np.repeat(np.arange(30), 3)
    scored = audited(np.random.default_rng(0).normal(size=(90, 16)), labels, 30)
    assert "wrong" not in scored.flag
    assert scored.error_range is None


def test_labels_that_are_all_wrong_in_the_same_way_look_right():
    truth = np.repeat(np.arange(10), 20)
    given = (truth + 1) % 10
    scored = audited(clusters(truth, 10), given, 10)
    assert (scored.suggested == given).all()
    assert "wrong" not in scored.flag


def test_nearly_all_images_in_one_class(caplog):
    truth = np.repeat([0, 1], [396, 4])
    with caplog.at_level(logging.WARNING, logger="hitnet"):
        scored = audited(clusters(truth, 2), truth, 2)
    assert "1 class has fewer than 5 images" in caplog.text
    assert (scored.score > 0.5).all()
    assert "wrong" not in scored.flag
    given = truth.copy()
    given[7] = 1
    assert audited(clusters(truth, 2), given, 2).doubt.argmax() == 7


def test_small_classes_beside_large_ones_leave_these_counted():
    truth = np.concatenate([np.repeat([0, 1], 60), [2, 2, 2]])
    given = truth.copy()
    given[:6] = 1
    scored = audited(clusters(truth, 3), given, 3)
    assert "of 120 labels are wrong" in scored.sentence
    assert {scored.flag[i] for i in (120, 121, 122)}.isdisjoint({"wrong"})


@pytest.mark.usefixtures("quick_heads")
def test_better_than_chance_is_what_loops_give():
    labels = np.repeat(np.arange(3), [30, 20, 10])
    rows = torch.from_numpy(clusters(labels, 3, spread=3.0).astype(np.float32))
    model = fit_noise_model(logits_by_kind(judge_features(rows, torch.from_numpy(labels), 3)), torch.from_numpy(labels))
    q, posterior = model.log_prior.double().exp().numpy(), model.posterior.double().numpy()
    for rate in (0.0, 0.1, 0.9):
        shrunk = np.full_like(posterior, rate / 2)
        shrunk[np.arange(60), labels] = 1 - rate
        r, gains = min(rate, 2 / 3), []
        for i, k in enumerate(labels):
            likelihood = (1 - r) * q[i, k] + r * (1 - q[i, k]) / 2
            gains.append(math.log(likelihood) - math.log((labels == k).mean()))
        naive = np.mean(gains) > 2 * np.std(gains) / math.sqrt(60)
        assert beats_chance(model.log_prior, torch.from_numpy(labels), torch.from_numpy(shrunk)) == naive
