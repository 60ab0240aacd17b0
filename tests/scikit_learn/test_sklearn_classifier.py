import importlib
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from cleanlab.classification import CleanLearning
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import hitnet
from benchmarks.parts.calibration import expected_calibration_error
from hitnet.errors import HitNetError
from hitnet.probabilities import class_probabilities
from hitnet.sklearn import HitNetClassifier
from toy import colour_images, toy_images, write_images


def blobs(count: int = 300, classes: int = 3, spread: float = 0.3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features around one corner of a cube per class, and class indices."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    return np.eye(5)[labels] + spread * random.standard_normal((count, 5)), labels


def quick(**options) -> HitNetClassifier:
    return HitNetClassifier(**{"epochs": 20, "random_state": 0, **options})


@pytest.fixture(scope="module")
def fitted() -> HitNetClassifier:
    return quick().fit(*blobs())


@pytest.mark.parametrize(
    "names",
    [
        np.array(["shoe", "hat", "dress"]),
        np.array([7, -2, 3]),
        np.array(["shoe", "hat", "dress"], dtype=object),
        np.array([1.0, 0.0, 2.0]),
    ],
)
def test_labels_of_any_kind(names):
    X, y = blobs()
    given = names[y]
    classifier = quick().fit(X, given)
    assert classifier.classes_.tolist() == sorted(names.tolist())
    assert classifier.predict(X).dtype == given.dtype
    assert classifier.score(X, given) > 0.9


def test_all_methods_say_the_same(fitted):
    X, y = blobs(seed=1)
    distances, probabilities = fitted.distances(X), fitted.predict_proba(X)
    np.testing.assert_allclose(probabilities, class_probabilities(distances, fitted.temperature_))
    np.testing.assert_allclose(fitted.decision_function(X), -distances)
    predicted = fitted.predict(X)
    assert (predicted == distances.argmin(axis=1)).all()
    assert fitted.score(X, y) == (predicted == y).mean() > 0.9
    capsules = fitted.transform(X).reshape(len(X), 3, 16)
    np.testing.assert_allclose(np.sqrt(((capsules - 0.5) ** 2).sum(axis=2)), distances)


def test_two_classes_have_one_decision_value():
    X, y = blobs(classes=2)
    classifier = quick().fit(X, y)
    assert classifier.decision_function(X).shape == (len(X),)
    assert ((classifier.decision_function(X) > 0) == classifier.predict(X)).all()


def test_probabilities_are_calibrated_on_other_rows():
    X, y = blobs(1500, spread=0.6)
    classifier = HitNetClassifier(random_state=0, calibration=0.3).fit(X, y)
    others, truth = blobs(3000, spread=0.6, seed=1)
    assert expected_calibration_error(classifier.predict_proba(others), truth) < 0.05
    too_sure = class_probabilities(classifier.distances(others), classifier.temperature_ / 5)
    assert expected_calibration_error(too_sure, truth) > 0.07


def test_few_rows_keep_the_hit_radius_as_temperature():
    X, y = blobs(150)
    assert quick().fit(X, y).temperature_ != 0.1
    assert quick(calibration=0).fit(X, y).temperature_ == 0.1
    assert quick().fit(X[:18], y[:18]).temperature_ == 0.1
    y[0] = 9  # a class of one row
    assert quick().fit(X, y).temperature_ == 0.1


def test_the_same_seed_gives_the_same_classifier_and_leaves_torch_alone():
    X, y = blobs()
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    same = [quick(epochs=2).fit(X, y).predict_proba(X) for _ in range(2)]
    assert torch.equal(torch.random.get_rng_state(), before)
    assert (same[0] == same[1]).all()
    assert (quick(epochs=2, random_state=1).fit(X, y).predict_proba(X) != same[0]).any()


def test_a_clone_is_unfitted_and_has_the_same_parameters(fitted):
    copied = clone(fitted)
    assert copied.get_params() == fitted.get_params()
    assert not hasattr(copied, "classes_")
    choice = hitnet.choose_model("hitnet-small")
    assert clone(HitNetClassifier(model=choice)).model == choice


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"model": "hitnet-small"}, "features, which ignore model"),
        ({"image_size": 32, "device": "cpu"}, "features, which ignore image_size, device"),
    ],
)
def test_an_option_that_features_ignore_is_an_error(options, named):
    with pytest.raises(hitnet.HitNetError, match=named):
        quick(**options).fit(*blobs())


def test_an_option_that_images_ignore_is_an_error():
    images = toy_images(30)
    with pytest.raises(hitnet.HitNetError, match="images, which ignore image_size"):
        quick(image_size=32).fit(images.pixels, images.labels)


def test_a_pickle_predicts_the_same(fitted):
    X, _ = blobs(30)
    assert (pickle.loads(pickle.dumps(fitted)).predict_proba(X) == fitted.predict_proba(X)).all()


def test_capsules_have_names_in_a_data_frame(fitted):
    X, _ = blobs(9)
    frame = clone(fitted).set_output(transform="pandas").fit(*blobs()).transform(X)
    assert isinstance(frame, pd.DataFrame)
    assert frame.columns[:2].tolist() == ["hitnetclassifier0", "hitnetclassifier1"]
    np.testing.assert_allclose(frame, fitted.transform(X))


