"""The model of how labels go wrong: against plain loops, on simulated errors that are known, and at its edges."""

import math

import numpy as np
import pytest
import torch

from hitnet.audit import calibration
from hitnet.audit.calibration import TEMPERATURES, along, class_probabilities, fit_label_model
from hitnet.audit.labels import UNSEEN_WRONG, judge
from toy import toy_images

TEMPERATURE = 0.12


def simulate(count, classes, rate, noise, seed=0):
    """Distances (N, K), true classes (N,) and given labels (N,), drawn from the model itself.

    Args:
        noise: "uniform": a wrong label is any other class; "paired": it is always the next one.
    """
    random = np.random.default_rng(seed)
    distances = random.normal(1.0, 0.12, (count, classes)).clip(0.1)
    seen = random.integers(0, classes, count)
    distances[np.arange(count), seen] = random.uniform(0.05, 0.35, count)
    hard = random.random(count) < 0.1
    other = (seen + random.integers(1, classes, count)) % classes
    distances[hard, other[hard]] = random.uniform(0.2, 0.6, hard.sum())
    likely = np.exp(-distances / TEMPERATURE).cumsum(axis=1)
    truth = (random.random((count, 1)) * likely[:, -1:] > likely).sum(axis=1)
    step = np.ones(count, int) if noise == "paired" else random.integers(1, classes, count)
    wrong = random.random(count) < rate
    return distances, truth, np.where(wrong, (truth + step) % classes, truth)


def naive_probabilities(distances, temperature):
    rows = []
    for row in distances.tolist():
        likely = [math.exp(-distance / temperature) for distance in row]
        rows.append([value / math.fsum(likely) for value in likely])
    return np.array(rows)


def naive_posterior(distances, labels, temperature, confusion):
    rows = []
    for image, probabilities in enumerate(naive_probabilities(distances, temperature)):
        joint = [p * confusion[k, labels[image]] for k, p in enumerate(probabilities)]
        rows.append([value / math.fsum(joint) for value in joint])
    return np.array(rows)


def naive_confusion(posterior, labels, strength):
    count, classes = posterior.shape
    table = np.zeros((classes, classes))
    for i in range(count):
        for k in range(classes):
            table[k, labels[i]] += posterior[i, k]
    rate = sum(table[k, j] for k in range(classes) for j in range(classes) if j != k) / count
    confusion = np.zeros((classes, classes))
    for k in range(classes):
        for j in range(classes):
            if j != k:
                confusion[k, j] = (table[k, j] + strength * rate / (classes - 1)) / (table[k].sum() + strength)
        confusion[k, k] = 1 - confusion[k].sum()
    return confusion


def first_confusion(classes):
    confusion = np.full((classes, classes), 0.05 / (classes - 1))
    np.fill_diagonal(confusion, 0.95)
    return confusion


def test_probabilities_against_a_plain_loop():
    distances, _, _ = simulate(40, 4, 0.1, "uniform")
    for temperature in (0.05, 0.3):
        found = class_probabilities(distances, temperature)
        assert found == pytest.approx(naive_probabilities(distances, temperature), rel=1e-12)
        assert found.sum(axis=1) == pytest.approx(np.ones(40))
    far = class_probabilities(np.array([[0.0, 500.0], [900.0, 1000.0]]), 0.01)  # exp(−100,000) is 0
    assert far.tolist() == [[1, 0], [1, 0]]


def test_one_round_against_plain_loops(monkeypatch):
    monkeypatch.setattr(calibration, "ROUNDS", 1)
    distances, _, labels = simulate(150, 4, 0.15, "paired")

    def likelihood(temperature, confusion):
        joint = naive_probabilities(distances, temperature) * confusion[:, labels].T
        return math.fsum(math.log(math.fsum(row)) for row in joint.tolist())

    def check_best(temperature, confusion):
        best = likelihood(temperature, confusion)
        assert all(best >= likelihood(other, confusion) - 1e-3 for other in np.geomspace(*TEMPERATURES, 40))

    start = first_confusion(4)
    temperature = calibration._best_temperature(distances, labels, start)
    check_best(temperature, start)
    posterior = naive_posterior(distances, labels, temperature, start)
    confusion = naive_confusion(posterior, labels, 30.0)
    model = fit_label_model(distances, labels, strength=30.0)
    assert model.confusion == pytest.approx(confusion, rel=1e-9)
    assert model.confusion.sum(axis=1) == pytest.approx(np.ones(4))
    check_best(model.temperature, confusion)
    last = naive_posterior(distances, labels, model.temperature, confusion)
    assert model.wrong == pytest.approx([1 - last[i, label] for i, label in enumerate(labels)], abs=1e-9)


