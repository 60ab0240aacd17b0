"""Opinions that are kept on the classes near an image: against plain loops, and beside opinions on all classes."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from audit_samples import make_images

import hitnet
from feature_samples import blobs
from hitnet.audit import audit_folder, noise_model
from hitnet.audit.feature_judges import judge_features
from hitnet.audit.judgement import Case, Judgement
from hitnet.audit.labels import judged_audit
from hitnet.audit.margins import doubt, margins
from hitnet.audit.noise_model import (
    beats_chance,
    confusions,
    error_matrix,
    even_errors,
    fit_noise_model,
    label_chances,
    log_prior,
    surest,
)
from hitnet.audit.rows import Rows
from hitnet.audit.scoring import logits_by_kind, score_labels
from hitnet.errors import HitNetError
from hitnet.features import opinions as module
from hitnet.features.opinions import (
    Opinion,
    at_classes,
    class_at,
    column_of,
    kept_classes,
    near_classes,
    on_same_classes,
)
from hitnet.review.evidence import Evidence


def simulated(count, classes, *, seed=0, hard=1.3, rate=0.1):
    """Opinions of four judges that err together, on all classes; the labels, of which a tenth is wrong; the truth."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, classes, count)
    near = (truth // 4 * 4 + (truth + draw.integers(1, 4, count)) % 4) % classes
    other = np.where(draw.random(count) < 0.5, near, (truth + draw.integers(1, classes, count)) % classes)
    given = np.where(draw.random(count) < rate, other, truth)
    group = (truth // 4)[:, None] == np.arange(classes) // 4
    shared = np.eye(classes)[truth] * 0.55 + group * 0.15 + hard * 0.12 * draw.normal(size=(count, classes))
    kinds = {"heads": 0.9, "softmax": 0.7, "least squares": 0.6, "neighbours": 0.3}
    said = []
    for kind, scale in kinds.items():
        distances = np.abs(1 - scale * (shared + hard * 0.12 * draw.normal(size=(count, classes))))
        said.append(Opinion(kind, distances.astype(np.float32), capsules=kind == "heads"))
    return said, given, truth


def average_precision(wrong, value):
    ranked = wrong[np.argsort(-value, kind="stable")]
    return (np.cumsum(ranked) / np.arange(1, len(ranked) + 1))[ranked].mean()


@pytest.fixture
def few(monkeypatch):
    """Opinions on three classes of an image."""
    monkeypatch.setattr(module, "KEPT", 0)
    monkeypatch.setattr(module, "LEAST_CLASSES", 3)
    monkeypatch.setattr(module, "AT_ONCE", 7 * 9)


@pytest.fixture
def fewest(monkeypatch):
    """Opinions on as few classes of an image as if images were many."""
    monkeypatch.setattr(module, "KEPT", 0)


@pytest.mark.parametrize(
    ("images", "classes", "kept"), [(8000, 200, 200), (25_000, 1000, 167), (10**6, 20, 20), (1_280_000, 1000, 32)]
)
def test_all_classes_are_kept_unless_images_are_many(images, classes, kept):
    assert kept_classes(images, classes) == kept


def test_which_classes_are_kept(few):
    draw = torch.Generator().manual_seed(0)
    distances, labels = list(torch.rand(2, 50, 9, generator=draw)), torch.randint(9, (50,), generator=draw)
    found = near_classes(distances, labels, 3)
    for i, row in enumerate(found.tolist()):
        first = {int(labels[i]), *(int(each[i].argmin()) for each in distances)}
        rest = sorted({*range(9)} - first, key=lambda k: float(distances[0][i, k] + distances[1][i, k]))
        assert row == [*sorted([*first, *rest][:3] if len(first) < 3 else first), 9]
    assert near_classes([each[:, :3] for each in distances], labels % 3, 3) is None


def test_all_others_have_their_mean_probability(few):
    distances = torch.rand(4, 9, generator=torch.Generator().manual_seed(1))
    classes = torch.tensor([[0, 1, 2, 9], [3, 5, 8, 9], [6, 7, 8, 9], [0, 4, 8, 9]])
    for row, at, found in zip(
        distances.tolist(), classes.tolist(), at_classes(distances, classes).tolist(), strict=True
    ):
        others = [math.exp(-10 * row[k]) for k in range(9) if k not in at]
        assert found == pytest.approx([*(row[k] for k in at[:3]), -0.1 * math.log(sum(others) / 6)], abs=1e-5)
    numbers = np.array([2, 5, 6, 4])
    assert column_of(numbers, classes.numpy()).tolist() == [2, 1, 0, 1]
    assert class_at(column_of(numbers, classes.numpy()), classes.numpy()).tolist() == numbers.tolist()


def test_opinions_on_all_classes_join_those_on_some(few):
    dense, given, _ = simulated(20, 9)
    labels = torch.from_numpy(given)
    some = on_same_classes(dense[:2], labels)
    joined = on_same_classes([*some, *dense[2:]], labels)
    for one, whole in zip(joined, dense, strict=True):
        assert (one.classes == some[0].classes).all()
        named = np.take_along_axis(whole.distances, one.classes[:, :-1], 1)
        assert (one.distances[:, :-1] == named).all()
    assert (
        on_same_classes([replace(each, distances=each.distances[:, :3]) for each in dense], labels)[0].classes is None
    )


def test_the_noise_model_against_loops(few):
    dense, given, _ = simulated(60, 6)
    labels = torch.from_numpy(given)
    opinions = on_same_classes(dense, labels)
    logits, classes = logits_by_kind(opinions).double(), torch.from_numpy(opinions[0].classes)
    weights = torch.tensor([0.4, 0.1, 0.2, 0.3], dtype=torch.float64)
    errors = torch.softmax(torch.randn(6, 6, generator=torch.Generator().manual_seed(0)).double(), dim=1)
    prior, chances = log_prior(logits, weights, classes), label_chances(errors, labels, classes)
    posteriors, sure = torch.softmax(prior + chances, dim=1), surest(prior, classes)
    named = prior[:, :-1].amax(dim=1).tolist()  # the column of all other classes makes nobody sure
    assert sure.tolist() == [best >= sorted(named)[29] for best in named]
    counts, all_wrong = np.zeros((6, 6)), 0.0
    for i, g in enumerate(given):
        each = [math.exp(sum(float(weights[j] * logits[j, i, c]) for j in range(4))) for c in range(4)]
        each[-1] *= 3  # of six classes, three have no column
        assert prior[i].exp().tolist() == pytest.approx([value / sum(each) for value in each])
        mean = sum(float(errors[z, g]) for z in range(6) if z != g) / 5
        named = [float(errors[z, g]) for z in classes[i, :-1]]
        assert chances[i].exp().tolist() == pytest.approx([*named, mean])
        all_wrong += 1 - float(posteriors[i, classes[i].tolist().index(g)])
        for column, z in enumerate(classes[i].tolist() if sure[i] else []):
            for true in [z] if z < 6 else [k for k in range(6) if k != g]:
                counts[true, g] += float(posteriors[i, column]) / (1 if z < 6 else 5)
    wrong = counts.sum(axis=1) - counts.diagonal()
    overall = (all_wrong + math.sqrt(60) / 2) / (60 + math.sqrt(60))
    found = error_matrix(posteriors, labels, sure, 16.0, even_errors(prior, 6), classes)
    for z in range(6):
        rate = (wrong[z] + 16) / (counts[z].sum() + 16 / overall)
        for g in range(6):
            share = (counts[z, g] + 16 / 5) / (wrong[z] + 16)
            assert float(found[z, g]) == pytest.approx(1 - rate if g == z else rate * share)
    assert beats_chance(prior, labels, posteriors, classes)
    sums = np.zeros((6, 6))
    for row, at in zip(prior.exp().tolist(), classes.tolist(), strict=True):
        best = at[int(np.argmax(row[:-1]))]
        for q, g in zip(row, at, strict=True):
            for k in [g] if g < 6 else range(6):
                sums[best, k] += 0 if k == best else q / (1 if g < 6 else 5)
    expected = torch.from_numpy(sums / sums.sum(axis=1, keepdims=True))
    torch.testing.assert_close(confusions(prior, 6, classes), expected, rtol=0, atol=1e-9)


def test_all_columns_say_what_all_classes_say():
    """With a column for each class and nothing left out, the formulas on columns are those on classes."""
    dense, given, _ = simulated(300, 5)
    labels, logits = torch.from_numpy(given), logits_by_kind(dense).double()
    nothing = torch.full((4, 300, 1), -1e9, dtype=torch.float64)  # the class 5 has no images and no probability
    columns = torch.arange(6).expand(300, 6)
    known = torch.cat([logits, nothing], dim=2)
    weights = torch.full((4,), 0.25, dtype=torch.float64)
    prior = torch.log_softmax(torch.einsum("j,jnk->nk", weights, known), dim=1)
    torch.testing.assert_close(prior[:, :5], log_prior(logits, weights))
    posteriors = torch.softmax(log_prior(logits, weights), dim=1)
    padded = torch.cat([posteriors, posteriors.new_zeros(300, 1)], dim=1)
    sure = surest(log_prior(logits, weights))
    assert torch.equal(surest(prior, columns), sure)
    target = confusions(log_prior(logits, weights), 5)
    torch.testing.assert_close(confusions(prior, 5, columns), target)
    found = error_matrix(padded, labels, sure, 16.0, target, columns)
    torch.testing.assert_close(found, error_matrix(posteriors, labels, sure, 16.0, target))


@pytest.mark.parametrize(("count", "classes"), [(300, 5), (400, 40)])
def test_scores_with_a_column_for_each_class_are_those_on_all_classes(count, classes):
    """One class, which no label names, is left to stand for "all others"."""
    dense, given, _ = simulated(count, classes)
    columns = np.tile([*range(classes), classes + 1], (count, 1))
    dense = [
        replace(each, distances=np.hstack([each.distances, np.full((count, 1), 50.0, np.float32)])) for each in dense
    ]
    kept = [replace(each, classes=columns) for each in dense]
    whole, part = score_labels(dense, given), score_labels(kept, given)
    for name in ("score", "doubt"):
        np.testing.assert_allclose(getattr(part, name), getattr(whole, name), atol=1e-6)
    assert np.array_equal(part.suggested, whole.suggested)
    assert list(part.flag) == list(whole.flag)


def test_weights_that_are_fitted_to_some_images(monkeypatch):
    dense, given, truth = simulated(3000, 8)
    labels, logits = torch.from_numpy(given), logits_by_kind(dense)
    all_images = fit_noise_model(logits, labels)
    monkeypatch.setattr(noise_model, "MOST_IMAGES", 1500)
    some = fit_noise_model(logits, labels)
    assert not torch.equal(some.weights, all_images.weights)
    torch.testing.assert_close(some.weights, all_images.weights, rtol=0.3, atol=0.05)
    row = torch.arange(3000)
    scores = [average_precision(given != truth, 1 - m.posterior[row, labels].numpy()) for m in (some, all_images)]
    assert scores[0] == pytest.approx(scores[1], abs=0.002)


@pytest.mark.parametrize(("count", "classes", "hard"), [(3000, 100, 1.0), (3000, 100, 1.6), (2000, 200, 1.5)])
def test_the_order_is_that_of_opinions_on_all_classes(count, classes, hard, fewest):
    dense, given, truth = simulated(count, classes, hard=hard)
    some = on_same_classes(dense, torch.from_numpy(given))
    assert {each.distances.shape for each in some} == {(count, 33)}
    whole, part = score_labels(dense, given), score_labels(some, given)
    wrong = given != truth
    assert average_precision(wrong, part.doubt) == pytest.approx(average_precision(wrong, whole.doubt), abs=0.002)
    assert (1 - part.score).sum() == pytest.approx((1 - whole.score).sum(), rel=0.02)
    assert (part.suggested == whole.suggested).mean() > 0.99
    assert part.suggested.max() < classes


def test_networks_that_have_seen_the_labels(fewest):
    dense, given, truth = simulated(2000, 60)
    trained = [replace(each, kind="networks", in_sample=True, capsules=True) for each in dense]
    some = on_same_classes(trained, torch.from_numpy(given))
    whole, part = score_labels(trained, given), score_labels(some, given)
    wrong = given != truth
    assert average_precision(wrong, part.doubt) == pytest.approx(average_precision(wrong, whole.doubt), abs=0.002)
    joined = [
        score_labels([*said[:3], replace(said[3], in_sample=True, weight=0.4)], given)
        for said in (dense, on_same_classes(dense, torch.from_numpy(given)))
    ]
    first, second = (average_precision(wrong, scored.doubt) for scored in joined)
    assert second == pytest.approx(first, abs=0.002)


def test_margins_and_doubts_name_classes(few):
    dense, given, _ = simulated(80, 9)
    some = on_same_classes(dense, torch.from_numpy(given))
    values = np.stack([each.distances for each in some])
    found = margins(values, given, some[0].classes)
    whole = margins(np.stack([each.distances for each in dense]), given)
    assert found.given_distance == pytest.approx(whole.given_distance)
    assert found.hits.tolist() == whole.hits.tolist()
    for i in range(80):
        named = [k for k in some[0].classes[i, :-1].tolist() if k != given[i]]
        assert found.ghost[i] == min(named, key=lambda k: whole.mean[i, k])
        assert found.margin_mean[i] == pytest.approx(
            np.mean([each.distances[i, given[i]] - each.distances[i, named].min() for each in dense])
        )
    assert found.distance_of(found.ghost) == pytest.approx(found.ghost_distance)
    rivals = doubt(found, given).rival
    assert (rivals != given).all()
    assert all(rival in row[:-1] for rival, row in zip(rivals, some[0].classes, strict=True))


def test_judges_of_features_keep_what_they_would_say_of_all_classes(monkeypatch):
    features, labels = blobs(count=150, classes=6)
    whole = judge_features(features, labels, 6)
    monkeypatch.setattr(module, "KEPT", 150 * 4)
    monkeypatch.setattr(module, "LEAST_CLASSES", 3)
    monkeypatch.setattr(module, "AT_ONCE", 40 * 6)
    some = judge_features(features, labels, 6)
    assert [each.kind for each in some] == [each.kind for each in whole]
    for j in (0, 2, 3):  # softmax heads learn by the matrix of errors, which differs a little
        named = np.take_along_axis(whole[j].distances, some[j].classes[:, :-1], 1)
        np.testing.assert_allclose(some[j].distances[:, :-1], named, atol=1e-5)
    assert (
        some[1].distances[:, :-1].argmin(axis=1) == column_of(whole[1].distances.argmin(axis=1), some[1].classes)
    ).mean() > 0.97


@pytest.fixture
def audit(few, tmp_path):
    """An audit of nine classes of which three are kept per image, in a folder."""
    images = make_images(90, 9)
    dense, given, _ = simulated(90, 9, hard=0.6)
    images = images.with_labels(torch.from_numpy(given))
    opened = hitnet.open_data(images)
    case = Case(opened, images, "all", torch.device("cpu"))
    made = judged_audit(case, Judgement(tuple(dense), images, "m"), 0.0)
    made.write(tmp_path)
    return replace(made, folder=tmp_path), dense


def test_an_audit_is_written_and_read(audit):
    made, dense = audit
    again = hitnet.open_audit(made.folder)
    assert (again.distances == made.distances).all()
    assert (again.classes == made.classes).all()
    assert made.distances.shape == (90, 4)
    order = made.table["id"].to_numpy()
    whole = dense[0].distances[order]
    assert (made.distances[:, :-1] == np.take_along_axis(whole, made.classes[:, :-1], 1)).all()
    kept = audit_folder.read_kept(made.folder, 90, 9)
    assert (kept.opinions[3].classes == made.classes).all()
    nearest = np.take_along_axis(made.classes, made.distances[:, :-1].argmin(axis=1)[:, None], 1)[:, 0]
    assert (nearest == whole.argmin(axis=1)).all()


def test_the_page_shows_the_classes_that_are_kept(audit):
    made, dense = audit
    rows = Rows(made.table, made.distances, made.class_names, made.classes)
    every = np.arange(90)
    columns = rows.columns(every)
    for row, (near, distances) in enumerate(zip(columns["near"], columns["near_distance"], strict=True)):
        assert {int(rows.given[row]), int(rows.suggested[row])} <= {*near} == {*made.classes[row, :-1].tolist()}
        assert distances == sorted(distances)
        assert distances == pytest.approx(dense[0].distances[rows.ids[row]][near], abs=1e-3)
    evidence = Evidence(rows, audit_folder.read_kept(made.folder, 90, 9), None, None)
    for row in every:
        for judged, whole in zip(evidence.judges(row), dense, strict=True):
            assert judged["kind"] == whole.kind
            named = [k for k, _, _ in judged["nearest"]]
            assert named[0] == whole.distances[rows.ids[row]].argmin()
            assert judged["nearest"][0][1:] == [pytest.approx(whole.distances[rows.ids[row]].min(), abs=0.01), 1]
    for k in range(9):
        members = np.flatnonzero(rows.given == k)
        own = dense[0].distances[rows.ids[members], k]
        assert evidence.typical(k) == members[np.argsort(own, kind="stable")[:5]].tolist()


def test_its_probabilities_are_near_those_of_all_classes(audit, tmp_path):
    made, dense = audit
    probabilities = made.probabilities()
    assert probabilities.shape == (90, 9)
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(90))
    written = np.load(made.export(tmp_path / "p.npy", format="pred-probs")[0])
    assert (written == probabilities[np.argsort(made.table["id"].to_numpy())]).all()
    assert (probabilities[20:50] == made.probabilities(slice(20, 50))).all()
    whole = replace(made, distances=dense[0].distances[made.table["id"].to_numpy()], classes=None, folder=None)
    assert np.abs(whole.probabilities() - probabilities).max() < 0.1
    assert (whole.probabilities().argmax(axis=1) == probabilities.argmax(axis=1)).mean() > 0.95


def test_classes_that_do_not_fit_are_refused(audit):
    made, _ = audit
    for wrong in (made.classes[:, ::-1], made.classes[:40], made.classes - 1):
        replace(made, classes=wrong, images=None).write(made.folder)
        with pytest.raises(HitNetError, match=r"classes\.npy does not fit distances\.npy"):
            hitnet.open_audit(made.folder)
    made.write(made.folder)
    (made.folder / "classes.npy").write_bytes(b"else")
    with pytest.raises(HitNetError, match=r"classes\.npy is damaged or of another audit"):
        hitnet.open_audit(made.folder)
    distances = np.repeat(made.distances[:, :1], 9, axis=1)
    replace(made, classes=None, distances=distances, images=None).write(made.folder)
    assert not (made.folder / "classes.npy").exists()
    assert hitnet.open_audit(made.folder).classes is None
