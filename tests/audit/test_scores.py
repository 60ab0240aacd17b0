"""Scores against plain loops in float64, their direction, and the rule of each flag."""

import math
import statistics

import numpy as np
import pytest
from audit_samples import judged_table

from hitnet.audit import scores
from hitnet.audit.margins import margins as margins_of
from hitnet.errors import HitNetError
from toy import toy_images


def random_case(models, images, classes, seed=0):
    random = np.random.default_rng(seed)
    distances = random.uniform(0, 1.5, (models, images, classes))
    labels = random.integers(0, classes, images)
    distances[:, np.arange(images), labels] *= random.choice([0.05, 1.0], images)
    return distances, labels


CASES = [random_case(5, 40, 4), random_case(3, 30, 2, seed=1), random_case(1, 25, 10, seed=2), random_case(1, 9, 2)]


def mean_of(distances, i):
    """Mean distance of each class over the networks, for image i."""
    models, _, classes = distances.shape
    return [sum(float(distances[m, i, k]) for m in range(models)) / models for k in range(classes)]


def nearest(row, leave_out=None):
    """The first class of the smallest distance."""
    best = None
    for k, value in enumerate(row):
        if k != leave_out and (best is None or value < row[best]):
            best = k
    return best


@pytest.mark.parametrize(("distances", "labels"), CASES)
def test_evidence_against_loops(distances, labels):
    evidence = margins_of(distances, labels)
    models = len(distances)
    for i, label in enumerate(labels.tolist()):
        mean = mean_of(distances, i)
        ghost = nearest(mean, leave_out=label)
        rows = [distances[m, i].tolist() for m in range(models)]
        margins = [row[label] - row[nearest(row, leave_out=label)] for row in rows]
        assert evidence.mean[i] == pytest.approx(mean)
        for k, spread in enumerate(evidence.spread[i].tolist()):
            assert spread == pytest.approx(statistics.pstdev([row[label] - row[k] for row in rows]), abs=1e-12)
        assert evidence.given_distance[i] == pytest.approx(mean[label])
        assert evidence.ghost[i] == ghost != label
        assert evidence.ghost_distance[i] == pytest.approx(mean[ghost])
        assert evidence.margin_mean[i] == pytest.approx(statistics.fmean(margins))
        assert evidence.margin_std[i] == pytest.approx(statistics.pstdev(margins), abs=1e-12)
        assert evidence.hits[i] == sum(row[label] <= 0.1 for row in rows)


def test_votes_are_the_networks_that_name_a_class():
    images = toy_images(40)
    distances = np.random.default_rng(0).uniform(0, 1.5, (5, 40, 3)).astype(np.float32)
    for row in judged_table(distances, images).itertuples():
        named = images.class_names.index(row.suggested)
        assert row.votes == sum(nearest(network[row.id].tolist()) == named for network in distances)


def prior_by_loops(doubts, labels, rivals, classes, strength=16):
    """The hit radius times the logarithms of the pair's rate of doubted labels and, halved, of their number."""
    doubted = [d > 0 for d in doubts]
    overall = max(sum(doubted) / len(doubts), 1 / len(doubts))
    prior = [[0.0] * classes for _ in range(classes)]
    for given in range(classes):
        for other in range(classes):
            members = [doubted[i] for i in range(len(doubts)) if (labels[i], rivals[i]) == (given, other)]
            rate = (sum(members) + strength) / (len(members) + strength / overall)
            even = overall * sum(label == given for label in labels) / (classes - 1)
            number = (sum(members) + strength) / (even + strength)
            prior[given][other] = 0.1 * math.log(rate / overall) + 0.05 * math.log(number)
    return prior


