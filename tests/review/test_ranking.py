"""Ranked again: judges learn from decisions, what is left is ordered better, and pages keep the order they show."""

import contextlib

import numpy as np
import pytest
import torch
from review_samples import make_folder, open_folder

from hitnet.features.opinions import all_distances
from hitnet.review.ranking import Ranker, fit_judges, rank_again
from hitnet.review.selection import Query


def clusters(count=240, classes=4, seed=0):
    """Features in one cluster per class, and labels of which a tenth are wrong."""
    draw = np.random.default_rng(seed)
    truth = np.arange(count) % classes
    features = draw.normal(size=(classes, 24))[truth] * 2 + draw.normal(size=(count, 24))
    given = truth.copy()
    moved = draw.choice(count, count // 10, replace=False)
    given[moved] = (truth[moved] + draw.integers(1, classes, len(moved))) % classes
    return torch.from_numpy(features).float(), given, truth


def test_wrong_labels_come_first_and_suggestions_are_right():
    features, given, truth = clusters()
    known = np.arange(30)
    judged = fit_judges(features, given, known, truth[known], 4, seed=0)
    ranking, left = rank_again(judged, given, known, truth[known], version=3)
    wrong = given != truth
    unseen = [row for row in ranking.order if row >= 30]
    count = int(wrong[30:].sum())
    assert wrong[unseen[:count]].mean() > 0.9
    found = np.flatnonzero(wrong)
    assert (ranking.suggested[found] == truth[found]).mean() > 0.9
    assert ranking.score[wrong].mean() < 0.5 < ranking.score[~wrong].mean()
    assert (ranking.version, ranking.decisions) == (3, 30)
    assert left.low <= count <= left.high
    assert all_distances(ranking.opinions).shape == (8, 240, 4)


def test_judges_learn_from_decisions_and_not_from_images_of_no_class():
    """Two classes that were given each other's labels, as people decide on all of them."""
    features, _, truth = clusters()
    given = (truth + 1) % 4
    known = np.arange(240)
    judged = all_distances(fit_judges(features, given, known, truth, 4, seed=0))
    assert (judged.mean(0).argmin(1) == truth).mean() > 0.95
    no_class = truth.copy()
    no_class[::10] = -1
    judged = all_distances(fit_judges(features, given, known, no_class, 4, seed=0))
    assert np.isfinite(judged).all()
    assert (judged[:, ::10] == judged[0, 0, 0]).all()  # the same distance to every class


@pytest.fixture
def deciding(tmp_path):
    review = open_folder(make_folder(tmp_path, 120))
    return review.board, Ranker(review.board, review.ranker.features, every=10)


def test_ranks_anew_after_enough_decisions_only(deciding):
    board, ranker = deciding
    ids = board.rows.ids.tolist()
    board.decide([(number, "keep", "") for number in ids[:9]])
    ranker.work()
    assert board.ranking().version == 0
    board.decide([(ids[9], "unsure", "")])  # who is unsure says nothing
    ranker.work()
    assert board.ranking().version == 0
    board.decide([(ids[10], "drop", "")])
    ranker.work()
    assert board.ranking().version == 1
    assert board.ranking().decisions == 10
    ranker.work()
    assert board.ranking().version == 1


def test_a_page_keeps_the_order_that_it_shows(deciding):
    board, ranker = deciding
    ids = board.rows.ids.tolist()
    before = board.window(Query(), version=0, offset=0, limit=60, near=None)
    board.decide([(number, "keep", "") for number in ids[:20]])
    ranker.work()
    after = board.window(Query(), version=0, offset=0, limit=60, near=None)
    assert after["columns"] == before["columns"]
    newest = board.window(Query(), version=None, offset=0, limit=60, near=None)
    assert newest["version"] == 1
    assert newest["columns"]["score"] != before["columns"]["score"]


def test_undoing_ranks_anew_too(deciding):
    board, ranker = deciding
    step = board.decide([(number, "keep", "") for number in board.rows.ids[:20].tolist()])
    ranker.work()
    board.undo(step.name)
    ranker.work()
    assert (board.ranking().version, board.ranking().decisions) == (2, 0)


def test_without_features_the_order_stays_but_what_is_left_is_estimated(tmp_path):
    review = open_folder(make_folder(tmp_path, 120, kept=False))
    board, ranker = review.board, Ranker(review.board, None, every=10)
    names, suggested = board.rows.class_names, board.rows.own_ranking.suggested
    for i in range(30):
        right = suggested[i] == board.rows.given[i]
        outcome = ("keep", "") if right else ("relabel", names[suggested[i]])
        board.decide([(int(board.rows.ids[i]), *outcome)])
    ranker.work()
    assert board.ranking().version == 0
    assert ranker.left.unseen == 90
    assert 0 <= ranker.left.low <= ranker.left.high < 60


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("spared", [0, 1])
def test_where_no_labels_are_left_nothing_is_ranked_and_nothing_fails(tmp_path, kept, spared, caplog):
    review = open_folder(make_folder(tmp_path, 60, kept=kept))
    board, ranker = review.board, Ranker(review.board, review.ranker.features, every=10)
    board.decide([(number, "drop", "") for number in board.rows.ids.tolist()[spared:]])
    ranker.work()
    assert board.ranking().version == 0
    assert ranker.left.unseen == spared


def test_what_cannot_be_ranked_is_not_tried_again_at_every_poll(deciding, monkeypatch):
    board, ranker = deciding
    tried = []
    monkeypatch.setattr("hitnet.review.ranking.fit_judges", lambda *_, **__: tried.append(1) or 1 / 0)
    board.decide([(number, "keep", "") for number in board.rows.ids[:20].tolist()])
    for _ in range(3):
        with contextlib.suppress(ZeroDivisionError):
            ranker.work()
    assert (len(tried), ranker.busy) == (1, False)
