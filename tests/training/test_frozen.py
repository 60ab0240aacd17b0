"""Heads on a frozen backbone: an ordinary run, with the features that audits keep, and what is like no class."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file

import hitnet
from hitnet import choose_model, choose_recipe, open_data
from hitnet.errors import HitNetError
from hitnet.models import backbones
from hitnet.training.frozen import class_sums, unseen_misfits
from toy import TinyBackbone, colour_images, write_images

pytestmark = pytest.mark.usefixtures("quick_heads")

SETTINGS = backbones.Settings(32, (0.5,) * 3, (0.5,) * 3)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """A pretrained network on a backbone of 8 features."""
    monkeypatch.setattr(backbones, "architecture", lambda _: (TinyBackbone(), SETTINGS))
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(1)
    module = TinyBackbone()
    module.norm.running_mean.normal_()
    save_file(module.state_dict(), tmp_path / "w.safetensors")
    weights = str(tmp_path / "w.safetensors")
    return choose_model("hitnet-pretrained", features="timm:tiny", weights=weights, capsule_dim=8), module.state_dict()


@pytest.fixture
def photos(tmp_path):
    write_images(tmp_path / "photos", colour_images(90, side=40))
    return tmp_path / "photos"


def train(data, model, **options):
    return hitnet.train(data, model=model, device="cpu", progress=False, **options)


def test_a_head_is_fitted_and_the_backbone_stays_as_it_is(tiny, photos, tmp_path):
    model, start = tiny
    run = train(photos, model, out=tmp_path / "run")
    kept = run.model.features.module.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in start.items())  # also statistics of batch-norm
    assert run.config.recipe.backbone_rate == 0
    assert run.config.model.in_shape == (3, 32, 32)  # what the backbone takes, not the images' 40
    row = run.history[-1]
    assert max(row["train_error"], row["test_error"], row["held_out_error"]) < 0.1
    assert hitnet.open_run(tmp_path / "run").calibration == run.calibration
    # The network, which reads the files itself, says what the head said on kept features.
    assert run.evaluate(device="cpu").error == row["test_error"]
    assert hitnet.train(photos, model=model, out=tmp_path / "run", resume=True, device="cpu").history == run.history


def test_images_in_memory_and_at_a_given_size(tiny, photos):
    model, _ = tiny
    assert train(colour_images(60), model).history[-1]["train_error"] < 0.1
    run = train(open_data(photos, image_size=20), model)
    assert run.config.model.in_shape == (3, 20, 20)
    assert run.evaluate(device="cpu").error == run.history[-1]["test_error"]


def test_seeds_share_the_features(tiny, photos, tmp_path, monkeypatch):
    model, _ = tiny
    calls = []
    monkeypatch.setattr(
        "hitnet.training.frozen.features_of",
        lambda data, images, *_, **__: calls.append(len(images)) or torch.randn(len(images), 8).half(),
    )
    runs = hitnet.train_many(photos, seeds=2, model=model, out=tmp_path / "runs", device="cpu", progress=False)
    assert len(calls) == 2  # images to train on and to test on
    assert not torch.equal(runs[0].model.head.linear.weight, runs[1].model.head.linear.weight)


@pytest.mark.parametrize(
    ("options", "changes", "said"),
    [
        ({"shift": 3}, {}, "shift = 3 needs a network that is trained as a whole"),
        ({"augment": "hybrid"}, {}, "augment = hybrid needs a network"),
        ({}, {"decoder": "paper"}, "A frozen backbone takes a Hit-or-Miss head"),
    ],
)
def test_what_a_frozen_backbone_cannot_do(tiny, photos, options, changes, said):
    model, _ = tiny
    model = choose_model(model.name, **{**model.changes, **changes})
    with pytest.raises(HitNetError, match=said):
        train(photos, model, recipe=choose_recipe("fast", backbone_rate=0, **options))


def test_only_a_pretrained_backbone_can_be_frozen(photos):
    with pytest.raises(HitNetError, match="this network has none"):
        train(photos, "hitnet-small", recipe=choose_recipe("fast", backbone_rate=0))


def test_misfits_of_images_left_out_against_a_naive_loop():
    torch.manual_seed(0)
    features, labels = torch.rand(30, 5), torch.arange(30) % 3
    found = unseen_misfits(features, labels, class_sums(features, labels, 3))
    rows = features.double().numpy()
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for i in range(30):
        cosines = []
        for k in range(3):
            mean = rows[(labels.numpy() == k) & (np.arange(30) != i)].mean(axis=0)
            cosines.append(rows[i] @ mean / np.linalg.norm(mean))
        assert found[i] == pytest.approx(1 - max(cosines), abs=1e-5)


def test_a_network_compares_new_images_with_the_classes(tiny, photos, tmp_path):
    model, _ = tiny
    run = train(photos, model)
    pixels = torch.randint(0, 256, (4, 3, 32, 32), dtype=torch.uint8)
    with torch.inference_mode():
        features = run.model.features(pixels / 255)
        output = run.model(pixels / 255)
    cosines = F.cosine_similarity(features[:, None].double(), run.model.typical[None].double(), dim=2)
    torch.testing.assert_close(output.misfit.double(), 1 - cosines.amax(dim=1), rtol=1e-4, atol=1e-5)
    known = [str(path) for path in sorted(photos.glob("*/*.png"))[:10]]
    assert all(each.label is not None for each in run.predict(known, keep=1.0, device="cpu"))
    limit = run.rule(device="cpu").largest_misfit  # by default, 99 % of known images keep their class
    assert limit == pytest.approx(
        run.calibration.misfits[int(np.ceil(0.99 * len(run.calibration.misfits))) - 1], abs=2e-4
    )


def test_an_exported_head_answers_none_as_the_run_does(tiny, photos, tmp_path):
    pytest.importorskip("onnxruntime")
    model, _ = tiny
    run = train(photos, model)
    file = run.export(tmp_path / "head.onnx", keep=0.9)
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 90, 3), np.uint8)).save(tmp_path / "wide.png")
    pictures = [tmp_path / "wide.png", *sorted(photos.glob("*/*.png"))[:5]]
    ours, theirs = run.predict(pictures, keep=0.9, device="cpu"), hitnet.predict(file, pictures)
    assert [each.label for each in ours] == [each.label for each in theirs]
    assert [each.misfit for each in ours] == pytest.approx([each.misfit for each in theirs], abs=1e-3)
