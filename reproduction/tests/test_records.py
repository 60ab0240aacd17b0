"""Records of runs: what counts, and statistics over several against naive computations."""

import math
from dataclasses import replace

import pytest
from scipy import stats
from toy_book import add, record

from hitnet import HitNetError
from reproduction import PAPER, Ledger
from reproduction.ledger import ANALYSIS, RUN, Entry
from reproduction.measures import Sample, contrast, difference, summarise
from reproduction.missing_runs import OWN_LEDGER
from reproduction.records import full_runs, why_not_full

T_975 = {1: 12.706205, 2: 4.302653}  # Student's t, from a printed table


def test_every_recorded_run_is_by_the_recipe_of_its_experiment():
    ledger = Ledger(OWN_LEDGER)
    runs = [full_runs(ledger, experiment) for experiment in PAPER.experiments.values()]
    assert sum(map(len, runs)) == len(ledger.select(RUN)) > 400


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"images": 7}, "7 of 48 training images"),
        ({"epochs": 1}, "1 of 2 epochs"),
        ({"wrong": [1]}, "of 2 epochs"),
        ({"final_tested": 3}, "tested on 3"),
        ({"tested": 3}, "tested on"),
        ({"network": "n1"}, "n1 on"),
        ({"data": "other"}, "hitnet-small on other"),
        ({"model_options": {"norm": "shared"}}, "hitnet-small with {'norm': 'shared'}"),
    ],
)
def test_a_line_that_claims_to_be_full_but_is_not_is_refused(book, ledger, changes, says):
    toy = book.experiments["toy"]
    run = record(toy, **changes)
    assert says in why_not_full(run, toy)
    add(ledger, toy, 0, run)
    with pytest.raises(HitNetError, match=r"line 1 .* full run of toy"):
        full_runs(ledger, toy)


def test_another_recipe_does_not_count(book):
    toy = book.experiments["toy"]
    assert why_not_full(record(toy), toy) is None
    other = {**toy.full_recipe().to_dict(), "shift": 0}
    assert why_not_full(record(toy, recipe=other), toy) == "another recipe"
    smaller = replace(toy, model_options={"capsule_dim": 4})
    assert why_not_full(record(toy), smaller) == "it is hitnet-small with {'capsule_dim': 16}"
    assert why_not_full(record(smaller), smaller) is None


def test_a_new_default_of_an_option_that_is_off_leaves_runs_what_they_are(book):
    toy = book.experiments["toy"]
    other = {**toy.full_recipe().to_dict(), "augment_share": 0.75}
    assert why_not_full(record(toy, recipe=other), toy) is None


def test_records_from_before_teachers_and_model_options_count(book, ledger):
    toy = book.experiments["toy"]
    facts = {key: value for key, value in record(toy).to_facts().items() if key not in ("teacher", "model_options")}
    ledger.add(Entry(RUN, "toy", (0,), facts))
    assert full_runs(ledger, toy) == {0: record(toy)}


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts | {"mood": 1},
        lambda facts: {"images": facts["images"]},
        lambda facts: facts | {"recipe": facts["recipe"] | {"speed": 1}},
    ],
)
def test_a_record_of_an_unknown_form_is_named(book, ledger, change):
    ledger.add(Entry(RUN, "toy", (0,), change(record(book.experiments["toy"]).to_facts())))
    with pytest.raises(HitNetError, match="line 1: the record of toy"):
        full_runs(ledger, book.experiments["toy"])


def test_a_run_of_another_head_does_not_count(ledger):
    hit, soft = PAPER.experiments["cifar10-resnet9"], PAPER.experiments["cifar10-resnet9-softmax"]
    plain = record(hit)
    assert why_not_full(plain, hit) is None
    assert "'head': 'hit-or-miss'" in why_not_full(plain, soft)
    assert "softmax" in why_not_full(replace(plain, model_options=soft.full_options), hit)
    add(ledger, soft, 0, plain)
    with pytest.raises(HitNetError, match="cifar10-resnet9-softmax"):
        full_runs(ledger, soft)


