"""Agreement of reviewers, against scikit-learn."""

import numpy as np
import pytest
from review_samples import open_folder
from sklearn.metrics import cohen_kappa_score

from hitnet.decisions.rules import kappa


@pytest.mark.parametrize("seed", range(5))
def test_kappa_is_cohens(seed):
    draw = np.random.default_rng(seed)
    first = draw.choice(["cat", "dog", "(drop)"], 50)
    second = np.where(draw.random(50) < 0.7, first, draw.choice(["cat", "dog", "cow"], 50))
    assert kappa(first.tolist(), second.tolist()) == pytest.approx(cohen_kappa_score(first, second))


def test_kappa_of_nothing_and_of_one_answer_is_undefined():
    assert kappa([], []) is None
    assert kappa(["a", "a"], ["a", "a"]) is None


def test_agreement_counts_images_that_both_decided_on(folder):
    anna, ben, third = (open_folder(folder, name).board for name in ("anna", "ben", "carl"))
    ids = anna.rows.ids.tolist()
    anna.decide([(number, "keep", "") for number in ids[:6]])
    assert anna.state()["agreement"] == []
    ben.decide([(number, "drop" if number == ids[4] else "keep", "") for number in ids[2:9]])
    third.decide([(ids[20], "drop", "")])
    anna.catch_up()
    (pair,) = anna.state()["agreement"]
    assert pair["reviewers"] == ["anna", "ben"]
    assert (pair["images"], pair["agree"]) == (4, 3)
    given = [anna.rows.class_names[k] for k in anna.rows.given[2:6]]
    expected = cohen_kappa_score(given, [*given[:2], "(drop)", given[3]])
    assert pair["kappa"] == pytest.approx(expected)
    anna.decide([(ids[4], "drop", "")])
    assert anna.state()["agreement"][0]["agree"] == 4
