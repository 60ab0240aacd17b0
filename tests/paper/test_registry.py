"""The book of the paper: what is wanted, by which recipes, against which claims."""

from dataclasses import replace

import pytest

from hitnet.cli.reproduce import PACKAGED
from hitnet.errors import HitNetError
from hitnet.paper import PAPER, Ledger, standing
from hitnet.paper.claims import MNIST_GHOSTS
from hitnet.paper.cost import H200, Costs
from hitnet.paper.ledger import RUN
from hitnet.paper.our_experiments import OURS
from hitnet.paper.records import full_runs
from hitnet.training import RECIPES


def test_every_result_is_made_of_known_experiments():
    used = {name for result in PAPER.results.values() for name in result.experiments}
    assert used == set(PAPER.experiments)
    assert set(PAPER.claims) <= set(PAPER.experiments)
    teachers = {one.teacher for one in PAPER.experiments.values() if one.teacher}
    assert teachers <= set(PAPER.experiments)


def test_names_are_not_shared_between_results_and_experiments():
    assert not set(PAPER.results) & set(PAPER.experiments)


def test_recipes():
    recipes = {name: one.full_recipe() for name, one in PAPER.experiments.items()}
    assert recipes["mnist-hitnet-constant"] == RECIPES["paper"]
    assert recipes["mnist-n2b-decay"] == RECIPES["paper-decay"]
    assert (recipes["affnist-hitnet"].shift, recipes["affnist-hitnet-shifts"].shift) == (0, 2)
    assert recipes["mnist-hybrid"].augment == "hybrid"
    ghosts = recipes["mnist-ghosts"]
    assert (ghosts.ghosts, ghosts.ghost_rule, ghosts.epochs) == (1, "always", 60)
    assert recipes["mnist-ghosts-250"] == replace(ghosts, epochs=250)
    assert all(one.read_ghosts[-1:] in ((), (one.epochs,)) for one in PAPER.experiments.values())
    assert recipes["mnist-capsnet"].epochs == recipes["mnist-hitnet-50"].epochs == 50
    shorter = {"mnist-ghosts", "svhn-ghosts", "mnist-capsnet", "mnist-hitnet-50", *(one.name for one in OURS)}
    assert {recipe.epochs for name, recipe in recipes.items() if name not in shorter} == {250}


def test_every_recorded_run_is_by_the_recipe_of_its_experiment():
    ledger = Ledger(PACKAGED)
    found = [full_runs(ledger, one) for one in PAPER.experiments.values()]
    assert sum(map(len, found)) == len(ledger.of(RUN)) > 0


def test_wanted_runs():
    wanted = {name: one.wanted for name, one in PAPER.experiments.items()}
    assert [wanted[f"mnist-{network}-constant"] for network in ("hitnet", "n1", "n2", "n2b")] == [20, 5, 5, 5]
    assert [wanted[f"mnist-{network}-decay"] for network in ("hitnet", "n1", "n2", "n2b")] == [10, 3, 3, 3]
    assert [wanted[name] for name in ("fashion-hitnet", "cifar10-hitnet", "svhn-hitnet")] == [5, 3, 3]
    assert wanted["mnist-ghosts"] == 20


def test_table_4_adds_up():
    assert sum(MNIST_GHOSTS.doubtful_pairs.values()) == MNIST_GHOSTS.doubtful == 71


def test_standing_of_an_empty_ledger(tmp_path):
    ledger = Ledger(tmp_path / "none.jsonl")
    now = standing(PAPER, "table1-constant", ledger, Costs(H200))
    assert (now.done, now.wanted) == (0, 35)
    assert 25 * 60 < now.seconds < 35 * 60
    assert standing(PAPER, "prototypes", ledger, Costs(H200)).wanted == 1


def test_unknown_names():
    with pytest.raises(HitNetError, match="Did you mean 'table1-decay'"):
        PAPER.of("table1-decoy")