@pytest.mark.parametrize(("distances", "labels"), CASES)
def test_pair_prior_against_loops(distances, labels):
    doubts = np.random.default_rng(3).normal(-0.2, 0.3, len(labels))
    doubts[:4] = 0  # not above 0
    classes, rivals = distances.shape[2], margins_of(distances, labels).ghost
    for values in (doubts, -np.abs(doubts), np.abs(doubts)):
        prior = scores.pair_prior(scores.Doubt(values, rivals), labels, classes)
        expected = prior_by_loops(values.tolist(), labels.tolist(), rivals.tolist(), classes)
        assert prior == pytest.approx(np.array(expected), abs=1e-12)
    loose = scores.pair_prior(scores.Doubt(doubts, rivals), labels, classes, strength=2)
    expected = prior_by_loops(doubts.tolist(), labels.tolist(), rivals.tolist(), classes, 2)
    assert loose == pytest.approx(np.array(expected), abs=1e-12)


def test_a_pair_with_many_mistakes_is_doubted_more():
    """Of 40 images of one class 10 are doubted, all with the same rival: 30 in pair (0, 1), 10 in pair (0, 2)."""
    doubts = scores.Doubt(np.array([0.5] * 10 + [-0.5] * 30), np.array([1] * 30 + [2] * 10))
    prior = scores.pair_prior(doubts, np.zeros(40, dtype=np.int64), 3)
    assert prior[0, 1] == pytest.approx(0.1 * math.log(26 / (30 + 64) / 0.25) + 0.05 * math.log(26 / (5 + 16)))
    assert prior[0, 2] == pytest.approx(0.1 * math.log(16 / (10 + 64) / 0.25) + 0.05 * math.log(16 / (5 + 16)))
    assert prior[0, 1] > 0 > prior[0, 2]


def test_of_two_classes_as_near_the_frequent_confusion_is_the_rival():
    """30 images of class 0 are plainly of class 2; the last is as near to class 1, which comes first, as to 2."""
    wrong, even, right = [1.2, 1.3, 0.1], [1.2, 0.3, 0.3], [0.1, 1.2, 1.2]
    distances = np.array([[wrong] * 30 + [right] * 300 + [even]])
    labels = np.zeros(331, dtype=np.int64)
    evidence = margins_of(distances, labels)
    doubt = scores.doubt(evidence, labels)
    assert (evidence.ghost[-1], doubt.rival[-1]) == (1, 2)
    assert doubt.value[-1] > 0


def doubt_by_loops(distances, labels):
    """Value and rival of each image."""
    models, _, classes = distances.shape
    given = labels.tolist()
    margins = []
    for i, label in enumerate(given):
        rows = [distances[m, i].tolist() for m in range(models)]
        margins.append(statistics.fmean(row[label] - row[nearest(row, leave_out=label)] for row in rows))
    advantages = []
    for i, label in enumerate(given):
        of_class = [m for m, other in zip(margins, given, strict=True) if other == label]
        shift = statistics.median(of_class) - statistics.median(margins)
        gaps = [[distances[m, i, label] - distances[m, i, k] for m in range(models)] for k in range(classes)]
        row = [statistics.fmean(gap) - statistics.pstdev(gap) / 2 - shift / 2 for gap in gaps]
        row[label] = -math.inf
        advantages.append(row)
    first = [max(row) for row in advantages]
    rivals = [row.index(max(row)) for row in advantages]
    prior = prior_by_loops(first, given, rivals, classes)
    final = [
        [advantage + prior[label][k] for k, advantage in enumerate(row)]
        for row, label in zip(advantages, given, strict=True)
    ]
    return [max(row) for row in final], [row.index(max(row)) for row in final]


@pytest.mark.parametrize(("distances", "labels"), CASES)
def test_doubt_against_loops(distances, labels):
    evidence = margins_of(distances, labels)
    doubt = scores.doubt(evidence, labels)
    values, rivals = doubt_by_loops(distances, labels)
    assert doubt.value == pytest.approx(values)
    assert doubt.rival.tolist() == rivals
    assert (doubt.rival != labels).all()


def test_doubt_changes_none_of_the_evidence():
    distances, labels = CASES[0]
    evidence = margins_of(distances, labels)
    before = evidence.margin_mean.copy()
    scores.doubt(evidence, labels)
    assert evidence.margin_mean.tolist() == before.tolist()
    assert distances.tolist() == random_case(5, 40, 4)[0].tolist()