@pytest.mark.parametrize("classes", [3, 10])
@pytest.mark.parametrize("noise", ["uniform", "paired"])
@pytest.mark.parametrize("rate", [0.05, 0.15])
def test_the_expected_number_of_errors_is_near_the_truth(classes, noise, rate):
    distances, truth, labels = simulate(2000, classes, rate, noise, seed=classes)
    model = fit_label_model(distances, labels)
    errors = labels != truth
    assert errors.sum() / 1.5 < model.wrong.sum() < errors.sum() * 1.5
    flagged = model.wrong >= 0.6
    assert errors[flagged].mean() > 0.6
    assert flagged[errors].mean() > 0.5
    if noise == "uniform":
        assert TEMPERATURE / 1.5 < model.temperature < TEMPERATURE * 1.5
    elif classes > 3:  # the pairs that are mistaken stand out
        others = model.confusion - np.diag(np.diag(model.confusion))
        assert (others.argmax(axis=1) == (np.arange(classes) + 1) % classes).all()


def test_without_errors_few_are_expected():
    distances, _, labels = simulate(2000, 10, 0.0, "uniform")
    assert fit_label_model(distances, labels).wrong.sum() < 20


def test_along_rises_with_the_doubt_and_keeps_the_sum():
    random = np.random.default_rng(0)
    doubt = random.normal(size=300)
    wrong = 1 / (1 + np.exp(-2 * doubt - random.normal(size=300)))
    rising = along(doubt, wrong)
    assert (np.diff(rising[np.argsort(doubt)]) >= 0).all()
    assert rising.sum() == pytest.approx(wrong.sum())
    assert rising.min() >= 0
    assert rising.max() <= 1
    order = np.sort(wrong)
    assert along(np.arange(300.0), order) == pytest.approx(order)  # what rises already stays
    assert along(-np.arange(300.0), order) == pytest.approx(np.full(300, order.mean()))


@pytest.mark.parametrize("largest", [1000, 4000])
def test_large_sets_are_fitted_to_some_of_their_images(monkeypatch, largest):
    distances, _, labels = simulate(4000, 4, 0.1, "uniform")
    whole = fit_label_model(distances, labels)
    monkeypatch.setattr(calibration, "LARGEST", largest * 4)
    drawn = fit_label_model(distances, labels)
    assert drawn.wrong.shape == (4000,)
    assert drawn.wrong.sum() == pytest.approx(whole.wrong.sum(), rel=0.15)
    assert np.abs(drawn.wrong - whole.wrong).mean() < 0.01
    if largest == 4000:
        assert np.array_equal(drawn.wrong, whole.wrong)


def test_a_class_without_images():
    distances, truth, labels = simulate(600, 4, 0.1, "uniform")
    wider = np.concatenate([distances, np.full((600, 1), 1.1)], axis=1)
    model = fit_label_model(wider, labels)
    assert np.isfinite(model.wrong).all()
    assert model.confusion.sum(axis=1) == pytest.approx(np.ones(5))
    assert model.wrong.sum() == pytest.approx((labels != truth).sum(), rel=0.5)


@pytest.mark.parametrize(("count", "classes"), [(400, 2), (2, 2), (5, 5), (30, 30), (3, 30)])
def test_few_classes_and_few_images(count, classes):
    random = np.random.default_rng(0)
    labels = np.arange(count) % classes
    distances = random.normal(1.0, 0.1, (count, classes))
    distances[np.arange(count), labels] = 0.2
    model = fit_label_model(distances, labels)
    assert np.isfinite(model.wrong).all()
    assert ((model.wrong >= 0) & (model.wrong < 0.3)).all()
    assert (model.confusion >= 0).all()


def test_two_classes_with_errors():
    distances, truth, labels = simulate(2000, 2, 0.1, "uniform")
    model = fit_label_model(distances, labels)
    errors = labels != truth
    assert errors.sum() / 1.5 < model.wrong.sum() < errors.sum() * 1.5


def test_distances_far_beyond_the_temperature_and_all_equal():
    labels = np.arange(20) % 2
    for distances in (np.full((20, 2), 0.7), np.where(np.arange(2) == labels[:, None], 0.0, 1e6)):
        model = fit_label_model(distances, labels)
        assert np.isfinite(model.wrong).all()


def test_an_audit_out_of_sample_takes_its_scores_from_the_model():
    distances, _, labels = simulate(300, 3, 0.1, "uniform")
    images = toy_images(300, shape=(1, 3, 3)).with_labels(torch.from_numpy(labels))
    audit = judge(distances[None].astype(np.float32), images, out_of_sample=True)
    model = fit_label_model(distances.astype(np.float32).astype(np.float64), labels)
    assert (1 - audit.table["score"]).sum() == pytest.approx(model.wrong.sum())
    assert audit.table["score"].is_monotonic_increasing
    wrong = audit.table["score"] < UNSEEN_WRONG
    assert set(audit.table["flag"][wrong]) <= {"wrong", "none of the classes"}
    assert "wrong" not in set(audit.table["flag"][~wrong])
    seen = judge(distances[None].astype(np.float32), images)
    assert audit.table["id"].tolist() == seen.table["id"].tolist()  # the order is the same