def test_in_a_pipeline_and_a_grid_search():
    X, y = blobs()
    pipeline = make_pipeline(StandardScaler(), quick())
    search = GridSearchCV(pipeline, {"hitnetclassifier__capsule_dim": [8, 16]}, cv=2)
    search.fit(X * 100, y)
    assert search.best_score_ > 0.9
    assert search.predict(X * 100).shape == (len(X),)


def test_cross_validated_probabilities_find_wrong_labels():
    X, y = blobs(spread=0.15)
    names = np.array(["a", "b", "c"])[y]
    names[:10] = np.roll(names, 1)[:10]
    chances = cross_val_predict(quick(), X, names, cv=3, method="predict_proba")
    given = chances[np.arange(len(X)), np.searchsorted(["a", "b", "c"], names)]
    assert set(np.argsort(given)[:10]) == set(range(10))


def test_in_cleanlabs_clean_learning():
    X, y = blobs(spread=0.15)
    wrong = y.copy()
    wrong[:10] = (y[:10] + 1) % 3
    alone = {"n_jobs": 1}  # other processes would be forked from this one, which has threads
    cleaned = CleanLearning(quick(), cv_n_folds=3, find_label_issues_kwargs=alone).fit(X, wrong)
    issues = np.flatnonzero(cleaned.get_label_issues()["is_label_issue"])
    assert set(issues) <= set(range(10))
    assert len(issues) >= 7
    assert (cleaned.predict(X) == y).mean() > 0.98


def test_images_of_all_layouts():
    images = colour_images(60)
    names = np.array(images.class_names)[images.labels.numpy()]
    channels_first = images.pixels.numpy()
    classifier = quick().fit(channels_first, names)
    assert classifier.score(channels_first, names) > 0.9
    same = classifier.predict_proba(channels_first.transpose(0, 2, 3, 1))
    assert (same == classifier.predict_proba(images.pixels)).all()
    assert classifier.transform(channels_first).shape == (60, 3 * 16)
    with pytest.raises(HitNetError, match=r"\(3, 16, 16\).*\(3, 8, 8\)"):
        classifier.predict(channels_first[:, :, :8, :8])
    with pytest.raises(HitNetError, match="but X holds features"):
        classifier.predict(channels_first.reshape(60, -1))


def test_grey_images_with_a_network_by_name_in_cross_validation():
    images = toy_images(90)
    choice = hitnet.choose_model("hitnet-small")
    predicted = cross_val_predict(
        quick(model=choice, calibration=0, epochs=15), images.pixels[:, 0].numpy(), images.labels.numpy(), cv=2
    )
    assert (predicted == images.labels.numpy()).mean() > 0.9


@pytest.mark.parametrize("kind", [list, np.array, pd.Series])
def test_paths_of_image_files(tmp_path, kind):
    folder = write_images(tmp_path, colour_images(48))
    paths = sorted(folder.rglob("*.png"))
    names = [path.parent.name for path in paths]
    X = kind([str(path) for path in paths])
    classifier = quick(image_size=(16, 16)).fit(X, names)
    assert classifier.score(X, names) > 0.9
    assert classifier.predict(paths[:1]).tolist() == names[:1]


def test_paths_are_judged_by_features_that_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    paths = sorted(write_images(tmp_path / "photos", colour_images(24)).rglob("*.png"))
    names = [path.parent.name for path in paths]
    classifier = quick().fit(paths, names)
    assert classifier._shape == (3568,)
    assert classifier.score(paths, names) == 1
    assert list((tmp_path / "cache").rglob("*.safetensors"))


def test_grey_files_are_read_as_grey(tmp_path):
    paths = sorted(write_images(tmp_path, toy_images(24)).rglob("*.png"))
    names = [path.parent.name for path in paths]
    for size in ((12, 12), 12):
        classifier = quick(image_size=size, epochs=1).fit(paths, names)
        assert classifier._shape == (1, 12, 12)
    with pytest.raises(HitNetError, match=r"none\.png"):
        classifier.predict([tmp_path / "none.png"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calibration": 0.9}, r"calibration must be in \[0, 0\.5\]; got 0\.9"),
        ({"calibration": None}, r"calibration must be in \[0, 0\.5\]; got None"),
        ({"epochs": 0}, "epochs must be a whole number from 1 on; got 0"),
        ({"ghosts": -1}, "ghosts must be a whole number from 0 on; got -1"),
        ({"capsule_dim": 0}, "capsule_dim must be a whole number from 1 on; got 0"),
        ({"capsule_dim": 3}, "capsule_dim must be a whole number from 4 on; got 3"),
    ],
)
def test_wrong_parameters_are_named(options, message):
    with pytest.raises(HitNetError, match=message):
        quick(**options).fit(*blobs(30))


def test_wrong_images_and_networks_are_named():
    images = toy_images(12)
    with pytest.raises(HitNetError, match=r"uint8 .*; got torch\.float32"):
        quick().fit(images.pixels / 255, images.labels)
    with pytest.raises(HitNetError, match=r"`model` .* `capsule_dim` is 16"):
        quick(model=hitnet.choose_model("hitnet-small", capsule_dim=4)).fit(images.pixels, images.labels)
    with pytest.raises(HitNetError, match="n1 has no Hit-or-Miss layer"):
        quick(model="n1").fit(images.pixels, images.labels)
    with pytest.raises(HitNetError, match=r"X has 12 rows, .* 11 labels"):
        quick().fit(images.pixels, images.labels[1:])


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("hitnet.sklearn")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(HitNetError, match="pip install scikit-learn"):
        importlib.import_module("hitnet.sklearn")
