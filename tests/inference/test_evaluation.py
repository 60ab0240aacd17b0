"""Evaluation and prediction against counts made by hand."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import hitnet
from hitnet import HitNetError, choose_recipe, open_data, predict
from hitnet.inference.evaluation import Evaluation, measure
from hitnet.models.network import class_distances
from hitnet.runtime.device import filled
from toy import toy_images, write_mnist


@pytest.fixture(scope="module")
def run():
    recipe = choose_recipe(epochs=6, batch_size=16, learning_rate=5e-3)
    return hitnet.train(toy_images(), model="hitnet-small", recipe=recipe, device="cpu")


def test_figures_against_counts(run, monkeypatch):
    images = toy_images(50, seed=3)
    d = 1.2 * torch.rand(50, 3, generator=torch.Generator().manual_seed(0)) ** 3
    monkeypatch.setattr("hitnet.inference.evaluation.class_distances", lambda *a: d)
    figures = measure(run.model, images)
    wrong = hits = misses = 0
    confusion = np.zeros((3, 3), dtype=int)
    for row, label in zip(d.tolist(), images.labels.tolist(), strict=True):
        said = row.index(min(row))
        confusion[label, said] += 1
        wrong += said != label
        hits += row[label] <= 0.1
        misses += sum(v >= 0.9 for k, v in enumerate(row) if k != label)
    assert 0 < wrong < 50
    assert 0 < hits < 50
    assert 0 < misses < 100
    assert figures.error == pytest.approx(wrong / 50)
    assert figures.hits == pytest.approx(hits / 50)
    assert figures.misses == pytest.approx(misses / 100)
    assert figures.confusion.tolist() == confusion.tolist()


@pytest.fixture(scope="module")
def members():
    recipe = choose_recipe(epochs=2, batch_size=16, learning_rate=5e-3)
    return hitnet.train_many(toy_images(), model="hitnet-small", recipe=recipe, device="cpu", seeds=[1, 2, 3])


def test_a_committee_judges_by_the_mean_of_distances(members):
    images = toy_images(50, seed=3)
    noisy = torch.randint(0, 256, images.pixels.shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    images = hitnet.Images.from_arrays(noisy, images.labels, class_names=images.class_names, name="noise")
    each = [class_distances(run.model, images.pixels).tolist() for run in members]
    figures = hitnet.evaluate(members, images, device="cpu")
    confusion, hits = np.zeros((3, 3), dtype=int), 0
    for i, label in enumerate(images.labels.tolist()):
        mean = [sum(distances[i][k] for distances in each) / 3 for k in range(3)]
        confusion[label, mean.index(min(mean))] += 1
        hits += mean[label] <= 0.1
    assert figures.confusion.tolist() == confusion.tolist()
    assert figures.error == pytest.approx(1 - confusion.trace() / 50)
    assert figures.hits == pytest.approx(hits / 50)
    assert (figures.networks, figures.mse) == (3, None)
    assert figures.to_dict()["networks"] == 3
    assert any(hitnet.evaluate(run, images, device="cpu").error != figures.error for run in members)


def test_a_committee_with_softmax_judges_by_the_mean_of_probabilities():
    members = [
        hitnet.train(toy_images(shape=(1, 18, 18)), model="n1", recipe=choose_recipe(epochs=1), seed=seed, device="cpu")
        for seed in (0, 1)
    ]
    images = toy_images(20, shape=(1, 18, 18), seed=4)
    first, second = (class_distances(run.model, images.pixels).double() for run in members)
    assert torch.allclose(first.sum(dim=1), torch.ones(20, dtype=torch.float64))
    expected = float(((first + second).argmax(dim=1) != images.labels).double().mean())
    assert hitnet.evaluate(members, images, device="cpu").error == pytest.approx(expected)


def test_a_committee_of_one_is_the_run(run):
    alone, list_of_one = (hitnet.evaluate(given, toy_images(30), device="cpu") for given in (run, [run]))
    assert list_of_one.to_dict() == alone.to_dict()
    assert alone.mse is not None


def test_committees_without_a_common_mean_are_refused(members):
    recipe = choose_recipe(epochs=1)
    other_names = toy_images(30)
    other_names = hitnet.Images.from_arrays(other_names.pixels, other_names.labels, class_names=["x", "y", "z"])
    renamed = hitnet.train(other_names, model="hitnet-small", recipe=recipe, device="cpu")
    larger = hitnet.train(toy_images(30, shape=(1, 16, 16)), model="hitnet-small", recipe=recipe, device="cpu")
    soft = hitnet.train(
        toy_images(30),
        model=hitnet.choose_model("hitnet-small", head="softmax", decoder="none"),
        recipe=recipe,
        device="cpu",
    )
    for runs, message in (
        ([], "is an empty list"),
        ([members[0], renamed], r"different lists of classes \(band 0, band 1, band 2 and x, y, z\)"),
        ([members[0], larger], r"different shapes, \(1, 12, 12\) and \(1, 16, 16\)"),
        ([members[0], soft], r"different heads \(hit-or-miss and softmax\)"),
        ([members[0], members[1], members[1]], "the run with seed 2 and the run with seed 2 hold the same network"),
    ):
        with pytest.raises(HitNetError, match=message):
            hitnet.evaluate(runs, toy_images(30), device="cpu")


def test_figures_of_each_class():
    confusion = np.array([[3, 1, 0], [2, 3, 0], [0, 0, 0]])
    figures = Evaluation("toy", 9, ("a", "b", "c"), 3 / 9, confusion, hits=None, misses=None, mse=None).to_dict()
    assert json.loads(json.dumps(figures)) == figures
    assert figures["confusion"] == confusion.tolist()
    assert figures["classes"] == [
        {"class": "a", "images": 4, "error": 0.25, "precision": 0.6},
        {"class": "b", "images": 5, "error": 0.4, "precision": 0.75},
        {"class": "c", "images": 0, "error": None, "precision": None},
    ]


def test_a_class_that_neither_labels_nor_predictions_have(run, monkeypatch):
    images = toy_images(30)
    images = images.select((images.labels < 2).nonzero()[:, 0])
    monkeypatch.setattr("hitnet.inference.evaluation.class_distances", lambda *a: torch.tensor([[0.5, 0.4, 2.0]] * 20))
    assert measure(run.model, images).confusion.tolist() == [[0, 10, 0], [0, 10, 0], [0, 0, 0]]


def test_hits_and_misses_are_for_capsules_alone():
    figures = measure(
        hitnet.models.build("hitnet-small", (1, 12, 12), 3, head="softmax", decoder="none"), toy_images(6)
    )
    assert figures.hits is figures.misses is figures.mse is None


def test_a_network_in_training_is_evaluated_as_any_and_stays_in_training():
    network, images = hitnet.models.build("hitnet-small", (1, 12, 12), 3).train(), toy_images(20)
    figures, before = measure(network, images), {name: value.clone() for name, value in network.state_dict().items()}
    assert network.training
    assert measure(network.eval(), images).to_dict() == figures.to_dict()
    assert not network.training
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_reconstruction_error_is_that_of_the_predicted_capsule(run):
    images = toy_images(7)
    unit = images.pixels.float() / 255
    with torch.inference_mode():
        expected = (run.model(unit).reconstruction - unit).square().mean().item()
    assert measure(run.model, images).mse == pytest.approx(expected, rel=1e-5)


def test_batches_change_nothing(run, monkeypatch):
    pixels = toy_images(20).pixels
    whole = class_distances(run.model, pixels)
    monkeypatch.setattr("hitnet.models.network.evaluation_batch", lambda shape: 3)
    torch.testing.assert_close(whole, class_distances(run.model, pixels))


def test_classes_are_matched_by_name(run):
    images = toy_images(30)
    turned = hitnet.Images.from_arrays(
        images.pixels, 2 - images.labels, class_names=["band 2", "band 1", "band 0"], name="turned"
    )
    assert hitnet.evaluate(run, turned, device="cpu").error == hitnet.evaluate(run, images, device="cpu").error
    strange = hitnet.Images.from_arrays(images.pixels, images.labels, class_names=["a", "b", "c"], name="strange")
    with pytest.raises(HitNetError, match="does not know: a, b, c"):
        hitnet.evaluate(run, strange, device="cpu")


def test_files_of_another_size_are_made_to_fit(run, tmp_path):
    hitnet.data.save_npz(toy_images(9, shape=(1, 24, 24)), tmp_path / "large.npz")
    assert hitnet.evaluate(run, tmp_path / "large.npz", split="all", device="cpu").images == 9


def test_damaged_files_are_left_out_unless_they_must_not_be(run, tmp_path):
    images = toy_images(9)
    for i, (pixels, k) in enumerate(zip(images.pixels, images.labels.tolist(), strict=True)):
        path = tmp_path / f"band {k}" / f"{i}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels[0].numpy()).save(path)
    path.write_bytes(path.read_bytes()[:40])
    assert hitnet.evaluate(run, tmp_path, split="all", device="cpu").images == 8
    with pytest.raises(HitNetError, match=r"8\.png"):
        hitnet.evaluate(run, open_data(tmp_path, strict=True), split="all", device="cpu")


def test_data_of_a_run_that_are_not_there_any_more_are_told_as_its_own(run, tmp_path):
    with pytest.raises(HitNetError, match=r"^The data .*'toy'"):
        hitnet.evaluate(run, device="cpu")
    with pytest.raises(HitNetError, match=r"^/.*none\.npz does not exist"):
        hitnet.evaluate(run, tmp_path / "none.npz", device="cpu")
    with pytest.raises(HitNetError, match=r"^split must be one of"):
        hitnet.evaluate(run, split="tset", device="cpu")


def test_data_that_was_in_memory_is_not_taken_for_a_known_set_of_its_name():
    images = replace(toy_images(12), name="mnist-sample")
    run = hitnet.train(images, model="hitnet-small", recipe=hitnet.choose_recipe(epochs=1), device="cpu")
    with pytest.raises(HitNetError, match="'mnist-sample' was in memory"):
        hitnet.evaluate(run, device="cpu")


def test_the_folder_of_known_sets_that_a_run_recorded_gives_way_to_the_environments(tmp_path, monkeypatch):
    monkeypatch.delenv("HITNET_DATA", raising=False)
    for name, count in (("recorded", 60), ("other", 30)):
        write_mnist(tmp_path / name / "mnist", toy_images(count))
    data = open_data("mnist", data_dir=tmp_path / "recorded")
    trained = hitnet.train(data, model="hitnet-small", recipe=choose_recipe(epochs=1), device="cpu")
    assert hitnet.evaluate(trained, split="train", device="cpu").images == 60
    monkeypatch.setenv("HITNET_DATA", str(tmp_path / "other"))
    assert hitnet.evaluate(trained, split="train", device="cpu").images == 30


def test_no_images_are_refused_in_words(run):
    with pytest.raises(HitNetError, match="toy holds no images"):
        hitnet.evaluate(run, toy_images(6).select([]), device="cpu")


def test_images_of_another_size_are_refused_in_words(run):
    with pytest.raises(HitNetError, match=r"trained on .* that size"):
        hitnet.evaluate(run, toy_images(6, shape=(1, 14, 14)), device="cpu")
    with pytest.raises(HitNetError, match=r"trained on .* grey images"):
        hitnet.evaluate(run, toy_images(6, shape=(3, *run.config.model.in_shape[1:])), device="cpu")


def test_verdicts(run):
    assert [run.rule().verdict(d) for d in (0.0, 0.1, 0.5, 0.9, 1.5)] == ["hit", "hit", "near", "miss", "miss"]


def test_predict_names_the_class_or_none(run, tmp_path):
    images = toy_images(6, seed=9)
    paths = []
    for i in range(6):
        paths.append(tmp_path / f"{i}.png")
        Image.fromarray(images.pixels[i, 0].numpy()).save(paths[-1])
    predictions = predict(run, paths, device="cpu")
    d = class_distances(run.model, images.pixels)
    for prediction, row in zip(predictions, d, strict=True):
        order = row.argsort()
        assert prediction.distance == pytest.approx(row[order[0]].item(), abs=1e-5)
        assert prediction.runner_up == f"band {order[1]}"
        assert prediction.label == (None if row.min() >= 0.9 else f"band {order[0]}")
    assert predict(run, []) == []


def test_predict_says_none_when_every_capsule_misses(run, monkeypatch, tmp_path):
    Image.new("L", (12, 12)).save(tmp_path / "black.png")
    said = torch.tensor([[1.2, 0.95, 1.9]]), torch.tensor([1.0])
    monkeypatch.setattr("hitnet.training.runs.distances_and_misfits", lambda *a: said)
    (prediction,) = predict(run, [tmp_path / "black.png"], device="cpu")
    assert (prediction.label, prediction.verdict, prediction.runner_up) == (None, "miss", "band 0")


def test_a_batch_is_filled_with_black_images():
    images = torch.rand(3, 2, 4, 5).contiguous(memory_format=torch.channels_last)
    full = filled(images, 7)
    assert full.shape == (7, 2, 4, 5)
    assert full.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(full[:3], images)
    assert full[3:].count_nonzero() == 0
    assert filled(images, 3) is images


@pytest.mark.gpu
def test_a_pretrained_network_on_a_gpu_sees_batches_of_one_size():
    torch.manual_seed(0)
    model = hitnet.models.build("hitnet-pretrained", (3, 32, 32), 3, decoder="none").eval()
    pixels = torch.randint(0, 256, (70, 3, 32, 32), dtype=torch.uint8)
    expected, sizes = class_distances(model, pixels), []
    model.cuda().features.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    torch.testing.assert_close(class_distances(model, pixels).cpu(), expected, rtol=0.05, atol=0.05)
    assert sizes == [64, 64]


@pytest.mark.parametrize("part", ["head", "decoder"])
def test_a_network_that_computes_no_numbers_is_refused(run, part):
    broken = replace(run, model=copy.deepcopy(run.model))
    with torch.no_grad():
        next(getattr(broken.model, part).parameters()).fill_(float("nan"))
    with pytest.raises(HitNetError, match="computes values that are not finite: some of its weights are NaN"):
        broken.evaluate(toy_images(6), device="cpu")
    if part == "head":
        with pytest.raises(HitNetError, match="computes values that are not finite"):
            broken.predict(toy_images(6), device="cpu")
        with pytest.raises(HitNetError, match="computes values that are not finite"):
            hitnet.evaluate([run, broken], toy_images(6), device="cpu")
        with pytest.raises(HitNetError, match="computes values that are not finite"):
            broken.rule(keep=0.9, known=toy_images(150), device="cpu")
