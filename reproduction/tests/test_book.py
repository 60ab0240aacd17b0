"""The book of the paper: which names it knows, and how far each result has come."""

import pytest

from hitnet import HitNetError
from reproduction import PAPER, Ledger, completion
from reproduction.cost import H200, Costs


def test_every_result_is_made_of_known_experiments():
    used = {name for result in PAPER.results.values() for name in result.experiments}
    assert used == set(PAPER.experiments)
    assert set(PAPER.claims) <= set(PAPER.experiments)
    teachers = {experiment.teacher for experiment in PAPER.experiments.values() if experiment.teacher}
    assert teachers <= set(PAPER.experiments)


def test_names_are_not_shared_between_results_and_experiments():
    assert not set(PAPER.results) & set(PAPER.experiments)


def test_how_far_an_empty_ledger_is(tmp_path):
    ledger = Ledger(tmp_path / "none.jsonl")
    now = completion(PAPER, "table1-constant", ledger, Costs(H200))
    assert (now.done, now.wanted) == (0, 50)
    assert 33 * 60 < now.seconds < 45 * 60
    assert completion(PAPER, "prototypes", ledger, Costs(H200)).wanted == 1


def test_unknown_names():
    with pytest.raises(HitNetError, match="Did you mean 'table1-decay'"):
        PAPER.look_up("table1-decoy")
