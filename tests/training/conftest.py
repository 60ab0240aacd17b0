"""A small finished run whose network modifies images for other trainings."""

import pytest

import hitnet
from hitnet import choose_model, choose_recipe
from toy import toy_images


@pytest.fixture(scope="session")
def source(tmp_path_factory) -> hitnet.Run:
    return hitnet.train(
        toy_images(),
        model=choose_model("hitnet-small", capsule_dim=4),
        recipe=choose_recipe(epochs=6, batch_size=16, learning_rate=5e-3),
        device="cpu",
        out=tmp_path_factory.mktemp("source") / "run",
    )
