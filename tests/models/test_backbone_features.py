"""A backbone inside a network: what its images look like, where its weights come from, and how they are kept."""

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import hitnet
from hitnet.errors import HitNetError
from hitnet.models import ModelConfig, Network, backbones, choose_model
from hitnet.models.efficientnet_lite import WEIGHTS, shipped_weights
from hitnet.models.features import ENLARGED, SMALL, BackboneFeatures
from hitnet.training.run_folder import RunFolder
from toy import TinyBackbone, colour_images

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """timm:tiny is a backbone of 8 features with settings of its own."""
    known = backbones.architecture

    def architecture(name):
        if name == "timm:tiny":
            return TinyBackbone(), backbones.Settings(32, MEAN, STD)
        return known(name)

    monkeypatch.setattr(backbones, "architecture", architecture)


@pytest.fixture
def weights(tmp_path):
    """A file of weights for this backbone, with a classifier, and the module that they come from."""
    torch.manual_seed(5)
    module = TinyBackbone()
    module.norm.running_mean.normal_()
    save_file(
        {**module.state_dict(), "fc.weight": torch.zeros(3, 8), "fc.bias": torch.zeros(3)}, tmp_path / "w.safetensors"
    )
    return str(tmp_path / "w.safetensors"), module.eval()


def network(shape=(3, 32, 32), **changes):
    return Network(choose_model("hitnet-pretrained", features="timm:tiny", **changes).config(shape, 3))


def seen(features, images):
    """What the backbone itself is given for images in [0, 1]."""
    taken = []
    features.module.register_forward_pre_hook(lambda _, given: taken.append(given[0]))
    features(images)
    return taken[-1]


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_normalised_and_grey_ones_repeated(channels):
    features = BackboneFeatures((channels, 100, 120), "timm:tiny")
    assert features.num_features == 8
    images = torch.rand(2, channels, 100, 120)
    found = seen(features, images)
    assert found.shape == (2, 3, 100, 120)
    for k in range(3):
        torch.testing.assert_close(found[:, k], (images[:, min(k, channels - 1)] - MEAN[k]) / STD[k])


