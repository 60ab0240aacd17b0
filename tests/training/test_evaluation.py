"""Evaluation and prediction against counts made by hand."""

import numpy as np
import pytest
import torch
from PIL import Image

import hitnet
from hitnet import HitNetError
from hitnet.training.evaluation import class_distances, measure
from hitnet.training.prediction import predict, verdict
from toy import toy_images


@pytest.fixture(scope="module")
def run():
    options = {"batch_size": 16, "learning_rate": 5e-3}
    return hitnet.train(toy_images(), epochs=6, model="hitnet-small", device="cpu", recipe_options=options)


def test_figures_against_counts(run):
    images = toy_images(50, seed=3)
    found = measure(run.model, images)
    d = class_distances(run.model, images.pixels)
    wrong = hits = misses = 0
    confusion = np.zeros((3, 3), dtype=int)
    for row, label in zip(d.tolist(), images.labels.tolist(), strict=True):
        said = row.index(min(row))
        confusion[label, said] += 1
        wrong += said != label
        hits += row[label] <= 0.1
        misses += sum(v >= 0.9 for k, v in enumerate(row) if k != label)
    assert found.error == pytest.approx(100 * wrong / 50)
    assert found.hits == pytest.approx(100 * hits / 50)
    assert found.misses == pytest.approx(100 * misses / 100)
    assert found.confusion.tolist() == confusion.tolist()
    classes = found.to_dict()["classes"]
    assert [row["images"] for row in classes] == confusion.sum(axis=1).tolist()


def test_reconstruction_error_is_that_of_the_predicted_capsule(run):
    images = toy_images(7)
    unit = images.pixels.float() / 255
    with torch.inference_mode():
        expected = (run.model(unit).reconstruction - unit).square().mean().item()
    assert measure(run.model, images).mse == pytest.approx(expected, rel=1e-5)


def test_batches_change_nothing(run):
    pixels = toy_images(20).pixels
    torch.testing.assert_close(class_distances(run.model, pixels), class_distances(run.model, pixels, batch_size=3))


def test_classes_are_matched_by_name(run):
    images = toy_images(30)
    turned = hitnet.Images.from_arrays(
        images.pixels, 2 - images.labels, class_names=["band 2", "band 1", "band 0"], name="turned"
    )
    assert hitnet.evaluate(run, turned, device="cpu").error == hitnet.evaluate(run, images, device="cpu").error
    strange = hitnet.Images.from_arrays(images.pixels, images.labels, class_names=["a", "b", "c"], name="strange")
    with pytest.raises(HitNetError, match="does not know: a, b, c"):
        hitnet.evaluate(run, strange, device="cpu")


def test_images_of_another_size_are_refused_in_words(run):
    with pytest.raises(HitNetError, match="trained on"):
        hitnet.evaluate(run, toy_images(6, shape=(1, 14, 14)), device="cpu")


def test_verdicts():
    assert [verdict(d) for d in (0.0, 0.1, 0.5, 0.9, 1.5)] == ["hit", "hit", "near", "miss", "miss"]


def test_predict_names_the_class_or_none(run, tmp_path):
    images = toy_images(6, seed=9)
    paths = []
    for i in range(6):
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray(images.pixels[i, 0].numpy()).save(paths[-1])
    found = predict(run, paths, device="cpu")
    d = class_distances(run.model, images.pixels)
    for one, row in zip(found, d, strict=True):
        order = row.argsort()
        assert one.distance == pytest.approx(row[order[0]].item(), abs=1e-5)
        assert one.runner_up == f"band {order[1]}"
        assert one.label == (None if row.min() >= 0.9 else f"band {order[0]}")
    assert predict(run, []) == []


def test_predict_says_none_when_every_capsule_misses(run, monkeypatch, tmp_path):
    Image.new("L", (12, 12)).save(tmp_path / "black.png")
    monkeypatch.setattr("hitnet.training.prediction.class_distances", lambda *a: torch.tensor([[1.2, 0.95, 1.9]]))
    (one,) = predict(run, [tmp_path / "black.png"], device="cpu")
    assert (one.label, one.verdict, one.runner_up) == (None, "miss", "band 0")
