"""The rule of each flag, and what scores come to."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from audit_samples import judged_table, nearest
from scipy.special import softmax

from hitnet.audit import scoring
from hitnet.audit.margins import margins as margins_of
from hitnet.audit.noise_model import fit_noise_model
from hitnet.features.opinions import Opinion
from toy import toy_images


def test_votes_are_the_networks_that_name_a_class():
    images = toy_images(40)
    distances = np.random.default_rng(0).uniform(0, 1.5, (5, 40, 3)).astype(np.float32)
    for row in judged_table(distances, images).itertuples():
        named = images.class_names.index(row.suggested)
        assert row.votes == sum(nearest(network[row.id].tolist()) == named for network in distances)


def flags_of(rows, doubt=None, wrong=None, expected=0):
    """Flags of images of class 0 with these distances in one network; doubt and rival by the margin."""
    labels, lonely = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), np.bool_)
    evidence = margins_of(np.array([rows], dtype=np.float64), labels)
    doubt = evidence.margin_mean if doubt is None else np.array(doubt)
    wrong = doubt > 0 if wrong is None else wrong
    return scoring.flag_labels(evidence, doubt, evidence.ghost, wrong, lonely, expected=expected)


@pytest.mark.parametrize(
    ("row", "flag"),
    [
        ([0.05, 1.2, 1.3], "ok"),
        ([0.89, 1.2, 1.3], "ok"),
        ([0.9, 0.95, 1.3], "none of the classes"),
        ([1.3, 0.9, 1.3], "none of the classes"),  # comes before wrong
        ([1.2, 0.05, 1.3], "wrong"),
        ([0.42, 0.41, 1.3], "wrong"),  # comes before ambiguous
        ([0.1, 0.39, 1.3], "ambiguous: two labels"),
        ([0.1, 0.41, 1.3], "ok"),  # more than 0.3 apart
        ([0.3, 0.49, 1.3], "ambiguous: two labels"),
        ([0.3, 0.51, 1.3], "ok"),  # the other is beyond halfway
        ([0.51, 0.6, 1.3], "ok"),
        ([0.4, 0.4, 1.3], "ambiguous: two labels"),  # a tie is not wrong
    ],
)
def test_each_rule(row, flag):
    assert flags_of([row]) == [flag]


def test_as_many_as_are_expected_to_be_wrong_are_at_least_doubtful():
    """None of the classes, wrong, two labels, and three labels that fit better and better."""
    rows = [[1.3, 0.95, 1.3], [1.2, 0.05, 1.3], [0.1, 0.39, 1.3], [0.1, 0.5, 1.3], [0.1, 0.6, 1.3], [0.1, 0.7, 1.3]]
    others = ["none of the classes", "wrong", "ambiguous: two labels"]
    for expected in range(8):
        doubtful = min(max(0, expected - 3), 3)
        assert flags_of(rows, expected=expected) == [*others, *["doubtful"] * doubtful, *["ok"] * (3 - doubtful)]
    not_sure = flags_of(rows, wrong=np.zeros(6, np.bool_), expected=2)
    assert not_sure == ["none of the classes", "doubtful", "ambiguous: two labels", "ok", "ok", "ok"]


def test_two_labels_need_both_classes_near():
    rows = [[0.45, 0.4, 1.3], [0.5, 0.45, 1.3], [0.45, 0.5, 1.3], [0.51, 0.45, 1.3], [0.45, 0.51, 1.3]]
    assert flags_of(rows, doubt=[-1] * 5) == ["ambiguous: two labels", "ok", "ok", "ok", "ok"]


def test_every_flag_has_its_rule_in_words():
    rows = [[1.3, 0.95, 1.3], [1.2, 0.05, 1.3], [0.1, 0.39, 1.3], [0.1, 0.5, 1.3], [0.1, 0.7, 1.3]]
    assert {*flags_of(rows, expected=4)} == {*scoring.FLAGS}
    assert "nearer than 0.5 on average, less than 0.3 apart" in scoring.FLAGS["ambiguous: two labels"]
    assert "distance of at least 0.9" in scoring.FLAGS["none of the classes"]


def opinions_of(count=600, classes=5, share=0.08, seed=0, in_sample=False, noise=0.25):
    """Opinions of three judges that know most images, labels of which a share is wrong, and the truth."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, classes, count)
    given = truth.copy()
    chosen = draw.choice(count, round(share * count), replace=False)
    given[chosen] = (truth[chosen] + draw.integers(1, classes, len(chosen))) % classes
    common = noise * draw.uniform(0, 1, (count, 1)) * draw.normal(size=(count, classes))
    each = np.abs(1 - 0.8 * np.eye(classes)[truth] + common + 0.1 * draw.normal(size=(3, count, classes)))
    kinds = ("heads", "heads", "neighbours")
    return (
        [Opinion(k, d.astype(np.float32), in_sample, k == "heads") for k, d in zip(kinds, each, strict=True)],
        given,
        truth,
    )


def test_logits_are_by_kind():
    opinions, _, _ = opinions_of(count=20)
    found = scoring.logits_by_kind(opinions).numpy()
    heads = (opinions[0].distances.astype(np.float64) + opinions[1].distances) / 2
    assert found == pytest.approx(-10 * np.stack([heads, opinions[2].distances]), abs=1e-4)


