"""What a run says of images, and how many images of known classes keep their class."""

import logging

import numpy as np
import pytest
import torch
from PIL import Image

import hitnet
from hitnet import HitNetError
from hitnet.inference import open_onnx
from hitnet.models.network import class_distances
from hitnet.probabilities import fit_temperature
from toy import toy_images


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run on a .npz of 120 images, of which 24 are for testing; noise makes their distances differ."""
    folder = tmp_path_factory.mktemp("run")
    hitnet.data.save_npz(noisy_images(120, seed=1), folder / "bands.npz")
    recipe = hitnet.choose_recipe("fast", epochs=4, batch_size=16, learning_rate=5e-3)
    hitnet.train(folder / "bands.npz", out=folder / "run", model="hitnet-small", recipe=recipe, device="cpu")
    return folder / "run"


def noisy_images(count, *, seed):
    images = toy_images(count, seed=seed)
    noise = torch.randint(0, 100, images.pixels.shape, generator=torch.Generator().manual_seed(seed))
    return hitnet.Images.from_arrays(
        (images.pixels // 2 + noise).to(torch.uint8), images.labels, class_names=images.class_names, name="bands"
    )


def write(images, folder):
    paths = [folder / f"{i}.png" for i in range(len(images))]
    for path, pixels in zip(paths, images.pixels, strict=True):
        Image.fromarray(pixels[0].numpy()).save(path)
    return paths


def test_the_wanted_share_of_test_images_keeps_its_class(folder, tmp_path, caplog):
    run = hitnet.open_run(folder)
    test = run.load()
    assert len(test) == 24
    paths = write(test, tmp_path)
    with caplog.at_level(logging.INFO, "hitnet"):
        predictions = hitnet.predict(folder, paths, keep=0.75, device="cpu")
    assert sum(prediction.label is not None for prediction in predictions) == 18
    each = np.sort(hitnet.misfit(class_distances(run.model, test.pixels)).numpy())
    assert [prediction.label is None for prediction in predictions] == [
        prediction.misfit > each[17] + 1e-4 for prediction in predictions
    ]
    limit = run.rule(keep=0.75, device="cpu").largest_misfit
    assert limit == pytest.approx(each[17], abs=2e-4)
    assert f'"none" beyond a misfit of {limit:.3f}: 75 % of known images have at most that.' in caplog.text
    everything = hitnet.predict(folder, paths, keep=1.0, device="cpu")
    assert all(prediction.label for prediction in everything)


def test_other_data_may_set_the_limit(folder):
    run, others = hitnet.open_run(folder), noisy_images(50, seed=7)
    rule = run.rule(keep=0.9, known=others, device="cpu")
    each = hitnet.misfit(class_distances(run.model, others.pixels))
    assert int((each <= rule.largest_misfit).sum()) == 45
    assert rule.radii == (0.1, 0.9)
    assert run.rule().largest_misfit is None


def test_an_onnx_file_holds_the_limit(folder, tmp_path):
    run = hitnet.open_run(folder)
    file = hitnet.open_run(folder).export(tmp_path / "bands.onnx", keep=0.75)
    limit = run.rule(keep=0.75, device="cpu").largest_misfit
    assert open_onnx(file).about.largest_misfit == pytest.approx(limit, abs=1e-4)
    paths = write(noisy_images(20, seed=3), tmp_path)
    by_run, by_file = hitnet.predict(folder, paths, keep=0.75, device="cpu"), hitnet.predict(file, paths)
    assert [each.label for each in by_run] == [each.label for each in by_file]
    assert len({each.label is None for each in by_file}) == 2  # some are none, some are not
    with pytest.raises(HitNetError, match="`keep` and `known`"):
        hitnet.predict(file, paths, keep=0.75)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": 95}, r"`keep` must be a share above 0 and at most 1, e\.g\. 0\.95; got 95"),
        ({"known": "mnist-sample"}, r"`known` is the data that `keep` is measured on\. Give `keep` too"),
        ({"keep": 0.9, "known": toy_images(19)}, r"`keep` needs at least 20 images .* got 19"),
        ({"keep": 0.9, "known": toy_images(30, classes=4)}, r"classes that the network does not know: band 3"),
    ],
)
def test_mistakes_are_named(folder, options, message):
    with pytest.raises(HitNetError, match=message):
        hitnet.predict(folder, ["x.png"], device="cpu", **options)


def test_images_that_were_trained_on_set_no_limit():
    recipe = hitnet.choose_recipe("fast", epochs=1)
    run = hitnet.train(toy_images(40), model="hitnet-small", recipe=recipe, device="cpu")
    with pytest.raises(HitNetError, match=r"`keep` needs images .* as `known`"):
        hitnet.predict(run, ["x.png"], keep=0.9)


def test_a_network_with_softmax_never_answers_none():
    recipe, test = hitnet.choose_recipe("fast", epochs=1), toy_images(30, seed=2)
    choice = hitnet.choose_model("hitnet-small", head="softmax", decoder="none")
    run = hitnet.train(toy_images(40), model=choice, recipe=recipe, device="cpu")
    with pytest.raises(HitNetError, match=r"others never answer \"none\""):
        hitnet.predict(run, [], keep=0.9, known=test, device="cpu")


def test_probabilities_are_calibrated_on_the_test_images(folder, tmp_path):
    """The softmax of the distances, at the temperature that fits the test images best; also in an ONNX file."""
    run = hitnet.open_run(folder)
    test = run.load()
    distances = class_distances(run.model, test.pixels).numpy()
    assert run.calibration.temperature == pytest.approx(fit_temperature(distances, test.labels.numpy()))
    predictions = run.predict(test, device="cpu")
    for prediction, row in zip(predictions, distances.astype(np.float64), strict=True):
        weights = np.exp(-(row - row.min()) / run.calibration.temperature)
        assert prediction.probability == pytest.approx(1 / weights.sum())
    by_file = hitnet.predict(run.export(tmp_path / "bands.onnx"), test)
    assert [each.probability for each in by_file] == pytest.approx([each.probability for each in predictions], abs=1e-3)


def test_without_test_images_there_are_no_probabilities(tmp_path):
    recipe = hitnet.choose_recipe("fast", epochs=1)
    options = {"model": "hitnet-small", "recipe": recipe, "device": "cpu"}
    for data in (toy_images(40), hitnet.open_data(toy_images(40), test=toy_images(19))):
        run = hitnet.train(data, out=tmp_path / str(len(list(tmp_path.iterdir()))), **options)
        assert run.calibration is hitnet.open_run(run.folder).calibration is None
        assert run.predict(toy_images(3), device="cpu")[0].probability is None


def test_the_largest_wins_and_is_the_likeliest_in_networks_with_softmax():
    choice = hitnet.choose_model("hitnet-small", head="softmax", decoder="none")
    recipe = hitnet.choose_recipe("fast", epochs=4, batch_size=16)
    data = hitnet.open_data(toy_images(40), test=toy_images(30, seed=2))
    run = hitnet.train(data, model=choice, recipe=recipe, device="cpu")
    assert all(prediction.probability > 1 / 3 for prediction in run.predict(toy_images(6), device="cpu"))


def test_a_run_does_what_the_functions_do(folder, tmp_path):
    run = hitnet.open_run(folder)
    assert hitnet.open_run(run) is run
    assert run.evaluate(device="cpu").to_dict() == hitnet.evaluate(folder, device="cpu").to_dict()
    images = noisy_images(4, seed=3)
    predictions = run.predict(images, device="cpu")
    assert predictions == hitnet.predict(folder, images, device="cpu")
    assert predictions.table().to_dict("records") == [prediction.to_dict() for prediction in predictions]