def test_the_same_normalisation_as_for_frozen_features(weights):
    file, module = weights
    backbone = backbones.open_backbone(module, mean=MEAN, std=STD, input_size=96)
    features = BackboneFeatures((3, 96, 96), "timm:tiny")
    features.load_pretrained(file)
    pixels = torch.randint(0, 256, (2, 3, 96, 96), dtype=torch.uint8)
    torch.testing.assert_close(features.eval()(pixels / 255), module(backbone.normalise(pixels)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "enlarged"),
    [
        ((32, 32), (160, 160)),
        ((28, 28), (160, 160)),
        ((64, 40), (160, 100)),
        ((SMALL - 1, 10), (160, 16)),
        ((SMALL, 20), (SMALL, 20)),
        ((224, 168), (224, 168)),
    ],
)
def test_small_images_are_enlarged(size, enlarged):
    features = BackboneFeatures((3, *size), "timm:tiny")
    images = torch.rand(1, 3, *size)
    found = seen(features, images)
    assert found.shape[2:] == enlarged
    assert max(enlarged) in (ENLARGED, *size)
    if size == (32, 32):
        larger = F.interpolate(images, (160, 160), mode="bilinear", align_corners=False)
        expected = (larger - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("size", [(32, 32), (20, 45), (20, 32), (70, 10)])
def test_a_frozen_backbone_sees_images_as_the_extractor_shows_them(weights, size):
    file, module = weights
    backbone = backbones.open_backbone(module, mean=MEAN, std=STD, input_size=32)
    features = BackboneFeatures((3, *size), "timm:tiny", frozen=True)
    features.load_pretrained(file)
    pixels = torch.randint(0, 256, (2, 3, *size), dtype=torch.uint8)
    taken = seen(features.eval(), pixels / 255)
    expected = F.interpolate(backbone.normalise(pixels), (32, 32), mode="bilinear", antialias=True)
    torch.testing.assert_close(taken, expected, rtol=1e-4, atol=1e-5)


def test_building_leaves_batch_norm_as_it_is():
    norm = network().features.module.norm
    assert norm.training
    assert norm.num_batches_tracked == 0
    assert norm.running_mean.tolist() == [0] * 8


def test_images_below_8_pixels_are_refused():
    with pytest.raises(HitNetError, match="Images of 7x7 are too small"):
        network((3, 7, 7))


class Patches(TinyBackbone):
    """As a transformer, it takes images of one size only."""

    def forward(self, images):
        assert images.shape[2:] == (224, 224), "Wrong image height"
        return super().forward(images)


def test_a_backbone_that_takes_one_size_says_which(monkeypatch):
    settings = backbones.Settings(224, MEAN, STD)
    monkeypatch.setattr(backbones, "architecture", lambda _: (Patches(), settings))
    assert BackboneFeatures((3, 224, 224), "timm:patches").num_features == 8
    for shape in ((3, 120, 160), (1, 28, 28)):
        with pytest.raises(HitNetError, match="set `image_size` to 224"):
            BackboneFeatures(shape, "timm:patches")


def test_load_pretrained_takes_a_file_or_what_is_published(weights):
    file, module = weights
    model = network(weights=file)
    assert not torch.equal(model.features.module.conv.weight, module.conv.weight)
    model.load_pretrained()
    for name, value in module.state_dict().items():
        assert torch.equal(model.features.module.state_dict()[name], value)
    with pytest.raises(HitNetError, match=r"No weights .* timm:tiny"):
        network().load_pretrained()
    with pytest.raises(HitNetError, match=r"no file .*gone.safetensors"):
        network(weights="gone.safetensors").features.check_pretrained("gone.safetensors")


def test_the_network_of_the_package_starts_from_its_weights():
    model = Network(choose_model("hitnet-pretrained").config((3, 32, 32), 3))
    assert (model.features.name, model.features.num_features, model.decoder) == ("efficientnet-lite0", 3568, None)
    model.load_pretrained()
    module = model.features.module
    assert all(torch.equal(module.state_dict()[name], value) for name, value in shipped_weights().items())
    own = Network(choose_model("hitnet-pretrained", weights=str(WEIGHTS)).config((3, 32, 32), 3))
    own.load_pretrained()
    close = own.features.module.state_dict()
    assert all(torch.equal(value, close[name]) for name, value in shipped_weights().items())


def test_other_networks_have_nothing_to_load():
    model = hitnet.models.build("hitnet-small", (1, 12, 12), 3)
    before = [p.detach().clone() for p in model.parameters()]
    model.features.check_pretrained(model.config.weights)
    model.load_pretrained()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_weights_are_for_backbones_only():
    with pytest.raises(HitNetError, match=r"`weights` .* features 'small'"):
        choose_model("hitnet-small", weights="w.safetensors").config((1, 12, 12), 3)
    config = ModelConfig((3, 32, 32), 3, features="timm:tiny", decoder="none", weights="w.safetensors")
    assert ModelConfig.from_dict(config.to_dict()) == config
    assert config.pretrained


def test_a_run_folder_needs_no_other_weights(weights, tmp_path):
    """The network is built from config.json alone and takes the weights of the run, not those that it started from."""
    file, _ = weights
    model = choose_model("hitnet-pretrained", features="timm:tiny", weights=file)
    recipe = hitnet.choose_recipe(epochs=1, batch_size=16)
    run = hitnet.train(colour_images(24), model=model, recipe=recipe, device="cpu", out=tmp_path / "run")
    (tmp_path / "w.safetensors").unlink()
    opened = hitnet.open_run(tmp_path / "run")
    kept = load_file(tmp_path / "run" / "weights.safetensors")
    assert not any("mean" in name and "running" not in name for name in kept)  # settings are no weights
    assert all(torch.equal(value, kept[name]) for name, value in opened.model.state_dict().items())
    images = torch.rand(4, 3, 16, 16)
    torch.testing.assert_close(opened.model(images).distances, run.model.cpu()(images).distances)


@pytest.mark.parametrize("features", ["timm:", "timm"])
def test_backbones_that_there_are_not(features, tmp_path):
    model = choose_model("hitnet-pretrained", features=features)
    with pytest.raises(HitNetError, match=f"There is no backbone named '{features}'"):
        hitnet.train(colour_images(12), model=model, device="cpu", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_weights_that_cannot_be_had_leave_no_folder(weights, tmp_path):
    """So that the same command can be given again, with other weights."""
    file, _ = weights
    recipe = hitnet.choose_recipe(epochs=1, batch_size=16)

    def train(weights):
        model = choose_model("hitnet-pretrained", features="timm:tiny", weights=weights)
        return hitnet.train(colour_images(12), model=model, recipe=recipe, device="cpu", out=tmp_path / "run")

    with pytest.raises(HitNetError, match="file as `weights`"):
        train(None)
    save_file({"conv.weight": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(HitNetError, match=r"not fit .* timm:tiny"):
        train(str(tmp_path / "other.safetensors"))
    assert not RunFolder(tmp_path / "run").exists
    assert train(file).folder == tmp_path / "run"
