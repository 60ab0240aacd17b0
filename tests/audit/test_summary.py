"""The figures of an audit recomputed in plain loops."""

import json

import numpy as np
import pytest
import torch
from audit_samples import judged_table

from hitnet import HitNetError, Images
from hitnet.audit.audit_table import ClassHealth, Summary, summarise
from toy import toy_images


@pytest.fixture(scope="module")
def case():
    """Four classes, the last without images, and random distances in three networks."""
    images = toy_images(200)
    names = (*images.class_names, "band 3")
    images = Images(images.pixels, images.labels, names, "toy", images.ids)
    random = np.random.default_rng(4)
    distances = random.uniform(0.2, 1.4, (3, 200, 4)).astype(np.float32)
    given_distances = random.choice([0.05, 0.5, 1.2], 200, p=[0.7, 0.2, 0.1])
    distances[:, np.arange(200), images.labels.numpy()] = given_distances + random.uniform(0, 0.05, (3, 200))
    table = judged_table(distances, images)
    return table, images, summarise(table, names, data="toy", source="toy.npz", models=3, model="m")


def test_flags_and_expected_errors(case):
    table, _, summary = case
    counts = {}
    expected = 0.0
    for row in table.itertuples():
        counts[row.flag] = counts.get(row.flag, 0) + 1
        expected += 1 - row.score
    assert summary.flags == counts
    assert summary.expected_errors == pytest.approx(expected)
    assert (summary.data, summary.images, summary.models) == ("toy", 200, 3)


def test_classes(case):
    table, images, summary = case
    assert [row.name for row in summary.classes] == list(images.class_names) == summary.class_names
    for health in summary.classes[:3]:
        rows = [row for row in table.itertuples() if row.given == health.name]
        scores = [row.score for row in rows]
        assert health.images == len(rows)
        assert health.suspects == sum(row.flag != "ok" for row in rows) > 0
        assert health.expected_errors == pytest.approx(sum(1 - s for s in scores))
        assert health.mean_score == pytest.approx(sum(scores) / len(scores))
    assert summary.classes[3] == ClassHealth("band 3", 0, 0, 0.0, None)


def test_pairs(case):
    table, _, summary = case
    wrong = [(row.given, row.suggested) for row in table.itertuples() if row.flag == "wrong"]
    assert wrong
    assert {(given, other): count for given, other, count in summary.pairs} == {
        pair: wrong.count(pair) for pair in wrong
    }
    counts = [count for _, _, count in summary.pairs]
    assert counts == sorted(counts, reverse=True)


def test_it_is_plain_json_and_comes_back(case, tmp_path):
    plain = json.loads(json.dumps(case[2].to_json()))
    assert plain == case[2].to_json()
    assert Summary.from_json(plain, tmp_path) == case[2]
    assert Summary.from_json(plain | {"something": "else"}, tmp_path) == case[2]


@pytest.mark.parametrize("change", [{"flags": {"ok": "1"}}, {"classes": [{"name": "a"}]}, {"pairs": [[None]]}])
def test_what_is_no_summary_is_refused(case, tmp_path, change):
    with pytest.raises(HitNetError, match="is damaged"):
        Summary.from_json(case[2].to_json() | change, tmp_path)


def test_an_audit_without_suspects():
    images = toy_images(6)
    distances = torch.nn.functional.one_hot(images.labels, 3).float().mul(-1.2).add(1.25).numpy()[None]
    summary = summarise(
        judged_table(distances, images), images.class_names, data="toy", source="x", models=1, model="m"
    )
    assert summary.flags == {"ok": 6}
    assert summary.pairs == []
    assert summary.expected_errors < 0.01
