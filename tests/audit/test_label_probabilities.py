"""Probabilities that an audit exports, from judges that have seen the labels and from judges that have not."""

import numpy as np
import pytest
import torch
from audit_samples import mislabelled, quick_audit

import hitnet
from hitnet.audit.judgement import Case, Judgement
from hitnet.audit.labels import judged_audit
from hitnet.audit.results import PULL, TEMPERATURE, label_probabilities
from hitnet.features.opinions import Opinion
from hitnet.probabilities import class_probabilities, fit_temperature
from toy import toy_images

RANDOM = np.random.default_rng(0)
DISTANCES = RANDOM.uniform(0, 1.2, (40, 3)).astype(np.float32)
LABELS = RANDOM.integers(0, 3, 40)


def test_judges_that_have_not_seen_the_labels_are_calibrated_by_them():
    probabilities = label_probabilities(DISTANCES, LABELS, in_sample=0, error_rate=0.2)
    assert (probabilities == class_probabilities(DISTANCES, fit_temperature(DISTANCES, LABELS))).all()


@pytest.mark.parametrize("trained", [1.0, 0.5])
def test_the_pull_of_a_label_that_was_learned_is_taken_back(trained):
    probabilities = label_probabilities(DISTANCES, LABELS, in_sample=trained, error_rate=0.03)
    for row, label, chances in zip(DISTANCES.astype(float), LABELS, probabilities, strict=True):
        weights = [np.exp(-(d + (k == label) * PULL * trained) / TEMPERATURE) for k, d in enumerate(row)]
        np.testing.assert_allclose(chances, 0.97 * np.array(weights) / sum(weights) + 0.01, atol=1e-9)
    assert probabilities.max() < 0.98 + 1e-9


@pytest.mark.parametrize(
    ("in_sample", "capsules", "share"),
    [
        ("1111", "1111", 1.0),
        ("1111", "0101", 1.0),
        ("0000", "1100", 0.0),
        ("0110", "1110", 2 / 3),
        ("1110", "0000", 3 / 4),
    ],
)
def test_the_summary_says_how_many_judges_behind_the_distances_were_trained(in_sample, capsules, share):
    data = hitnet.open_data(toy_images(60))
    images = data.load("all")
    flags = zip(in_sample, capsules, strict=True)
    draws = RANDOM.uniform(0, 1.2, (4, 60, 3)).astype(np.float32)
    opinions = [Opinion("a judge", each, a == "1", b == "1") for each, (a, b) in zip(draws, flags, strict=True)]
    case = Case(data, images, "all", torch.device("cpu"))
    audit = judged_audit(case, Judgement(tuple(opinions), images, "m"), 0.0)
    assert audit.summary.in_sample == pytest.approx(share)
    shown = [each.distances for each in opinions if each.capsules] or [each.distances for each in opinions]
    order = audit.table["id"].tolist()
    np.testing.assert_allclose(audit.distances, np.mean(shown, axis=0)[order], rtol=1e-6)


def test_an_audit_gives_probabilities_in_the_order_of_its_table(tmp_path):
    audit = quick_audit(mislabelled(), out=tmp_path / "audit")
    expected = label_probabilities(
        audit.distances,
        np.array([audit.class_names.index(name) for name in audit.table["given"]]),
        in_sample=1.0,
        error_rate=(1 - audit.table["score"]).mean(),
    )
    np.testing.assert_allclose(audit.probabilities(), expected)
    np.testing.assert_allclose(hitnet.open_audit(audit.folder).probabilities(), expected)
