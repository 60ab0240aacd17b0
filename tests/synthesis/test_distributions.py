"""Feature distributions and fitted Gaussians, against plain loops in float64."""

import dataclasses
import logging
import math

import numpy as np
import pytest
import torch
from PIL import Image

import hitnet
from hitnet import HitNetError, Run
from hitnet.data import save_npz
from hitnet.runtime.tensor_files import read_tensors, write_tensors
from hitnet.synthesis import capsule_distributions, fitted_gaussians
from hitnet.synthesis.distributions import GAUSSIANS_FILE, CapsuleDistributions, fit, run_images, true_capsules
from toy import toy_images

BRIEF = {"model": "hitnet-small", "recipe": hitnet.choose_recipe("fast", epochs=1), "device": "cpu"}


@pytest.fixture
def spread_out():
    torch.manual_seed(0)
    capsules = 0.5 + 0.08 * torch.randn(50, 4)
    return CapsuleDistributions(capsules, torch.arange(50) % 2, ("b", "a", "none"), "toy", 0.5, 0.05)


def test_the_table_by_hand(spread_out):
    table = spread_out.table()
    assert len(table) == 2 * 4  # the third class has no images
    for row in table.to_dict("records"):
        k = ("b", "a").index(row["class"])
        values = [float(spread_out.capsules[i, row["component"]]) for i in range(50) if i % 2 == k]
        mean = sum(values) / len(values)
        assert row["images"] == 25
        assert row["mean"] == pytest.approx(mean)
        assert row["spread"] == pytest.approx(math.sqrt(sum((v - mean) ** 2 for v in values) / len(values)))
        assert row["within"] == pytest.approx(sum(abs(v - 0.5) <= 2 * 0.05 for v in values) / len(values))


def test_by_class(spread_out):
    rows, table = spread_out.by_class(), spread_out.table()
    assert rows["class"].tolist() == ["b", "a"]  # in the set's order
    assert rows["images"].tolist() == [25, 25]
    class_table = table[table["class"] == "a"]
    assert rows["mean"][1] == pytest.approx(class_table["mean"].mean())
    assert rows["spread"][1] == pytest.approx(math.sqrt((class_table["spread"] ** 2).mean()))
    assert rows["within"][1] == pytest.approx(class_table["within"].mean())


def test_capsules_are_those_of_the_true_class(toy_run, toy_set):
    capsules = true_capsules(toy_run.model, toy_set)
    for i in (0, 1, 2, 50):
        output = toy_run.model(toy_set.pixels[i : i + 1].float() / 255)
        assert torch.allclose(capsules[i], output.capsules[0, int(toy_set.labels[i])], atol=1e-5)


def test_a_runs_own_data(toy_run, toy_set):
    distributions = capsule_distributions(toy_run, device="cpu")
    assert len(distributions.capsules) == len(toy_set)
    assert distributions.spread == pytest.approx(0.1 / math.sqrt(4))
    assert len(capsule_distributions(toy_run, split="test", device="cpu").labels) == 120 - len(toy_set)
    single_class = capsule_distributions(toy_run, classes=["band 1"], device="cpu")
    assert single_class.labels.unique().tolist() == [1]
    assert len(capsule_distributions(toy_run, limit=10, device="cpu").labels) == 10


def test_the_fit_by_hand():
    torch.manual_seed(0)
    vectors, labels = torch.rand(30, 3), torch.arange(30) % 2
    gaussians = fit(vectors, labels, 3)
    for k in range(2):
        rows = [vectors[i].double().numpy() for i in range(30) if i % 2 == k]
        mean = sum(rows) / len(rows)
        covariance = sum(np.outer(row - mean, row - mean) for row in rows) / len(rows)
        assert np.allclose(gaussians.mean[k], mean)
        assert np.allclose(gaussians.covariance[k], covariance)
        root = gaussians.root(k).numpy()
        assert np.allclose(root @ root.T, covariance)
    assert gaussians.count.tolist() == [15, 15, 0]
    assert not gaussians.mean[2].any()
    assert not gaussians.covariance[2].any()
    assert gaussians.mean.dtype == gaussians.covariance.dtype == torch.float64


def test_the_root_of_a_covariance_without_inverse():
    gaussians = fit(torch.tensor([[0.1, 0.2, 0.3], [0.3, 0.6, 0.9]]), torch.zeros(2, dtype=torch.long), 1)
    root = gaussians.root(0)
    assert torch.allclose(root @ root.T, gaussians.covariance[0])
    assert root.isfinite().all()


def test_extra_components_are_fitted_with_the_capsule(extra_network):
    images = hitnet.Images.from_arrays(torch.randint(256, (9, 3, 12, 12), dtype=torch.uint8), torch.arange(9) % 3)
    assert true_capsules(extra_network, images).shape == (9, 4 + 2)


@pytest.fixture
def own_folder(toy_run, tmp_path):
    """The run in a folder of its own, without fitted Gaussians."""
    for name in ("config.json", "weights.safetensors"):
        (tmp_path / name).write_bytes((toy_run.folder / name).read_bytes())
    return tmp_path


