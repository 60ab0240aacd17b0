"""What benchmarks/none_of_these.py measures."""

import itertools

import pytest
import torch

import hitnet
from parts import foreign


def test_detection_against_a_count_of_pairs():
    draw = torch.Generator().manual_seed(0)
    known, other = torch.randn(60, generator=draw) + 1, torch.randn(40, generator=draw)
    row = foreign.detection(known, other)
    pairs = [inside > outside for inside, outside in itertools.product(known.tolist(), other.tolist())]
    assert row["auroc"] == pytest.approx(sum(pairs) / len(pairs))
    lowest = sorted(known.tolist())[3]  # 57 of 60 reach it
    assert row["fpr95"] == pytest.approx(sum(value >= lowest for value in other.tolist()) / 40)


def test_scores_are_higher_for_images_that_fit():
    distances = torch.tensor([[0.05, 1.2, 1.3], [0.8, 0.9, 1.0]])
    logits = torch.tensor([[9.0, 0.0, 0.0], [1.0, 0.5, 0.0]])
    for scores in (foreign.capsule_scores(distances), foreign.softmax_scores(logits)):
        for score in scores.values():
            assert score[0] > score[1]


def test_answers_are_counted_on_images_that_did_not_set_the_limit():
    """One capsule at d, the others far away: the misfit grows with d beyond 0.1."""
    setting, tried = torch.linspace(0.11, 0.5, 20), torch.cat([torch.full((15,), 0.2), torch.full((5,), 1.0)])
    known, other = torch.cat([setting, tried])[:, None], torch.tensor([[0.3], [0.6], [0.95], [2.0]])
    far = torch.full((40, 1), 3.0)
    row = foreign.answers(torch.cat([known, far], dim=1), torch.cat([other, far[:4]], dim=1))
    limit = hitnet.misfit(torch.tensor([[sorted(setting.tolist())[18], 3.0]]))
    assert row["largest_misfit"] == pytest.approx(limit.item(), abs=2e-4)
    assert (row["known_none_if_all_miss"], row["known_none_by_misfit"]) == (0.25, 0.25)
    assert (row["foreign_none_if_all_miss"], row["foreign_none_by_misfit"]) == (0.5, 0.75)


def test_rows_of_a_head_say_how_often_it_is_wrong():
    labels, logits = torch.arange(40) % 2, torch.zeros(40, 2)
    logits[torch.arange(40), labels] = 1.0
    logits[0] = -logits[0]
    other = torch.full((10, 2), 0.5)
    (largest, energy), capsules = (
        foreign.score_rows(head, logits, other, labels) for head in ("softmax", "hit-or-miss")
    )
    assert largest["error_percent"] == energy["error_percent"] == 2.5
    assert capsules[0]["error_percent"] == 97.5
    assert "largest_misfit" in capsules[0]
    assert "largest_misfit" not in largest
