"""`hitnet train`: the options of network and augmentation, from the command line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import hitnet
from hitnet.cli import app, with_options
from hitnet.data import save_npz
from hitnet.errors import HitNetError
from toy import toy_images


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_npz(toy_images(30), tmp_path / "bands.npz")
    return "bands.npz"


def call(*arguments):
    result = CliRunner().invoke(app, ["train", *map(str, arguments), "--device", "cpu", "--epochs", "1"])
    if isinstance(result.exception, HitNetError):
        raise HitNetError(with_options(str(result.exception)))
    assert result.exit_code == 0, result.output
    return result.output


def test_options_of_the_network(data):
    options = ("--decoder", "conv", "--capsule-dim", 5, "--extra-dim", 2, "--reconstruction-weight", 1.5)
    call(data, "--out", "run", "--norm", "class", *options)
    config = hitnet.open_run("run").config.model
    assert (config.decoder, config.capsule_dim, config.extra_dim, config.reconstruction_weight) == ("conv", 5, 2, 1.5)
    assert config.norm == "class"
    call(data, "--out", "plain")
    config = hitnet.open_run("plain").config.model
    values = (config.decoder, config.capsule_dim, config.extra_dim, config.reconstruction_weight)
    assert values == ("standardised", 16, 0, 0.392)
    assert config.norm == "each"


def test_options_of_the_recipe(data):
    call(data, "--out", "run", "--learning-rate", 0.004, "--batch-size", 7, "--recipe", "paper")
    recipe = hitnet.open_run("run").config.recipe
    assert (recipe.name, recipe.learning_rate, recipe.batch_size) == ("paper", 0.004, 7)


def test_a_network_s_own_value_can_be_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_npz(toy_images(30, shape=(3, 12, 12)), tmp_path / "colours.npz")
    for name, options in (("own", ()), ("refused", ("--norm", "each"))):
        call("colours.npz", "--out", name, *options)
    assert hitnet.open_run("own").config.model.norm == "shared"
    assert hitnet.open_run("refused").config.model.norm == "each"


def test_hybrid_augmentation(data):
    call(data)
    options = ("--augment", "hybrid", "--augment-from", "runs/bands-default-fast-0")
    call(data, *options, "--augment-strength", 2, "--augment-share", 1, "--augment-noise", "component")
    config = hitnet.open_run("runs/bands-default-fast-hybrid-0").config
    recipe = config.recipe
    assert (recipe.augment, recipe.augment_strength, recipe.augment_share) == ("hybrid", 2, 1)
    assert recipe.augment_noise == "component"
    assert config.augment_from["run"] == str(Path("runs/bands-default-fast-0").absolute())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--augment", "hybrid"), "set --augment-from to a run"),
        (("--augment-from", "somewhere"), "--augment-from names a run, .* set --augment hybrid"),
        (("--augment-strength", "2"), "--augment-strength, --augment-share and --augment-noise require --augment"),
        (("--augment-share", "1"), "--augment-strength, --augment-share and --augment-noise require --augment"),
        (("--augment-noise", "component"), "--augment-strength, --augment-share and --augment-noise require --augment"),
        (("--ghost-rule", "nearer"), r"^Ghost options require --ghosts N, e\.g\. --ghosts 1\.$"),
        (("--ghost-probability", "0"), r"^Ghost options require --ghosts N, e\.g\. --ghosts 1\.$"),
        (("--ghosts-from-epoch", "2", "--ghosts", "0"), r"^Ghost options require --ghosts N, e\.g\. --ghosts 1\.$"),
        (("--decoder", "con"), "Did you mean 'conv'"),
        (("--capsule-dim", "0"), "capsule_dim must be a whole number from 1 on"),
        (("--reconstruction-weight", "-1"), "reconstruction_weight must be finite and not negative"),
        (("--reconstruction-weight", "inf"), "reconstruction_weight must be finite and not negative; got inf"),
        (("--extra-dim", "-1"), "extra_dim must be a whole number from 0 on"),
        (("--model", "n1", "--decoder", "conv"), "no capsules for decoder 'conv'"),
    ],
)
def test_mistakes(data, tmp_path, options, says):
    with pytest.raises(HitNetError, match=says):
        call(data, *options)
    assert not (tmp_path / "runs").exists()
