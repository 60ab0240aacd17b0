"""A small finished run whose network modifies images for other trainings."""

import pytest

import hitnet
from toy import toy_images


@pytest.fixture(scope="session")
def source(tmp_path_factory) -> hitnet.Run:
    return hitnet.train(
        toy_images(),
        model="hitnet-small",
        device="cpu",
        epochs=6,
        out=tmp_path_factory.mktemp("source") / "run",
        model_options={"capsule_dim": 4},
        recipe_options={"batch_size": 16, "learning_rate": 5e-3},
    )