def test_score_is_the_logistic_function_of_doubt_in_hit_radii():
    doubts = np.linspace(-0.9, 0.9, 31)
    assert scores.score(doubts) == pytest.approx([1 / (1 + math.exp(d / 0.1)) for d in doubts.tolist()])
    far = scores.score(np.array([-1e6, 0.0, 1e6]))
    assert far[0] > 1 - 1e-12
    assert far[1] == 0.5
    assert 0 < far[2] < 1e-12


def test_direction_0_is_surely_wrong_and_1_surely_right():
    """A worse label has a lower score."""
    right, unsure, wrong = [0.05, 1.5, 1.5], [0.3, 0.35, 1.5], [1.5, 0.02, 1.5]
    distances = np.array([[right, unsure, wrong, right, right]])
    labels = np.zeros(5, dtype=np.int64)
    values = scores.score(scores.doubt(margins_of(distances, labels), labels).value)
    assert values[0] > 0.99
    assert values[0] > values[1] > values[2]
    assert values[2] < 0.5


def test_a_spread_over_the_networks_lowers_the_doubt():
    agreed = np.array([[0.9, 0.4]] * 4)
    split = np.array([[0.9, 0.0], [0.9, 0.8], [0.9, 0.0], [0.9, 0.8]])
    labels = np.zeros(2, dtype=np.int64)
    evidence = margins_of(np.stack([agreed, split], axis=1), labels)
    assert evidence.margin_mean == pytest.approx([0.5, 0.5])
    doubts = scores.doubt(evidence, labels).value
    assert doubts[0] - doubts[1] == pytest.approx(0.5 * 0.4)


def test_a_class_that_is_hard_as_a_whole_is_doubted_less():
    """The same margin counts for less in a class whose margins are all high."""
    margins = [-0.9, -0.9, -0.9, 0.1, -0.1, -0.1, -0.1, 0.1]
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    distances = np.array([[[1.0, 1.0]] * 8])
    for i, (margin, label) in enumerate(zip(margins, labels.tolist(), strict=True)):
        distances[0, i, label] = 1.0 + margin
    doubts = scores.doubt(margins_of(distances, labels), labels).value
    # Medians: -0.9 and -0.1, of all -0.1; so the first class's doubts rise by 0.4. Both pairs have the same rate.
    assert doubts == pytest.approx([-0.5, -0.5, -0.5, 0.5, -0.1, -0.1, -0.1, 0.1])


def plain_doubt(evidence):
    """The mean margin as doubt."""
    return scores.Doubt(evidence.margin_mean, evidence.ghost)


def flag_of(*rows, label=0):
    """Flag of one image with these distances in one network each."""
    distances = np.array(rows, dtype=np.float64)[:, None, :]
    labels = np.array([label])
    evidence = margins_of(distances, labels)
    (flag,) = scores.flags(evidence, plain_doubt(evidence))
    return flag


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
    assert flag_of(row) == flag
    assert flag_of(row, row) == flag


def test_as_many_as_are_expected_to_be_wrong_are_at_least_doubtful():
    """None of the classes, wrong, two labels, and three labels that fit better and better."""
    rows = [[1.3, 0.95, 1.3], [1.2, 0.05, 1.3], [0.1, 0.39, 1.3], [0.1, 0.5, 1.3], [0.1, 0.6, 1.3], [0.1, 0.7, 1.3]]
    evidence = margins_of(np.array([rows]), np.zeros(6, dtype=np.int64))
    doubts = plain_doubt(evidence)
    assert np.argsort(-doubts.value).tolist() == [1, 0, 2, 3, 4, 5]
    others = ["none of the classes", "wrong", "ambiguous: two labels"]
    for expected in range(8):
        doubtful = min(max(0, expected - 3), 3)
        flags = scores.flags(evidence, doubts, expected=expected)
        assert flags == [*others, *["doubtful"] * doubtful, *["ok"] * (3 - doubtful)]
    not_sure = scores.flags(evidence, doubts, np.zeros(6, np.bool_), expected=2)
    assert not_sure == ["none of the classes", "doubtful", "ambiguous: two labels", "ok", "ok", "ok"]