def test_gaussians_are_kept_in_the_run_folder(own_folder, monkeypatch):
    first = fitted_gaussians(own_folder, device="cpu")
    assert (own_folder / GAUSSIANS_FILE).is_file()
    monkeypatch.setattr("hitnet.synthesis.distributions.true_capsules", None)  # not to be called again
    again = fitted_gaussians(own_folder, device="cpu")
    assert torch.equal(first.covariance, again.covariance)
    assert torch.equal(first.count, again.count)


def test_damaged_gaussians_are_fitted_again(own_folder, caplog):
    first = fitted_gaussians(own_folder, device="cpu")
    (own_folder / GAUSSIANS_FILE).write_bytes(b"torn")
    assert torch.equal(first.covariance, fitted_gaussians(own_folder, device="cpu").covariance)
    assert "are fitted again" in caplog.text
    assert torch.equal(first.mean, read_tensors(own_folder / GAUSSIANS_FILE)[0]["mean"])


def test_gaussians_of_other_weights_are_fitted_again(own_folder):
    first = fitted_gaussians(own_folder, device="cpu")
    tensors, metadata = read_tensors(own_folder / "weights.safetensors")
    tensors["head.linear.bias"] += 0.5
    write_tensors(own_folder / "weights.safetensors", tensors, metadata)
    assert not torch.allclose(first.mean, fitted_gaussians(own_folder, device="cpu").mean)


def test_gaussians_of_other_data_are_not_kept(own_folder, toy_set):
    gaussians = fitted_gaussians(own_folder, toy_set.select(range(12)), device="cpu")
    assert gaussians.count.sum() == 12
    assert not (own_folder / GAUSSIANS_FILE).exists()


def test_changed_data_are_noticed(toy_run, caplog):
    config = dataclasses.replace(toy_run.config, data={**toy_run.config.data, "fingerprint": "another"})
    with caplog.at_level(logging.WARNING, "hitnet"):
        fitted_gaussians(Run(toy_run.model, config, []), device="cpu")
    assert "has changed since" in caplog.text


def test_gaussians_of_changed_data_are_not_kept(tmp_path):
    data, run = tmp_path / "bands.npz", tmp_path / "run"
    save_npz(toy_images(60), data)
    hitnet.train(data, out=run, **BRIEF)
    save_npz(toy_images(60, seed=5), data)
    changed = fitted_gaussians(run, device="cpu")
    assert not (run / GAUSSIANS_FILE).exists()
    save_npz(toy_images(60), data)
    restored = fitted_gaussians(run, device="cpu")
    assert (run / GAUSSIANS_FILE).is_file()
    assert not torch.allclose(changed.mean, restored.mean)


@pytest.mark.parametrize("limit", [None, 20])
def test_images_that_were_left_out_do_not_change_the_draw(tmp_path, caplog, limit):
    """The same images again, though some of those that were drawn could not be decoded."""
    images = toy_images(60)
    for i, k in enumerate(images.labels.tolist()):
        folder = tmp_path / "photos" / images.class_names[k]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images.pixels[i, 0].numpy()).save(folder / f"{i:03}.jpg")
    for path in sorted(tmp_path.glob("photos/*/*.jpg"))[::3]:
        path.write_bytes(path.read_bytes()[:-30])
    run = hitnet.train(hitnet.open_data(tmp_path / "photos", limit=limit), out=tmp_path / "run", **BRIEF)
    assert run.config.data["limit"] == limit
    assert run.config.data["images"] < (limit or 48)
    reloaded = run_images(run)
    assert reloaded.fingerprint == run.config.data["fingerprint"]
    assert len(run_images(run, limit=5)) <= 5
    fitted_gaussians(run, device="cpu")
    assert "has changed since" not in caplog.text


def test_the_limit_of_a_run_is_for_the_images_that_it_was_trained_on(toy_file, toy_set):
    run = hitnet.train(hitnet.open_data(toy_file, limit=12), **BRIEF)
    assert len(run_images(run)) == len(run_images(run, limit=20)) == 12
    assert len(run_images(run, split="test")) == 24
    assert len(run_images(run, toy_file)) == len(toy_set)


def test_other_data_by_their_place(toy_run, tmp_path):
    other = toy_images(30, seed=5)
    save_npz(other, tmp_path / "other.npz")
    images = run_images(toy_run, tmp_path / "other.npz", split="all")
    assert torch.equal(images.pixels, other.pixels)
    with pytest.raises(HitNetError, match="does not exist") as error:
        run_images(toy_run, tmp_path / "nowhere")
    assert "trained on" not in str(error.value)


def test_data_that_are_gone(toy_run):
    config = dataclasses.replace(toy_run.config, data={**toy_run.config.data, "source": "arrays"})
    with pytest.raises(HitNetError, match=r"cannot be read.*other data"):
        fitted_gaussians(Run(toy_run.model, config, []), device="cpu")


def test_images_of_another_size(toy_run):
    small = hitnet.Images.from_arrays(
        torch.zeros(3, 1, 9, 9, dtype=torch.uint8), [0, 1, 2], class_names=toy_run.class_names
    )
    with pytest.raises(HitNetError, match=r"shape \(1, 9, 9\)"):
        capsule_distributions(toy_run, small, device="cpu")
