"""A small trained run for all tests of synthesis, and its data on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

import hitnet
from hitnet import Images, Run
from hitnet.data import save_npz
from toy import toy_images


@pytest.fixture(scope="session")
def toy_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "bands.npz"
    save_npz(toy_images(120), path)
    return path


@pytest.fixture(scope="session")
def toy_run(toy_file, tmp_path_factory) -> Run:
    """A run folder, trained long enough that prototypes differ, on data that can be loaded again."""
    out = tmp_path_factory.mktemp("runs") / "bands"
    recipe = hitnet.choose_recipe("fast", epochs=12, batch_size=16, learning_rate=5e-3, shift=0)
    model = hitnet.choose_model("hitnet-small", capsule_dim=4)
    return hitnet.train(toy_file, model=model, recipe=recipe, device="cpu", out=out)


@pytest.fixture(scope="session")
def extra_network() -> hitnet.Network:
    """An untrained network with a convolutional decoder and extra components, for colour images."""
    return hitnet.models.build("hitnet-small", (3, 12, 12), 3, capsule_dim=4, decoder="conv", extra_dim=2).eval()


@pytest.fixture
def toy_set(toy_file) -> Images:
    return hitnet.open_data(toy_file).load("train")