def test_two_labels_need_both_classes_near():
    """With doubts that forgive a positive margin, as a spread over the networks does."""
    rows = [[0.45, 0.4, 1.3], [0.5, 0.45, 1.3], [0.45, 0.5, 1.3], [0.51, 0.45, 1.3], [0.45, 0.51, 1.3]]
    evidence = margins_of(np.array([rows]), np.zeros(5, dtype=np.int64))
    doubts = scores.Doubt(np.full(5, -0.04), evidence.ghost)
    assert scores.flags(evidence, doubts) == ["ambiguous: two labels", "ok", "ok", "ok", "ok"]


def test_the_second_of_two_labels_is_the_one_that_is_suggested():
    evidence = margins_of(np.array([[[0.4, 0.45, 0.56]] * 2]), np.zeros(2, dtype=np.int64))
    doubts = scores.Doubt(np.full(2, -0.04), np.array([1, 2]))  # class 2, the rival of the second, is too far away
    flags = scores.flags(evidence, doubts)
    assert flags == ["ambiguous: two labels", "ok"]
    assert scores.suggest(doubts, np.zeros(2, dtype=np.int64), flags).tolist() == [1, 0]


def test_the_rival_is_suggested_where_the_label_is_doubted():
    distances, labels = random_case(2, 400, 3, seed=5)
    evidence = margins_of(distances, labels)
    doubts = scores.doubt(evidence, labels)
    flags = scores.flags(evidence, doubts)
    suggested = scores.suggest(doubts, labels, flags)
    for i, flag in enumerate(flags):
        doubted = flag == "ambiguous: two labels" or doubts.value[i] > 0
        assert suggested[i] == (doubts.rival[i] if doubted else labels[i])
    assert (suggested[np.array(flags) == "ok"] == labels[np.array(flags) == "ok"]).all()


def test_of_an_image_that_fits_no_class_only_a_nearer_one_is_suggested():
    labels = np.array([0, 0])
    evidence = margins_of(np.array([[[0.95, 1.6, 1.7], [1.6, 0.95, 1.7]]]), labels)
    doubts = plain_doubt(evidence)
    flags = scores.flags(evidence, doubts)
    assert flags == ["none of the classes"] * 2
    assert scores.suggest(doubts, labels, flags).tolist() == [0, 1]


def test_every_flag_has_its_rule_in_words():
    distances, labels = random_case(2, 400, 3, seed=5)
    evidence = margins_of(distances, labels)
    doubts = scores.doubt(evidence, labels)
    flags = scores.flags(evidence, doubts, expected=int((doubts.value > -0.2).sum()))
    assert set(flags) == set(scores.FLAGS)
    assert "nearer than 0.5 on average, less than 0.3 apart" in scores.FLAGS["ambiguous: two labels"]
    assert "distance of at least 0.9" in scores.FLAGS["none of the classes"]


def test_ties_go_to_the_first_class():
    distances = np.array([[[0.5, 0.2, 0.2], [0.2, 0.2, 0.2]]])
    evidence = margins_of(distances, np.array([0, 1]))
    assert evidence.ghost.tolist() == [1, 0]
    assert evidence.margin_mean == pytest.approx([0.3, 0.0])


def test_the_hit_radius_itself_is_a_hit():
    assert margins_of(np.array([[[0.1, 1.0]]]), np.array([0])).hits.tolist() == [1]
    assert margins_of(np.array([[[0.1001, 1.0]]]), np.array([0])).hits.tolist() == [0]


def test_mistakes_are_named():
    distances, labels = CASES[0]
    with pytest.raises(HitNetError, match=r"distances must be \(M, 39, K\); got \(5, 40, 4\)"):
        margins_of(distances, labels[:-1])
    with pytest.raises(HitNetError, match="got \\(40, 4\\)"):
        margins_of(distances[0], labels)
    with pytest.raises(HitNetError, match=r"distances must be \(M, 40, K\); got \(40, 40\)"):
        margins_of(np.ones((40, 40)), labels)