def test_an_analysis_of_other_networks_than_the_runs_is_refused(page, book, ledger):
    ghosts = book.experiments["toy-ghosts"]
    for seed in range(2):
        add(ledger, ghosts, seed, record(ghosts, weights=f"w{seed}"))
    ledger.add(Entry(ANALYSIS, "toy-ghosts", (0, 1), {"weights": ["w0", "w9"]}))
    with pytest.raises(HitNetError, match=r"line 3: .*w9.* seed 1 .*w1"):
        page(book)


def naive_std(values):
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


@pytest.fixture
def long_runs(book):
    """Three runs of 120 epochs that settle at different errors and swing differently."""
    runs = []
    for index, (level, swing) in enumerate([(3, 1), (4, 2), (6, 0)]):
        wrong = [12] * 20 + [level + swing * ((epoch + index) % 2) for epoch in range(100)]
        runs.append(record(book.experiments["toy"], wrong, epochs=120))
    return runs


def test_against_naive_sums(long_runs):
    summary = summarise(long_runs)
    errors = [100 * run.final_wrong / 12 for run in long_runs]
    std = naive_std(errors)
    assert summary.runs == 3
    assert summary.mean == pytest.approx(sum(errors) / 3)
    assert summary.std == pytest.approx(std)
    assert summary.best == min(errors)
    assert summary.margin == pytest.approx(T_975[2] * std / math.sqrt(3), rel=1e-6)
    assert summary.interval == pytest.approx((summary.mean - summary.margin, summary.mean + summary.margin))
    swings = [naive_std([100 * count / 12 for count in run.wrong[-100:]]) for run in long_runs]
    assert summary.irregularity == pytest.approx(sum(swings) / 3)


def test_the_error_is_that_of_the_last_epoch_not_the_lowest(book):
    run = record(book.experiments["toy"], [1, 9])
    assert run.error == 75
    assert summarise([run]).best == 75


def test_what_few_runs_do_not_allow(book):
    assert summarise([]) is None
    single = summarise([record(book.experiments["toy"], [5, 3])])
    assert (single.runs, single.mean) == (1, 25)
    assert single.std is single.margin is single.interval is single.irregularity is None
    two = summarise([record(book.experiments["toy"], [5, wrong]) for wrong in (3, 6)])
    assert two.std == pytest.approx(naive_std([25, 50]))
    assert two.margin == pytest.approx(T_975[1] * two.std / math.sqrt(2), rel=1e-6)


def test_two_means_against_welch_by_hand():
    a, b = [25.0, 33.3, 50.0], [41.6, 75.0]
    between = difference(a, b)
    assert between.mean == pytest.approx(sum(a) / 3 - sum(b) / 2)
    parts = naive_std(a) ** 2 / 3, naive_std(b) ** 2 / 2
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 1)
    assert between.margin == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(sum(parts)))
    assert between.interval == pytest.approx((between.mean - between.margin, between.mean + between.margin))


def test_a_weighted_sum_of_means_has_the_spread_of_all_that_is_known():
    a, b = [25.0, 33.3, 50.0], [41.6, 75.0]
    published = Sample(30.0, 4.0, 20)
    between = contrast([(1, Sample.of(a)), (-2, Sample.of(b)), (-1, published), (1, Sample(7.0, None, 1))])
    assert between.mean == pytest.approx(sum(a) / 3 - 2 * sum(b) / 2 - 30 + 7)
    parts = naive_std(a) ** 2 / 3, 4 * naive_std(b) ** 2 / 2, 16 / 20
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 1 + parts[2] ** 2 / 19)
    assert between.margin == pytest.approx(stats.t.ppf(0.975, freedom) * math.sqrt(sum(parts)))


def test_means_of_single_runs_are_not_compared():
    assert difference([25.0], [25.0, 26.0]) is difference([25.0, 26.0], []) is None
    assert difference([25.0] * 2, [25.0] * 2).interval == (0, 0)


def test_an_error_over_ten_epochs_is_their_mean(book):
    run = record(book.experiments["toy"], [12, *range(1, 21)])
    assert run.error_by(12) == pytest.approx(100 * sum(range(2, 12)) / 10 / run.tested)
    assert run.error_by(3) == pytest.approx(100 * (12 + 1 + 2) / 3 / run.tested)