def test_scores_are_probabilities_and_the_count_is_their_sum():
    for seed in range(3):
        opinions, given, truth = opinions_of(seed=seed)
        scored = scoring.score_labels(opinions, given)
        wrong = given != truth
        # The scores are the probabilities of the model; the order is that by judges who are less sure of some images.
        logits = scoring.logits_by_kind(opinions)
        model = fit_noise_model(logits, torch.from_numpy(given))
        right = model.posterior.numpy()[np.arange(len(given)), given]
        assert np.sort(scored.score) == pytest.approx(np.sort(right), abs=1e-5)
        order = np.argsort(-scored.doubt, kind="stable")
        assert (np.diff(scored.score[order]) >= 0).all()
        summed = np.einsum("j,jnk->nk", model.weights.numpy(), logits.numpy())
        prior = 0.9 * softmax(summed, axis=1) + 0.1 * softmax(summed / 2, axis=1)
        joint = prior * model.errors.numpy().T[given]
        own = joint[np.arange(len(given)), given]
        others = (joint * (np.arange(5) != given[:, None])).sum(axis=1)
        assert scored.doubt == pytest.approx(np.log(others / own), abs=1e-4)
        assert 1 / 1.3 < (1 - scored.score).sum() / wrong.sum() < 1.3
        low, high = scored.error_range
        assert 0 <= low <= wrong.sum() <= high <= len(given)
        flagged = np.array(scored.flag) == "wrong"
        assert wrong[flagged].mean() >= 0.85
        assert flagged.sum() > 0.5 * wrong.sum()
        assert (scored.suggested[flagged & wrong] == truth[flagged & wrong]).mean() > 0.9
        assert f"{flagged.sum()} are flagged as wrong; about" in scored.sentence


def test_the_sentence_counts_the_labels_that_have_the_flag():
    opinions, given, _ = opinions_of()
    first = int(np.argmax(scoring.score_labels(opinions, given).doubt))
    for opinion in opinions:
        opinion.distances[first] += 1  # no class fits: another flag
    scored = scoring.score_labels(opinions, given)
    assert scored.flag[first] == "none of the classes"
    assert f"{scored.flag.count('wrong')} are flagged as wrong; about" in scored.sentence


def test_networks_that_have_seen_the_labels_say_no_number():
    opinions, given, truth = opinions_of(in_sample=True)
    scored = scoring.score_labels(opinions, given)
    assert scored.error_range is None
    assert scored.sentence is None
    first = np.argsort(-scored.doubt)[: (given != truth).sum()]
    assert (given != truth)[first].mean() > 0.8
    assert all(flag != "wrong" or score < 0.5 for flag, score in zip(scored.flag, scored.score, strict=True))


def test_they_join_those_that_have_not():
    opinions, given, _ = opinions_of()
    alone = scoring.score_labels(opinions, given)
    seen = np.full((len(given), 5), 0.5, np.float32)
    seen[0] = np.where(np.arange(5) == given[0], 1.5, 0.0)  # a network that is sure that the first label is wrong
    network = Opinion("networks", seen, in_sample=True, capsules=True)
    assert scoring.score_labels([*opinions, network], given).doubt.tolist() == alone.doubt.tolist()
    assert scoring.score_labels([*opinions, replace(network, weight=0.0)], given).doubt.tolist() == alone.doubt.tolist()
    joined = scoring.score_labels([*opinions, replace(network, weight=0.5)], given)
    assert joined.score[0] < alone.score[0]
    assert np.sort(joined.score) == pytest.approx(np.sort(alone.score))
    assert joined.sentence == alone.sentence


def test_too_few_errors_to_count_are_told():
    opinions, given, _ = opinions_of(count=60, share=0.03)
    scored = scoring.score_labels(opinions, given)
    assert scored.error_range is None
    assert "Too few labels are contradicted" in scored.sentence
    assert "wrong" not in scored.flag


def test_a_count_without_flags_is_told():
    probability = np.full(100, 0.6)
    nothing = np.zeros(100, np.bool_)
    assert not scoring.flagged(probability).any()
    (low, high), sentence = scoring.count_errors(probability, nothing, nothing)
    assert "no single label is sure enough" in sentence
    assert (low, high) == pytest.approx((60 / 1.35 - 2 * math.sqrt(24), 100))


def test_flagged_labels_keep_the_promised_precision():
    probability = np.random.default_rng(0).uniform(0, 1, 300)
    chosen = scoring.flagged(probability)
    assert probability[chosen].mean() >= 0.9
    assert probability[chosen].min() > probability[~chosen].max()
    one_more = np.sort(probability)[::-1][: chosen.sum() + 1]
    assert one_more.mean() < 0.9


def test_the_label_of_a_single_image_is_not_judged(caplog):
    opinions, given, _ = opinions_of(classes=5)
    given[given == 4] = 3
    given[7] = 4
    scored = scoring.score_labels(opinions, given)
    assert "1 class has a single image" in caplog.text
    assert (scored.score[7], scored.doubt[7], scored.suggested[7]) == (0.5, 0.0, 4)
    assert scored.flag[7] == "ok"


def test_the_second_of_two_labels_is_the_one_that_is_suggested():
    opinions, given, _ = opinions_of()
    for opinion in opinions:
        opinion.distances[0] = 1.3
        opinion.distances[0, given[0]] = 0.3
        opinion.distances[0, (given[0] + 1) % 5] = 0.35
    scored = scoring.score_labels(opinions, given)
    assert scored.doubt[0] < 0
    assert scored.flag[0] == "ambiguous: two labels"
    assert scored.suggested[0] == (given[0] + 1) % 5
